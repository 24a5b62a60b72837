package feature_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
)

// strangeRequests are faults that any call can have. They change a valid
// request without a body.
var strangeRequests = map[string]func(*http.Request){
	"nothing strange":     func(*http.Request) {},
	"no secret":           func(r *http.Request) { r.Header.Del("Authorization") },
	"a page":              func(r *http.Request) { r.Header.Set("Accept", "text/html") },
	"unknown parameter":   func(r *http.Request) { r.URL.RawQuery = "x=1" },
	"duplicate parameter": func(r *http.Request) { r.URL.RawQuery = "days=1&days=2" },
	"malformed query":     func(r *http.Request) { r.URL.RawQuery = "%zz" },
	"invalid actor":       func(r *http.Request) { r.Header.Set("Tollgate-Actor", "\x01") },
	"invalid reason":      func(r *http.Request) { r.Header.Set("Tollgate-Reason", "\x01") },
	"empty object":        func(r *http.Request) { send(r, strings.NewReader("{}"), "application/json") },
	"another type":        func(r *http.Request) { send(r, strings.NewReader("{}"), "image/png") },
	"long body":           func(r *http.Request) { send(r, strings.NewReader(strings.Repeat(" ", 1<<16)), "application/json") },
	"long line":           func(r *http.Request) { send(r, strings.NewReader(strings.Repeat(" ", 1<<16)), "application/jsonl") },
	"broken body":         func(r *http.Request) { send(r, iotest.ErrReader(io.ErrUnexpectedEOF), "application/json") },
	"slow body":           func(r *http.Request) { send(r, iotest.ErrReader(controltest.Late{}), "application/json") },
	"slow lines":          func(r *http.Request) { send(r, iotest.ErrReader(controltest.Late{}), "application/jsonl") },
	"slow form": func(r *http.Request) {
		send(r, iotest.ErrReader(controltest.Late{}), "application/x-www-form-urlencoded")
	},
	"broken form": func(r *http.Request) {
		send(r, iotest.ErrReader(io.ErrUnexpectedEOF), "application/x-www-form-urlencoded")
	},
}

func send(r *http.Request, body io.Reader, media string) {
	r.Body, r.ContentLength = io.NopCloser(body), -1
	r.Header.Set("Content-Type", media)
}

// TestEveryStatusIsDocumented makes faulty requests of each operation. The
// document has each status that answers them, and each answer is JSON.
func TestEveryStatusIsDocumented(t *testing.T) {
	t.Parallel()
	intact, broken := controltest.NewChecked(t), controltest.NewChecked(t)
	for _, g := range []*controltest.Checked{intact, broken} {
		g.Handled = feature.Listener(g.Handled, g.Gate, slog.New(slog.DiscardHandler))
	}
	broken.Break(errors.New("the disk is gone"))
	intact.Must(t, http.StatusOK, http.MethodPut, "/tollgate/accounts/known", `{"plan":"starter"}`)
	for path, item := range controltest.DocumentOf(t, intact.Handled).Paths.Map() {
		for method := range item.Operations() {
			for fault, change := range strangeRequests {
				accounts := []string{"known", "unknown", "%2e%2e", strings.Repeat("a", 65)}
				if !strings.Contains(path, "{account}") {
					accounts = accounts[:1]
				}
				for _, account := range accounts {
					target := strings.NewReplacer("{account}", account, "{id}", "key_1", "{endpoint}", "convert", "{period}", "day").Replace(path)
					for _, g := range []*controltest.Checked{intact, broken} {
						r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
						r.Header.Set("Authorization", "Bearer "+controltest.Secret)
						change(r)
						w := httptest.NewRecorder()
						g.Handled.ServeHTTP(w, r)
						status := fmt.Sprint(w.Code)
						if item.GetOperation(method).Responses.Value(status) == nil {
							t.Errorf("%s %s, %s, account %.8s, is not documented: %s %s", method, path, fault, account, status, w.Body)
						}
						if got := w.Header().Get("Content-Type"); w.Code >= 400 && w.Code != 503 && !strings.HasPrefix(got, "application/json") {
							t.Errorf("%s %s, %s: %s is %s", method, path, fault, status, got)
						}
					}
				}
			}
		}
	}
}

// TestDocument: each operation of one account or key can be 404, such as for an
// account that is deleted meanwhile. Integers have a format. Each member of the
// reports and of an import has a description. Nothing is of huma's own errors.
func TestDocument(t *testing.T) {
	t.Parallel()
	document := controltest.DocumentOf(t, controltest.NewChecked(t).Handled)
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			if strings.Contains(path, "{") && operation.Responses.Value("404") == nil {
				t.Errorf("%s %s has no 404", method, path)
			}
		}
	}
	text, err := document.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	short, err := controltest.ShortIntegers(text)
	if err != nil || len(short) > 0 {
		t.Errorf("no format and no small maximum: %v, %v", short, err)
	}
	for _, foreign := range []string{`"422"`, "problem+json", "ErrorModel", "ErrorDetail", "$schema"} {
		if strings.Contains(string(text), foreign) {
			t.Errorf("the document contains %s", foreign)
		}
	}
	for _, name := range []string{
		"Actor", "AuditEntry", "AuditPage", "Refused", "RefusedPage", "UsageCount", "UsageCounts", "UsageTop", "BusyAccount", "NearestLimit", "Summary", "SummaryDay", "RefusedAccount", "Check",
		"Note", "Portal", "AccountLine", "AccountLookup", "KeyLine", "LineResult", "Introspection", "IntrospectionRequest",
	} {
		schema := document.Components.Schemas[name]
		if schema == nil || len(schema.Value.Properties) == 0 {
			t.Errorf("the document has no schema %s", name)
			continue
		}
		for member, property := range schema.Value.Properties {
			if property.Value.Description == "" && property.Ref == "" {
				t.Errorf("%s.%s has no description", name, member)
			}
		}
	}
}

// TestPatternOfAccounts checks the tags of the operations, which are literals.
func TestPatternOfAccounts(t *testing.T) {
	t.Parallel()
	account, _ := reflect.TypeFor[api.OfAccount]().FieldByName("Account")
	refused, _ := reflect.TypeFor[api.RefusedQuery]().FieldByName("Account")
	for _, field := range []reflect.StructField{account, refused} {
		if pattern, length := field.Tag.Get("pattern"), field.Tag.Get("maxLength"); pattern != api.AccountPattern || length != strconv.Itoa(api.MaxAccount) {
			t.Errorf("got %s of at most %s", pattern, length)
		}
	}
}

// TestEachOperationNeedsTheSecret asks for each operation of the document without
// the secret. Those that need none or another one say so there.
func TestEachOperationNeedsTheSecret(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	asked := 0
	for path, item := range controltest.DocumentOf(t, g.Handled).Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.Security != nil {
				continue
			}
			asked++
			w := httptest.NewRecorder()
			g.Handled.ServeHTTP(w, httptest.NewRequest(method, strings.NewReplacer("{", "", "}", "").Replace(path), nil))
			if w.Code != http.StatusUnauthorized {
				t.Errorf("%s %s: got %d", method, path, w.Code)
			}
		}
	}
	if asked < 30 {
		t.Errorf("asked for %d operations", asked)
	}
}
