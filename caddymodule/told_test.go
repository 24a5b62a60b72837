package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestCostOfTokens: the gate reads the cost in the body of an answer. It asks for an
// answer without compression, also from a handler behind it. In front of the gate, the
// request has the header of the client. The log names an answer that tells no cost.
func TestCostOfTokens(t *testing.T) {
	s, log := logged(t, "WARN", setup{zone: calmZone(), port: freePort(t), gate: `
		guard /api/
		endpoint chat POST /api/chat {
			cost answer json usage.total_tokens reserve bound max_tokens 100 4KiB
		}
		plan free
		plan small {
			chat 3000
		}
`, before: "header >Seen {http.request.header.Accept-Encoding}", behind: "encode {\ngzip\nminimum_length 1\n}\nreverse_proxy UPSTREAM", upstream: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Asked", strings.Join(r.Header["Accept-Encoding"], ","))
		if r.URL.RawQuery == "tell" {
			fmt.Fprint(w, `{"text":"`, strings.Repeat("word ", 1000), `","usage":{"total_tokens":7}}`)
		}
	}})
	const bound = 2048 + 16 // and the bytes of the body, and max_tokens
	const none = "X-Other: 1"
	told, silent := `{"max_tokens":50}`, `{"max_tokens":9}`
	for name, c := range map[string]struct {
		body, header string
		status       int
		code         string
		used         int64
	}{
		"told":              {told, "Accept-Encoding: gzip", 200, "", 7},
		"no Accept":         {told, none, 200, "", 7},
		"not told":          {silent, "Accept-Encoding: gzip", 200, "", int64(len(silent)) + bound + 9},
		"the default":       {`{}`, "Accept-Encoding: gzip", 200, "", 2 + bound + 100},
		"more than a limit": {`{"max_tokens":1000}`, none, 403, "cost_above_limit", 0},
		"below 0":           {`{"max_tokens":-1}`, none, 400, "invalid_request", 0},
		"two members":       {`{"max_tokens":1,"Max_Tokens":900}`, none, 400, "invalid_request", 0},
		"no JSON":           {told, "Content-Type: text/plain", 415, "unsupported_media_type", 0},
		"long":              {`{"text":"` + strings.Repeat("x", 4096) + `"}`, none, 413, "body_too_large", 0},
	} {
		account, bearer := s.account(t, "small", "chat")
		headers := []string{"Authorization: Bearer " + bearer, c.header}
		if !strings.HasPrefix(c.header, "Content-Type") {
			headers = append(headers, "Content-Type: application/json")
		}
		target := "/api/chat"
		if c.body == told {
			target += "?tell"
		}
		got := s.ask(t, "POST", target, c.body, headers...)
		if got.status != c.status || c.code != "" && got.code() != c.code {
			t.Errorf("%s: got %d %s, want %d %s", name, got.status, got.body, c.status, c.code)
		}
		if c.status == 200 {
			client := ""
			if strings.HasPrefix(c.header, "Accept-Encoding") {
				client = "gzip"
			}
			if asked, seen := got.header.Get("Asked"), got.header.Get("Seen"); asked != "identity" || seen != client || got.header.Get("Content-Encoding") != "" {
				t.Errorf("%s: the service is asked for %q, in front of the gate is %q, and the client gets %v", name, asked, seen, got.header)
			}
		}
		eventually(t, name+" is counted", func() bool { return s.used(t, account, "chat") == c.used })
	}
	if got := strings.Count(log(), "an answer did not tell what the call cost"); got != 1 {
		t.Errorf("the log has %d lines about costs that are not told, want 1:\n%s", got, log())
	}
}
