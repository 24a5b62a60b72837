package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// gate is a control API whose answers are all held against its own
// OpenAPI document.
type gate struct {
	*controltest.Gate
	handler http.Handler
	router  routers.Router
}

func newGate(t *testing.T) *gate {
	t.Helper()
	return newGateOver(t, new(steps))
}

// newGateOver returns a gate whose changes a test disturbs.
func newGateOver(t *testing.T, s *steps) *gate {
	t.Helper()
	s.Engine = memstore.New()
	g := &gate{Gate: controltest.Over(t, s)}
	g.handler = g.Handler()
	g.router = router(t, g.handler)
	return g
}

// steps is an engine whose changes of documents a test disturbs.
type steps struct {
	book.Engine
	before func(ctx context.Context, ids []string) error // an error replaces the change
	during func()                                        // after edit has seen the documents: it is called again
	after  func(errs []error)                            // can replace the errors of a change that was made

	confirmed func() // after a token was confirmed
}

func (s *steps) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	grant, err := s.Engine.Confirm(ctx, hash, now)
	if s.confirmed != nil {
		s.confirmed()
	}
	return grant, err
}

func (s *steps) Change(ctx context.Context, at time.Time, ids []string, edit func(int, *book.Account) error) []error {
	if s.before != nil {
		if err := s.before(ctx, ids); err != nil {
			return slices.Repeat([]error{err}, len(ids))
		}
	}
	if during := s.during; during != nil {
		s.during = nil
		for i, id := range ids {
			a, err := s.Get(ctx, id)
			if err != nil {
				a = &book.Account{Account: store.Account{ID: id}}
			}
			_ = edit(i, a) // the second call decides
		}
		during()
	}
	errs := s.Engine.Change(ctx, at, ids, edit)
	if s.after != nil {
		s.after(errs)
	}
	return errs
}

func router(t *testing.T, handler http.Handler) routers.Router {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/tollgate/openapi.json", nil)
	r.Header.Set("Authorization", "Bearer "+controltest.Secret)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("the document: got %d, %v", w.Code, w.Header())
	}
	document, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err != nil {
		t.Fatalf("loading the document: %v", err)
	}
	if err := document.Validate(t.Context(), openapi3.IsOpenAPI31OrLater(), openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Fatalf("the document is not valid: %v", err)
	}
	made, err := legacy.NewRouter(document, openapi3.IsOpenAPI31OrLater())
	if err != nil {
		t.Fatalf("routing by the document: %v", err)
	}
	return made
}

// call makes one call with the secret and returns its answer.
func (g *gate) call(t *testing.T, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+controltest.Secret)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	g.checkAnswer(t, r, w)
	return w
}

// checkAnswer holds an answer against the document and against what all
// answers have in common.
func (g *gate) checkAnswer(t *testing.T, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("%s %s: Cache-Control: got %q", r.Method, r.URL, got)
	}
	if got := w.Header().Get("Link"); got != "" || strings.Contains(w.Body.String(), "$schema") {
		t.Errorf("%s %s: the answer links to a schema", r.Method, r.URL)
	}
	route, parameters, err := g.router.FindRoute(r)
	if err != nil || strings.HasSuffix(r.URL.Path, "/") { // which that router takes for the path without
		if w.Code < 400 {
			t.Errorf("%s %s is not in the document: %v", r.Method, r.URL, err)
		}
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: parameters, Route: route},
		Status:                 w.Code,
		Header:                 w.Header(),
		Body:                   io.NopCloser(bytes.NewReader(w.Body.Bytes())),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		t.Errorf("%s %s: the answer is not as documented: %v\n%s", r.Method, r.URL, err, w.Body)
	}
}

// must makes a call that has to succeed with that status, and decodes its
// answer.
func (g *gate) must(t *testing.T, status int, method, target, body string) map[string]any {
	t.Helper()
	w := g.call(t, method, target, body)
	if w.Code != status {
		t.Fatalf("%s %s: got %d, want %d: %s", method, target, w.Code, status, w.Body)
	}
	if w.Body.Len() == 0 {
		return nil
	}
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %v: %s", method, target, err, w.Body)
	}
	return answer
}

// refused makes a call that has to be refused.
func (g *gate) refused(t *testing.T, status int, code, method, target, body string) {
	t.Helper()
	w := g.call(t, method, target, body)
	var answer struct{ Message, Code string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %v: %s", method, target, err, w.Body)
	}
	if w.Code != status || answer.Code != code || answer.Message == "" {
		t.Errorf("%s %s %s: got %d %s, want %d %s", method, target, body, w.Code, w.Body, status, code)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json; charset=utf-8" {
		t.Errorf("%s %s: Content-Type: got %q", method, target, got)
	}
}

// account makes an account on a plan.
func (g *gate) account(t *testing.T, id, plan string) {
	t.Helper()
	g.must(t, http.StatusOK, "PUT", "/tollgate/accounts/"+id, fmt.Sprintf(`{"plan":%q}`, plan))
}

