package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"go/format"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/api"
	"github.com/caddy-tollgate/tollgate/upstream/web/browsertest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	a := s.get(t, "/docs")
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("got %d %s", a.status, a.header.Get("Content-Type"))
	}
	text := string(a.body)
	shown := append(api.Routes(), api.Route{Method: http.MethodPost, Path: "/api/login"}, api.Route{Method: http.MethodGet, Path: "/api/usage"})
	for _, route := range shown {
		if !strings.Contains(text, `<span class="method">`+route.Method+`</span> <code>`+route.Path+`</code>`) {
			t.Errorf("%s %s is not on the page", route.Method, route.Path)
		}
	}
	for _, word := range []string{"Limits", "RateLimit", "Retry-After", "midnight", "upstream_unreachable"} {
		if !strings.Contains(text, word) {
			t.Errorf("the page says nothing of %s", word)
		}
	}
	if !strings.Contains(text, "export BASE="+site.String()+"\n") {
		t.Error("the page does not say where the API is")
	}
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(text)
	if style == nil {
		t.Fatal("the page has no style")
	}
	sum := sha256.Sum256([]byte(style[1]))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if got := a.header.Get("Content-Security-Policy"); got != want {
		t.Errorf("Content-Security-Policy = %q, want %q", got, want)
	}
	if got := a.header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options = %q, want nosniff", got)
	}
	// Nothing on the page may ask another server, or be a script.
	for _, loads := range []string{"<script", "<link", "<img", "<iframe", " src=", "url(", "@import", " style="} {
		if strings.Contains(text, loads) {
			t.Errorf("the page has %s", loads)
		}
	}
	for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if id, local := strings.CutPrefix(link[1], "#"); local && !strings.Contains(text, `id="`+id+`"`) {
			t.Errorf("the link to %s leads nowhere", link[1])
		} else if !local && !slices.Contains([]string{"/openapi.json", "/", "/settings/keys", "/usage", "/docs"}, link[1]) {
			t.Errorf("the page links to %s", link[1])
		}
	}
	if again := s.send(request(http.MethodGet, "/docs", "If-None-Match", a.header.Get("ETag"))); again.status != http.StatusNotModified {
		t.Errorf("got %d for the page's own ETag, want 304", again.status)
	}
}

// TestSamples holds the Go samples to gofmt, and runs one that asks and
// one that sends against a server that wants the token.
func TestSamples(t *testing.T) {
	t.Parallel()
	s := serve(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer tgk_sample" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	blocks := regexp.MustCompile(`(?s)<details name="(\w+)-sample"[^>]*>\s*<summary>Go</summary>\s*<pre[^>]*><code>(.*?)</code>`).
		FindAllStringSubmatch(string(s.get(t, "/docs").body), -1)
	if got, want := len(blocks), len(api.Routes())+len(external); got != want {
		t.Fatalf("got %d samples, want %d", got, want)
	}
	runs := map[string]string{"convert": "result:117.01", "batch": "succeeded:2"}
	for _, block := range blocks {
		name, code := block[1], html.UnescapeString(block[2])+"\n"
		if got, want := strings.Contains(code, "TOKEN"), name != "login"; got != want {
			t.Errorf("%s sends a token: %v, want %v", name, got, want)
		}
		formatted, err := format.Source([]byte(code))
		if err != nil || string(formatted) != code {
			t.Errorf("%s is not formatted (%v):\n%s", name, err, code)
		}
		want, run := runs[name]
		if !run {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(context.Background(), "go", "run", file)
			command.Env = append(os.Environ(), "BASE="+server.URL, "TOKEN=tgk_sample")
			output, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(output), want) {
				t.Errorf("got %s (%v), want %s in it", output, err, want)
			}
		})
	}
}

// TestPageIsAccessible: the page is free of what axe-core finds, in light
// and dark, and no wider than a phone.
func TestPageIsAccessible(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(serve(t).handler)
	t.Cleanup(server.Close)
	browser := browsertest.Start(t)
	for look, options := range map[string][]browsertest.Option{
		"light":      {browsertest.Wide},
		"dark-phone": {browsertest.Phone, browsertest.Dark},
	} {
		page := browser.Person(options...)
		page.Go(server.URL + "/docs")
		for _, violation := range page.Violations() {
			t.Errorf("%s: %s", look, violation)
		}
		if width := browsertest.Evaluate[int](page, "document.documentElement.scrollWidth"); look == "dark-phone" && width > 390 {
			t.Errorf("%d pixels wide, want at most 390", width)
		}
	}
}
