package caddymodule_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Threat: Caddy's proxy logs the headers that it sent when an answer breaks off,
// at the default level. The log must not have a secret that lasts. The short
// assertion in it shows that the test looks at the right place.
func TestNoLastingSecretInTheLog(t *testing.T) {
	for name, breaks := range map[string]func(t *testing.T, s *site, bearer string){"service": serviceDies, "client": clientLeaves} {
		s, log := logged(t, "INFO", setup{zone: calmZone()})
		_, bearer := s.account(t, "business")
		breaks(t, s, bearer)
		eventually(t, "the proxy logs it", func() bool { return strings.Contains(log(), "aborting with incomplete response") })
		if text := log(); !strings.Contains(text, "Tollgate-Assertion") || strings.Contains(text, secret) || strings.Contains(text, bearer) {
			t.Errorf("%s: the log lacks the headers, or has the secret or the token: %s", name, text)
		}
	}
}

// serviceDies in the middle of an answer.
func serviceDies(t *testing.T, s *site, bearer string) {
	s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	if got, err := s.try(t.Context(), "GET", convert, "", "Authorization: Bearer "+bearer); err == nil {
		t.Errorf("got the whole of %+v", got)
	}
}

// clientLeaves while the service sends a stream.
func clientLeaves(t *testing.T, s *site, bearer string) {
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			io.WriteString(w, strings.Repeat("data: x\n\n", 1000))
			w.(http.Flusher).Flush()
		}
	})
	conn := s.open(t, "GET "+convert+" HTTP/1.1\r\nHost: gate.test\r\nAuthorization: Bearer "+bearer+"\r\n\r\n")
	defer conn.Close() // it leaves
	if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
}

// Threat: a service answers with the headers that it received, and a
// client or a cache learns an assertion. No answer carries the gate's
// headers: not its head, an early hint or a trailer, wherever the gate
// lets requests through.
func TestAnswersCarryNoIdentity(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	_, bearer := s.account(t, "business")
	answers := map[string]http.HandlerFunc{
		"written": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "body") },
		"flushed": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); io.WriteString(w, "body") },
		"failed": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, "body")
		},
		"copied": func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, strings.NewReader("body")) },
	}
	requests := map[string]string{
		"endpoint": "GET " + convert + " HTTP/1.1\r\nAuthorization: Bearer " + bearer + "\r\n",
		"outside":  "GET /page HTTP/1.1\r\n",
		"login":    "POST /api/login HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 25\r\n",
	}
	for how, answer := range answers {
		s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Link", "</style.css>; rel=preload")
			h.Set("Tollgate-Plan", "evil")
			w.WriteHeader(http.StatusEarlyHints)
			h.Set("Trailer", "Tollgate-Key, X-Sum")
			h.Set("Tollgate-Assertion", "evil")
			h["TOLLGATE-account"] = []string{"evil"}
			answer(w, r)
			h.Set("Tollgate-Key", "evil")
			h.Set("X-Sum", "1")
			h.Set(http.TrailerPrefix+"Tollgate-Role", "evil")
			h.Set(http.TrailerPrefix+"X-More", "2")
		})
		for where, request := range requests {
			got := s.raw(t, request+"Host: gate.test\r\nTe: trailers\r\nConnection: close\r\n\r\n"+`{"email":"a@example.com"}`)
			if strings.Contains(strings.ToLower(got), "tollgate") || strings.Contains(got, "evil") {
				t.Errorf("%s, %s: the client got %s", where, how, got)
			}
			for _, want := range []string{" 103 ", "\r\nX-Sum: 1\r\n", "\r\nX-More: 2\r\n", "body"} {
				if !strings.Contains(got, want) {
					t.Errorf("%s, %s: the client did not get %q: %s", where, how, want, got)
				}
			}
		}
	}
}

// The public keys are served without the secret on the control listener,
// and verify what the gate sends.
func TestPublicKeysOfTheListener(t *testing.T) {
	s := start(t, setup{zone: calmZone(), behind: "handle /tollgate/* {\ntollgate_control\n}\nrespond 404"})
	for target, want := range map[string]int{"/tollgate/jwks.json": 200, "/tollgate/jwks.json/": 401, "/tollgate/JWKS.json": 401, "/tollgate/plans": 401} {
		got := s.ask(t, "GET", target, "")
		if got.status != want || (want == 200) != strings.Contains(got.body, `"kid":"w90pciOIF4eLOo0i6SI8u_GQZnyX088gD_xrr_lZnAk"`) {
			t.Errorf("%s: got %d %s", target, got.status, got.body)
		}
	}
}
