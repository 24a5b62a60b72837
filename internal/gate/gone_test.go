package gate_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// TestClientGone: whatever the handlers behind the gate do after the client has
// left, the call is not given back, a login attempt does not get its place back,
// and the log does not blame the service. The end of an outage is not logged.
func TestClientGone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		next   handlerFunc
		status int
	}{
		"an error":        {func(http.ResponseWriter, *http.Request) error { return errors.New("Application error 0x0 (remote)") }, 499},
		"an error of Go":  {func(http.ResponseWriter, *http.Request) error { return context.Canceled }, 499},
		"a panic":         {func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }, 499},
		"nothing":         {func(http.ResponseWriter, *http.Request) error { return nil }, 499},
		"a server error":  {func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(503); return nil }, 503},
		"499 of a proxy":  {func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(499); return nil }, 499},
		"an answer cut":   {func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(200); panic(http.ErrAbortHandler) }, 200},
		"an answer fails": {func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(200); return errors.New("reset") }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			p.gate.Policy.Refund = policy.RefundServerErrors
			given := 0
			p.givingBack = func(context.Context) { given++ }
			send := func(method, target, body string) int {
				ctx, leave := context.WithCancel(t.Context())
				r := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
				r.Header = http.Header{"Authorization": {p.bearer}, "Content-Type": {"application/json"}}
				w := httptest.NewRecorder()
				defer func() {
					if reason := recover(); reason != nil && reason != http.ErrAbortHandler {
						panic(reason)
					}
				}()
				// An error is for the server to answer.
				_ = p.gate.Serve(w, r, handlerFunc(func(w http.ResponseWriter, r *http.Request) error {
					leave()
					return test.next(w, r)
				}))
				return w.Code
			}
			for _, target := range []string{"GET " + convert, "POST /api/login", "GET /page"} {
				method, path, _ := strings.Cut(target, " ")
				body := ""
				if method == "POST" {
					body = `{"email":"a@b"}`
				}
				if got := send(method, path, body); got != 0 && got != test.status {
					t.Errorf("%s: answered %d, want %d", target, got, test.status)
				}
			}
			if got := p.lines(); got != "" || given != 0 {
				t.Errorf("given back %d times, logged %s", given, got)
			}
		})
	}
}

// TestClientGoneFromTheStore: a client that leaves while the store is asked is no
// failure of the store.
func TestClientGoneFromTheStore(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	p.taking = func(ctx context.Context) error { return ctx.Err() }
	for _, target := range []string{convert, "/api/login"} {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if target != convert {
			r = httptest.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(`{"email":"a@b"}`))
		}
		r.Header = http.Header{"Authorization": {p.bearer}, "Content-Type": {"application/json"}}
		if err := p.gate.Serve(httptest.NewRecorder(), r, p); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.lines(); got != "" {
		t.Errorf("logged %s", got)
	}
}
