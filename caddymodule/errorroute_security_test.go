package caddymodule_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Threat: an error route passes a refused request on to a service that writes
// error pages, and hands it a live key, a session or a password. Expectation: it
// gets none of them, whatever the refusal, and no identity.
func TestErrorRouteGetsNoSecrets(t *testing.T) {
	pages := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(text)
	})
	const login = "Content-Type: application/json"
	behind := "reverse_proxy " + deadAddress + "\nhandle_errors {\nreverse_proxy " + pages.address() + "\n}"
	for _, status := range []string{"401", "409"} {
		behind += "\n@" + status + " header X-Behind " + status + "\nerror @" + status + " " + status
	}
	s := start(t, setup{zone: calmZone(), more: "errors pass\ntoken_header X-Api-Key", behind: behind})
	for name, c := range map[string]struct {
		method, target, body string
		header               []string
	}{
		"expired":             {method: "GET", target: convert, header: []string{"Authorization: Bearer tgk_x"}},
		"no entitlement":      {method: "POST", target: "/api/convert/batch", header: []string{"Authorization: Bearer LIVE"}},
		"token header":        {method: "POST", target: "/api/convert/batch", header: []string{"X-Api-Key: LIVE"}},
		"two tokens":          {method: "GET", target: convert, header: []string{"Authorization: Bearer LIVE", "X-Api-Key: LIVE"}},
		"query":               {method: "GET", target: convert + "?api_key=LIVE"},
		"query of no route":   {method: "GET", target: "/api/x?token=LIVE"},
		"bad path":            {method: "GET", target: "/api//x", header: []string{"Authorization: Bearer LIVE"}},
		"no route":            {method: "GET", target: "/api/x", header: []string{"Authorization: Bearer LIVE", "X-Api-Key: LIVE"}},
		"method":              {method: "PUT", target: convert, header: []string{"Authorization: Bearer LIVE"}},
		"subprotocol":         {method: "GET", target: "/api/x", header: []string{"Sec-WebSocket-Protocol: tollgate.bearer.LIVE, chat"}},
		"no service":          {method: "GET", target: convert, header: []string{"Authorization: Bearer LIVE"}},
		"a handler behind":    {method: "GET", target: convert, header: []string{"X-Behind: 409", "Authorization: Bearer LIVE"}},
		"body of a login":     {method: "POST", target: "/api/login", body: `{"email":"ada@example.com"}x`, header: []string{login}},
		"login that failed":   {method: "POST", target: "/api/login", body: `{"email":"ada@example.com","password":"hunter2"}`, header: []string{"X-Behind: 401", login}},
		"login of no service": {method: "POST", target: "/api/login", body: `{"email":"ada@example.com","password":"hunter2"}`, header: []string{login}},
	} {
		t.Run(name, func(t *testing.T) {
			_, bearer := s.account(t, "small")
			header := []string{"Cookie: session=1", "Tollgate-Account: acc_9"}
			for _, line := range c.header {
				header = append(header, strings.ReplaceAll(line, "LIVE", bearer))
			}
			before := pages.seen()
			got := s.ask(t, c.method, strings.ReplaceAll(c.target, "LIVE", bearer), c.body, header...)
			if got.status != http.StatusTeapot || pages.seen() != before+1 {
				t.Fatalf("got %d, want the page of the error route", got.status)
			}
			r, body := pages.last(t)
			if strings.Contains(r.RequestURI, bearer) {
				t.Errorf("the error route got the URL %s", r.RequestURI)
			}
			for name, values := range r.Header {
				if text := strings.Join(values, " "); name == "Cookie" || strings.HasPrefix(name, "Tollgate-") || strings.Contains(text, "tgk_") || strings.Contains(text, bearer) {
					t.Errorf("the error route got %s: %s", name, text)
				}
			}
			if body != "" {
				t.Errorf("the error route got the body %q", body)
			}
		})
	}
}

// Threat: a client sends the gate's headers, and a placeholder behind the gate
// reads them. Expectation: it has those of the gate, or none.
func TestPlaceholderOfAForgedHeader(t *testing.T) {
	s := start(t, setup{zone: calmZone(), behind: "respond `account={http.request.header.Tollgate-Account} url={http.request.header.X-Original-Url} token={http.request.header.Authorization}`"})
	id, bearer := s.account(t, "business")
	for target, want := range map[string]string{convert: "account=" + id + " url= token=", "/page": "account= url= token=Bearer " + bearer} {
		got := s.ask(t, "GET", target, "", "Authorization: Bearer "+bearer, "Tollgate-Account: acc_9", "X-Original-URL: /api/internal")
		if got.body != want {
			t.Errorf("%s: got %d %s", target, got.status, got.body)
		}
	}
}

// Threat: a refused request has the gate's headers as trailers, and an error
// route passes them on. Expectation: they are gone.
func TestErrorRouteGetsNoTrailers(t *testing.T) {
	trailers := make(chan http.Header, 1)
	pages := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		trailers <- r.Trailer
		w.WriteHeader(http.StatusTeapot)
	})
	s := start(t, setup{zone: calmZone(), more: "errors pass", behind: "respond ok\nhandle_errors {\nreverse_proxy " + pages.address() + "\n}"})
	send(t, s, "POST /api/convert/batch HTTP/1.1", "Transfer-Encoding: chunked\r\nTrailer: Tollgate-Account\r\n", "2\r\nab\r\n0\r\nTollgate-Account: acc_9\r\n\r\n")
	if got := <-trailers; len(got) > 0 {
		t.Errorf("the error route got the trailers %v", got)
	}
}

// TestPlaceholderOfTheBody: a placeholder behind the gate reads the body of the
// request that all handlers share, and the service still gets it.
func TestPlaceholderOfTheBody(t *testing.T) {
	for _, more := range []string{"", "mode shadow"} {
		s := start(t, setup{zone: calmZone(), more: more})
		s.behind = "request_header X-Body {http.request.body}\nreverse_proxy " + s.upstream.address()
		if err := s.reload(); err != nil {
			t.Fatal(err)
		}
		_, bearer := s.account(t, "starter", "batch", "convert")
		const body = `{"email":"ada@example.com","password":"x"}`
		for _, target := range []string{"/api/convert/batch", "/page", "/api/login"} {
			got := s.ask(t, "POST", target, body, "Authorization: Bearer "+bearer, asJSON)
			if got.status != http.StatusOK {
				t.Errorf("%q, %s: got %d %s", more, target, got.status, got.body)
				continue
			}
			if r, text := s.upstream.last(t); text != body || r.Header.Get("X-Body") != body {
				t.Errorf("%q, %s: the service got the body %q and the header %q", more, target, text, r.Header.Get("X-Body"))
			}
		}
	}
}
