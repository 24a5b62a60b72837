package browsertest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// fetched is what the script of a page sees of an answer.
type fetched struct {
	Error  string            `json:"error"` // of fetch; the page sees nothing else then
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
}

// site serves an empty page on an origin of its own, and returns the origin.
func site(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// fetch calls an address from the script of a page. Options are those of
// fetch, as JavaScript.
func fetch(p *browsertest.Page, address, options string) fetched {
	return browsertest.EvaluateAsync[fetched](p, fmt.Sprintf(`fetch(%q, %s)
		.then(async r => ({status: r.status, header: Object.fromEntries(r.headers), body: await r.text()}))
		.catch(e => ({error: String(e)}))`, address, options))
}

// TestCORS calls the API from pages of other origins in a browser. A page of
// an origin that is listed uses it like any client, and sees why it was
// refused. A page of another origin reads nothing.
func TestCORS(t *testing.T) {
	t.Parallel()
	listed, other := site(t), site(t)
	s := stack.Start(t, stack.Shipped(t, "guard /api/\n", "guard /api/\ncors "+listed+"\n", "convert 1000\n", "convert 3\n"))
	var key struct{ Token string }
	if err := json.Unmarshal([]byte(s.Tollgate("key", "create", addAccount(s, "starter"), "--name", "page", "--json")), &key); err != nil {
		t.Fatal(err)
	}
	withToken := func(more string) string {
		return `{cache: "no-store", headers: {Authorization: "Bearer ` + key.Token + `"` + more + `}}`
	}
	browser := browsertest.Start(t)
	p := browser.Person()
	p.Go(listed)
	t.Run("call", func(t *testing.T) {
		got := fetch(p, s.Address+convert, withToken(""))
		if got.Status != http.StatusOK || !strings.Contains(got.Body, `"result"`) || !strings.HasPrefix(got.Header["ratelimit"], `"convert";r=2;`) || got.Header["ratelimit-policy"] == "" {
			t.Fatalf("got %+v", got)
		}
		again := fetch(p, s.Address+convert, withToken(`, "If-None-Match": `+fmt.Sprintf("%q", got.Header["etag"])))
		if again.Status != http.StatusNotModified || got.Header["etag"] == "" {
			t.Errorf("If-None-Match: got %+v", again)
		}
	})
	t.Run("over the limit", func(t *testing.T) {
		if got := fetch(p, s.Address+convert, withToken("")); got.Status != http.StatusOK {
			t.Fatalf("got %+v", got)
		}
		got := fetch(p, s.Address+convert, withToken(""))
		if got.Status != http.StatusTooManyRequests || !strings.Contains(got.Body, `"quota_exceeded"`) || got.Header["retry-after"] == "" || got.Header["x-should-retry"] != "false" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("unknown path", func(t *testing.T) {
		got := fetch(p, s.Address+"/api/unknown", "{}")
		if got.Status != http.StatusNotFound || got.Header["link"] != `</docs>; rel="service-doc"` {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("another origin", func(t *testing.T) {
		p := browser.Person()
		p.Go(other)
		for _, options := range []string{withToken(""), `{}`} {
			if got := fetch(p, s.Address+convert, options); got.Error == "" {
				t.Errorf("%s: got %+v", options, got)
			}
		}
		if got := fetch(p, s.Address+"/openapi.json", `{}`); got.Status != http.StatusOK {
			t.Errorf("the document: got %+v", got)
		}
	})
}