// Threat: a request without the secret, or a gate whose secret got lost, which
// takes "Bearer" and nothing for it.
func TestEveryCallNeedsTheSecret(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	lost := admin.RequireSecret(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request got through") }), "", "")
	const secret = controltest.Secret
	for name, test := range map[string]struct {
		fields []string
		status int
	}{
		"right":                  {[]string{"Bearer " + secret}, http.StatusOK},
		"scheme in another case": {[]string{"bEARER " + secret}, http.StatusOK},
		"none":                   {nil, http.StatusUnauthorized},
		"empty":                  {[]string{""}, http.StatusUnauthorized},
		"no token":               {[]string{"Bearer"}, http.StatusUnauthorized},
		"empty token":            {[]string{"Bearer "}, http.StatusUnauthorized},
		"wrong":                  {[]string{"Bearer " + strings.Repeat("x", 34)}, http.StatusUnauthorized},
		"beginning of it":        {[]string{"Bearer " + secret[:20]}, http.StatusUnauthorized},
		"more than it":           {[]string{"Bearer " + secret + "x"}, http.StatusUnauthorized},
		"another scheme":         {[]string{"Basic " + secret}, http.StatusUnauthorized},
		"no scheme":              {[]string{secret}, http.StatusUnauthorized},
		"twice":                  {[]string{"Bearer " + secret, "Bearer " + secret}, http.StatusUnauthorized},
	} {
		for _, target := range []string{"/tollgate/plans", "/tollgate/openapi.json", "/tollgate/accounts"} {
			for handler, status := range map[*http.Handler]int{&g.handler: test.status, &lost: http.StatusUnauthorized} {
				r := httptest.NewRequest(http.MethodGet, target, nil)
				r.Header["Authorization"] = test.fields
				w := httptest.NewRecorder()
				(*handler).ServeHTTP(w, r)
				if w.Code != status || status == http.StatusUnauthorized &&
					(w.Header().Get("WWW-Authenticate") != `Bearer realm="tollgate"` || !strings.Contains(w.Body.String(), `"code":"unauthenticated"`)) {
					t.Errorf("%s, %s: got %d %v %s, want %d", name, target, w.Code, w.Header(), w.Body, status)
				}
			}
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	for _, target := range []string{"/", "/tollgate", "/tollgate/", "/tollgate/plans/", "/tollgate/docs", "/tollgate/openapi.yaml", "/tollgate/accounts/", "/tollgate/accounts/a/keys/", "/schemas/Key.json"} {
		g.refused(t, http.StatusNotFound, "not_found", "GET", target, "")
	}
	for target, allow := range map[string]string{
		"/tollgate/plans":                    "GET, HEAD",
		"/tollgate/accounts":                 "GET, HEAD, POST",
		"/tollgate/accounts/a":               "DELETE, GET, HEAD, PUT",
		"/tollgate/accounts/a/keys":          "GET, HEAD, POST",
		"/tollgate/accounts/a/keys/k":        "DELETE, PATCH",
		"/tollgate/accounts/a/keys/k/rotate": "POST",
		"/tollgate/accounts/a/limits":        "GET, HEAD",
		"/tollgate/accounts/a/limits/x/day":  "DELETE, PUT",
		"/tollgate/accounts/a/logins":        "DELETE",
		"/tollgate/accounts/a/usage":         "DELETE, GET, HEAD",
		"/tollgate/openapi.json":             "GET, HEAD",
	} {
		w := g.call(t, "OPTIONS", target, "")
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != allow {
			t.Errorf("%s: got %d, Allow %q, want %q", target, w.Code, w.Header().Get("Allow"), allow)
		}
	}
}

// The gate must say that it cannot, or that it starts, not that it does not
// know: a caller that hears 404 might act on it. A start is not an error.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	for _, down := range []error{store.ErrOpening, errors.New("dial tcp 10.1.2.3:6379: connection refused")} {
		g.Break(down)
		for _, call := range [][3]string{
			{"GET", "/tollgate/accounts", ""},
			{"PUT", "/tollgate/accounts/acc_1", `{"plan":"free"}`},
			{"DELETE", "/tollgate/accounts/acc_1", ""},
			{"POST", "/tollgate/accounts/acc_1/keys", `{"name":"ci"}`},
			{"GET", "/tollgate/accounts/acc_1/keys", ""},
			{"PATCH", "/tollgate/accounts/acc_1/keys/key_x", `{"name":"ci"}`},
			{"DELETE", "/tollgate/accounts/acc_1/keys/key_x", ""},
			{"PUT", "/tollgate/accounts/acc_1/limits/convert/day", `{"limit":1}`},
			{"DELETE", "/tollgate/accounts/acc_1/logins", ""},
			{"GET", "/tollgate/accounts/acc_1/usage", ""},
		} {
			w := g.call(t, call[0], call[1], call[2])
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" || !strings.Contains(w.Body.String(), `"code":"unavailable"`) ||
				strings.Contains(w.Body.String(), "The gate is starting") != (down == store.ErrOpening) || strings.Contains(w.Body.String(), "10.1.2.3") {
				t.Errorf("%s %s: got %d %v %s", call[0], call[1], w.Code, w.Header(), w.Body)
			}
		}
		want := http.StatusOK
		if down == store.ErrOpening {
			want = http.StatusServiceUnavailable // the configuration may still fail
		}
		g.must(t, want, "GET", "/tollgate/plans", "")
		if logged := strings.Contains(g.Log(), "10.1.2.3:6379"); logged != (want == http.StatusOK) || !logged && g.Log() != "" {
			t.Errorf("logged %q", g.Log())
		}
	}
	g.Break(nil)
	if got := g.must(t, http.StatusOK, "GET", "/tollgate/accounts/acc_1", "")["plan"]; got != "starter" {
		t.Errorf("a refused change was made: plan %v", got)
	}
}
