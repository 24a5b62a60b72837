package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHeadersOfAnswers is what a gated answer carries, whatever the
// upstream says.
func TestHeadersOfAnswers(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	_, bearer := s.account(t, "starter", "convert")
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("RateLimit", `"theirs";r=1;t=1`)
		h.Set("RateLimit-Policy", `"theirs";q=1;w=1`)
		h.Set("RateLimit-Remaining", "1")
		h.Set("Cache-Control", "public, max-age=60, s-maxage=600")
		h.Set("CDN-Cache-Control", "max-age=600")
		h.Set("Surrogate-Control", "max-age=600")
		h.Set("Vary", "Accept-Encoding")
		h.Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "body")
	})
	for i, match := range []string{"If-None-Match: \"1\"", "Accept: */*"} {
		hints := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints++
			if h.Get("Ratelimit") == `"convert"` {
				t.Errorf("%d carries the gate's RateLimit", code)
			}
			return nil
		}})
		got, err := s.try(ctx, "GET", convert, "", "Authorization: Bearer "+bearer, match)
		if err != nil || got.status != []int{304, 200}[i] || hints != i {
			t.Fatalf("got %+v with %d early hints (%v)", got, hints, err)
		}
		for name, want := range map[string]string{
			"Ratelimit-Policy": `"convert";q=1000;w=86400`, "Ratelimit-Remaining": "",
			"Cache-Control": "private, max-age=60", "Cdn-Cache-Control": "", "Surrogate-Control": "",
			"Vary": "Accept-Encoding|Authorization", "Etag": `"1"`,
		} {
			if value := strings.Join(got.header.Values(name), "|"); value != want {
				t.Errorf("%d: got %s %q, want %q", got.status, name, value, want)
			}
		}
		if limit := got.header.Values("Ratelimit"); len(limit) != 1 || !strings.HasPrefix(limit[0], fmt.Sprintf(`"convert";r=%d;t=`, 999-i)) {
			t.Errorf("got RateLimit %q", limit)
		}
	}
	id, unlimited := s.account(t, "business")
	if got := s.get(t, convert, unlimited); got.header.Get("Ratelimit") != "" || got.header.Get("Ratelimit-Policy") != "" || s.used(t, id, "convert") != 1 {
		t.Errorf("without a limit: got %v, and counted %d", got.header, s.used(t, id, "convert"))
	}
}

// TestHeaderOperations lets handlers around the gate edit values in place
// without any of it showing in the next answer.
func TestHeaderOperations(t *testing.T) {
	s := start(t, setup{
		zone: calmZone(),
		before: `header {
			>Ratelimit-Policy q= q=1
			>Vary Authorization Authorization-X
			>Cache-Control no-store no-store-x
			>Www-Authenticate api apiapi
		}`,
		behind: "request_header Tollgate-Abilities con concon\nrequest_header Tollgate-Assertion ey eyey\nreverse_proxy UPSTREAM",
	})
	s.behind = strings.ReplaceAll(s.behind, "UPSTREAM", s.upstream.address())
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	_, bearer := s.account(t, "small")
	for range 3 {
		got := s.get(t, convert, bearer)
		if v := got.header.Get("Ratelimit-Policy"); v != `"convert";q=15;w=86400` {
			t.Errorf("got RateLimit-Policy %s", v)
		}
		if v := got.header.Get("Vary") + got.header.Get("Cache-Control"); v != "Authorization-Xno-store-x" {
			t.Errorf("got Vary and Cache-Control %s", v)
		}
		r, _ := s.upstream.last(t)
		if v := r.Header.Get("Tollgate-Abilities"); v != "conconvert rates usage" {
			t.Errorf("got Tollgate-Abilities %s", v)
		}
		if v := r.Header.Get("Tollgate-Assertion"); !strings.HasPrefix(v, "eyeyJ") {
			t.Errorf("got Tollgate-Assertion %s", v)
		}
		if v := s.get(t, convert, "junk").header.Get("Www-Authenticate"); v != `Bearer realm="apiapi", error="invalid_token"` {
			t.Errorf("got WWW-Authenticate %s", v)
		}
	}
}

// TestPlaceholders names the call to other handlers and to the access
// log, and no token.
func TestPlaceholders(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	s := start(t, setup{
		zone: calmZone(),
		before: `log {
		output file ` + log + `
		format json
	}
	header >X-Call "{http.tollgate.endpoint}|{http.tollgate.plan}|{http.tollgate.key}|{http.tollgate.limit}|{http.tollgate.remaining}|{http.auth.user.id}"`,
	})
	id, bearer := s.account(t, "small")
	unlimited, other := s.account(t, "business")
	free, third := s.account(t, "free")
	for _, c := range []struct{ bearer, want string }{
		{bearer, "convert|small|key_" + id + "|5|4|" + id},
		{other, "convert|business|key_" + unlimited + "|unlimited|unlimited|" + unlimited},
		{third, "convert|free|key_" + free + "|||" + free},
		// Caddy does not replace placeholders that are not set.
		{"junk", "{http.tollgate.endpoint}|{http.tollgate.plan}|{http.tollgate.key}|{http.tollgate.limit}|{http.tollgate.remaining}|{http.auth.user.id}"},
	} {
		if got := s.get(t, convert+"?note=%0Ainjected", c.bearer).header.Get("X-Call"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	var text []byte
	eventually(t, "four lines are logged", func() bool {
		var err error
		text, err = os.ReadFile(log)
		return err == nil && strings.Count(string(text), "\n") == 4
	})
	if strings.Contains(string(text), "tgk_") {
		t.Errorf("a token is in the log: %s", text)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var entry struct {
			UserID string `json:"user_id"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.UserID != []string{id, unlimited, free, ""}[i] {
			t.Errorf("line %d: got user_id %q (%v)", i, entry.UserID, err)
		}
	}
}
