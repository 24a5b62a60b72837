package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tokens has the examples where a token is in a header that Caddy would log:
// the path of an endpoint, and the headers with a token in place of TOKEN.
var tokens = map[string]struct {
	path   string
	header []string
}{
	"kong.Caddyfile":           {"/shop/orders", []string{"apikey", "TOKEN"}},
	"other-language.Caddyfile": {"/books", []string{"X-Api-Key", "TOKEN"}},
	"php.Caddyfile":            {"/v1/cart", []string{"X-Api-Key", "TOKEN"}},
	"websocket-sse.Caddyfile": {"/v1/chat", []string{
		"Sec-WebSocket-Protocol", "chat, tollgate.bearer.TOKEN", "Connection", "Upgrade", "Upgrade", "websocket",
		"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
	}},
}

// TestTokensInLogs calls each of these examples with a key, while the service
// does not answer, and looks for the key in the access log and the error log.
func TestTokensInLogs(t *testing.T) {
	files, err := filepath.Glob("*.Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text := read(t, file)
		at, found := tokens[file]
		if !found {
			if strings.Contains(text, "\ttoken_header ") || strings.Contains(text, "\tupgrade\n") {
				t.Errorf("%s has tokens in other headers: the test needs a call", file)
			}
			continue
		}
		t.Run(file, func(t *testing.T) {
			logs := filepath.Join(t.TempDir(), "caddy.log")
			site := address(t)
			gate := load(t, file, site, strings.TrimPrefix(address(t), "http://"), func(config map[string]any) {
				member(config, "logging", "logs", "default")["writer"] = map[string]any{"output": "file", "filename": logs}
				member(config, "apps", "tollgate")["errors"] = "pass" // then Caddy logs the request of an error
			})
			token := newKey(t, gate, "acc_1", "starter")
			header := strings.Split(strings.ReplaceAll(strings.Join(at.header, "\n"), "TOKEN", token), "\n")
			wantStatus(t, 502, "GET", site+at.path, "", header...)
			eventually(t, "both logs", func() bool {
				return loggers(t, logs, token)["http.log.access"] && loggers(t, logs, token)["http.log.error"]
			})
		})
	}
}

// loggers returns what wrote a log about requests with their headers. No line
// may contain the token.
func loggers(t *testing.T, file, token string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), token) {
		t.Fatalf("the log has the token: %s", text)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var entry struct {
			Logger  string
			Request struct{ Headers map[string][]string }
		}
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &entry) != nil {
			t.Fatalf("not a line of JSON: %s", line)
		}
		name, _, _ := strings.Cut(entry.Logger, ".log0")
		found[name] = found[name] || entry.Request.Headers["User-Agent"] != nil
	}
	return found
}
