package controltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Checked is a control API whose answers are all held against its own
// OpenAPI document.
type Checked struct {
	*Gate
	Handled http.Handler
	router  routers.Router
}

// NewChecked returns a gate with an empty store.
func NewChecked(t *testing.T) *Checked {
	t.Helper()
	return CheckedOver(t, new(Steps))
}

// CheckedOver returns a gate whose changes a test disturbs.
func CheckedOver(t *testing.T, s *Steps) *Checked {
	t.Helper()
	s.Engine = memstore.New()
	g := &Checked{Gate: Over(t, s)}
	g.Handled = g.Handler()
	g.router = router(t, g.Handled)
	return g
}

// Steps is an engine whose changes of documents a test disturbs.
type Steps struct {
	book.Engine
	Before func(ctx context.Context, ids []string) error // an error replaces the change
	During func()                                        // after edit has seen the documents: it is called again
	After  func(errs []error)                            // can replace the errors of a change that was made

	Confirmed func() // after a token was confirmed
}

// Confirm implements book.Engine.
func (s *Steps) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	grant, err := s.Engine.Confirm(ctx, hash, now)
	if s.Confirmed != nil {
		s.Confirmed()
	}
	return grant, err
}

// Change implements book.Engine.
func (s *Steps) Change(ctx context.Context, at time.Time, ids []string, edit func(int, *book.Account) error) []error {
	if s.Before != nil {
		if err := s.Before(ctx, ids); err != nil {
			return slices.Repeat([]error{err}, len(ids))
		}
	}
	if during := s.During; during != nil {
		s.During = nil
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
	if s.After != nil {
		s.After(errs)
	}
	return errs
}

func router(t *testing.T, handler http.Handler) routers.Router {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/tollgate/openapi.json", nil)
	r.Header.Set("Authorization", "Bearer "+Secret)
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

// Call makes one call with the secret and returns its answer.
func (g *Checked) Call(t *testing.T, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+Secret)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	g.Handled.ServeHTTP(w, r)
	g.CheckAnswer(t, r, w)
	return w
}

// CheckAnswer holds an answer against the document and against what all
// answers have in common.
func (g *Checked) CheckAnswer(t *testing.T, r *http.Request, w *httptest.ResponseRecorder) {
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

// Must makes a call that has to succeed with that status, and decodes its
// answer.
func (g *Checked) Must(t *testing.T, status int, method, target, body string) map[string]any {
	t.Helper()
	w := g.Call(t, method, target, body)
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

// Refused makes a call that has to be refused.
func (g *Checked) Refused(t *testing.T, status int, code, method, target, body string) {
	t.Helper()
	w := g.Call(t, method, target, body)
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

// Account makes an account on a plan.
func (g *Checked) Account(t *testing.T, id, plan string) {
	t.Helper()
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/"+id, fmt.Sprintf(`{"plan":%q}`, plan))
}

// Take admits calls of acc_1 today.
func (g *Checked) Take(t *testing.T, endpoint string, calls int) {
	t.Helper()
	opened := g.Opened()
	call := store.Call{Account: "acc_1", Endpoint: endpoint, Day: g.Policy().Calendar.At(g.Now()).Day, At: g.Now(), Cost: 1}
	for range calls {
		if ok, err := opened.Take(t.Context(), call, nil, nil); !ok || err != nil {
			t.Fatalf("taking a call: %v, %v", ok, err)
		}
	}
}

// Used returns today's counts.
func (g *Checked) Used(t *testing.T) map[string]float64 {
	t.Helper()
	used := map[string]float64{}
	for _, row := range g.Must(t, http.StatusOK, "GET", "/tollgate/accounts/acc_1/usage", "")["endpoints"].([]any) {
		row := row.(map[string]any)
		used[row["endpoint"].(string)] = row["used"].(float64)
	}
	return used
}

// Issue makes a key of acc_1.
func (g *Checked) Issue(t *testing.T, body string) (key api.IssuedKey) {
	t.Helper()
	w := g.Call(t, "POST", "/tollgate/accounts/acc_1/keys", body)
	if w.Code != http.StatusCreated {
		t.Fatalf("%s: got %d %s", body, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &key); err != nil {
		t.Fatal(err)
	}
	return key
}

// Opens tells what the token of a key opens now, or that it opens nothing.
func (g *Checked) Opens(t *testing.T, secret string) (store.Grant, bool) {
	t.Helper()
	hash, err := token.Parse(secret)
	if err != nil {
		t.Fatalf("parsing the token: %v", err)
	}
	opened := g.Opened()
	grant, err := opened.Grant(t.Context(), hash, g.Now())
	if err != nil && !errors.Is(err, store.ErrNoGrant) {
		t.Fatal(err)
	}
	return grant, err == nil
}

// Entries returns how many entries the audit log has.
func (g *Checked) Entries(t *testing.T) int {
	t.Helper()
	list, err := g.Opened().ListEntries(t.Context(), book.EntryFilter{Since: Start.AddDate(0, 0, -1)}, store.EntryID{}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// AcceptForeign puts a configuration in force that accepts imported keys.
func (g *Gate) AcceptForeign(t *testing.T) {
	t.Helper()
	config := Config()
	config.ForeignKeys = true
	g.Configure(t, config)
}

// Client returns a client of the control API, which needs no secret.
func (g *Checked) Client() *client.Client { return client.InProcess(g.InProcess()) }

// Late is the error of a body that does not arrive in time.
type Late struct{}

func (Late) Error() string { return "i/o timeout" }

// Timeout implements net.Error.
func (Late) Timeout() bool { return true }

// Temporary implements net.Error.
func (Late) Temporary() bool { return true }
