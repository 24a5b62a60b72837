package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

const limit = 64

type thing struct {
	Name  string `json:"name,omitempty" maxLength:"8"`
	Count *int   `json:"count,omitempty" nullable:"true"`
}

type input struct {
	ID   string `path:"id" pattern:"^[a-z]+$"`
	Days int    `query:"days" minimum:"1" maximum:"90"`
	Body thing
}

type output struct {
	Body thing
}

// newAPI returns a small API with a body, a path and a query parameter.
func newAPI(t *testing.T) (http.Handler, huma.API) {
	t.Helper()
	mux := http.NewServeMux()
	invalidID := apierror.New(http.StatusBadRequest, "invalid_id", "Ids are letters.")
	router := newHuma(mux, huma.Config{OpenAPI: &huma.OpenAPI{Info: &huma.Info{Title: "things", Version: "1"}}},
		map[string]*apierror.Error{"path.id": invalidID})
	huma.Register(router, huma.Operation{
		OperationID: "put", Method: http.MethodPut, Path: "/things/{id}", MaxBodyBytes: limit + 1,
		Errors: []int{http.StatusBadRequest, http.StatusConflict},
	}, func(_ context.Context, in *input) (*output, error) {
		switch in.ID {
		case "taken":
			return nil, apierror.New(http.StatusConflict, "taken", "It is taken.").WithHeader("Retry-After", "5")
		case "broken":
			return nil, errors.New("dial 10.0.0.1: the password is hunter2")
		}
		return &output{Body: in.Body}, nil
	})
	huma.Register(router, huma.Operation{OperationID: "get", Method: http.MethodGet, Path: "/things/{id}"},
		func(context.Context, *struct {
			ID string `path:"id"`
		}) (*output, error) {
			return &output{}, nil
		})
	return apierror.Mux(mux), router
}

func TestHumaRefusals(t *testing.T) {
	t.Parallel()
	handler, _ := newAPI(t)
	tests := []struct {
		name, method, target, media, body string
		status                            int
		code, message                     string // message: a part of it
	}{
		{"fine", "PUT", "/things/a", "application/json", `{"name":"x"}`, 200, "", ""},
		{"fine without a media type", "PUT", "/things/a", "", `{"name":"x"}`, 200, "", ""},
		{"fine with null", "PUT", "/things/a", "", `{"count":null}`, 200, "", ""},
		{"as long as allowed", "PUT", "/things/a", "", `{"name":"x"` + strings.Repeat(" ", limit-12) + `}`, 200, "", ""},
		{"one byte longer", "PUT", "/things/a", "", `{"name":"x"` + strings.Repeat(" ", limit-11) + `}`, 413, "body_too_large", "64 bytes"},
		{"no body", "PUT", "/things/a", "", ``, 400, "invalid_request", "body is required"},
		{"no JSON", "PUT", "/things/a", "", `{"name":`, 400, "invalid_request", "not valid JSON"},
		{"trailing data", "PUT", "/things/a", "", `{"name":"x"}{}`, 400, "invalid_request", "not valid JSON from byte 12"},
		{"invalid UTF-8", "PUT", "/things/a", "", "{\"name\":\"\xff\"}", 400, "invalid_request", "not valid JSON"},
		{"duplicate member", "PUT", "/things/a", "", `{"name":"x","name":"y"}`, 400, "invalid_request", `duplicate member "name"`},
		{"unknown member", "PUT", "/things/a", "", `{"nam":"x"}`, 400, "invalid_request", "nam"},
		{"member in another case", "PUT", "/things/a", "", `{"Name":"x"}`, 400, "invalid_request", `"Name"`},
		{"wrong type", "PUT", "/things/a", "", `{"name":1}`, 400, "invalid_request", "body.name: expected string"},
		{"too long", "PUT", "/things/a", "", `{"name":"123456789"}`, 400, "invalid_request", "body.name"},
		{"another media type", "PUT", "/things/a", "text/plain", `{"name":"x"}`, 415, "unsupported_media_type", ""},
		{"location with its own code", "PUT", "/things/A1", "", `{}`, 400, "invalid_id", "Ids are letters."},
		{"parameter of the wrong type", "PUT", "/things/a?days=x", "", `{}`, 400, "invalid_request", "query.days"},
		{"parameter out of range", "PUT", "/things/a?days=91", "", `{}`, 400, "invalid_request", "query.days"},
		{"unknown parameter", "PUT", "/things/a?day=1", "", `{}`, 400, "unknown_parameter", `"day". Allowed here: days.`},
		{"unknown parameter, none known", "GET", "/things/a?day=1", "", ``, 400, "unknown_parameter", "Allowed here: none."},
		{"duplicate parameter", "PUT", "/things/a?days=1&days=2", "", `{}`, 400, "invalid_request", `Duplicate query parameter "days"`},
		{"parameter without a value", "PUT", "/things/a?days=", "", `{}`, 400, "invalid_request", `"days" has no value`},
		{"malformed query", "PUT", "/things/a?days=%zz", "", `{}`, 400, "invalid_request", "query"},
		{"refusal of the handler", "PUT", "/things/taken", "", `{}`, 409, "taken", "It is taken."},
		{"any other error", "PUT", "/things/broken", "", `{}`, 500, "internal", "Something went wrong on our side."},
		{"wrong method", "POST", "/things/a", "", `{}`, 405, "method_not_allowed", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(test.method, test.target, strings.NewReader(test.body))
			if test.media != "" {
				r.Header.Set("Content-Type", test.media)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != test.status {
				t.Fatalf("status: got %d, want %d: %s", w.Code, test.status, w.Body)
			}
			if test.code != "" {
				checkRefusal(t, w, test.code, test.message)
			}
		})
	}
}

func checkRefusal(t *testing.T, w *httptest.ResponseRecorder, code, message string) {
	t.Helper()
	var refused apierror.Error
	if err := json.Unmarshal(w.Body.Bytes(), &refused); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if refused.Code != code || !strings.Contains(refused.Message, message) {
		t.Errorf("got %s, want code %q and a message with %q", w.Body, code, message)
	}
	if strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("the cause is shown: %s", w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != apierror.ContentType {
		t.Errorf("Content-Type: got %q", got)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: got %q", got)
	}
	if code == "taken" && w.Header().Get("Retry-After") != "5" {
		t.Error("the refusal lost its header")
	}
	if got := w.Header().Get("Allow"); code == "method_not_allowed" && got != "GET, HEAD, PUT" {
		t.Errorf("Allow: got %q", got)
	}
}

func TestBodyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	handler, _ := newAPI(t)
	for name, test := range map[string]struct {
		body io.Reader
		code string
	}{
		"broken connection": {iotest.ErrReader(io.ErrUnexpectedEOF), "invalid_request"},
		"timeout":           {iotest.ErrReader(timeout{}), "request_timeout"},
		"lower limit below": {
			http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(`{"name":"x"}`)), 4), "body_too_large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/things/a", test.body))
			checkRefusal(t, w, test.code, "")
		})
	}
}

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// FuzzAccept checks that every Accept field gets an answer, and that the
// handler does nothing for a client that does not accept the answer. huma's own
// parser panics on "a;b,c".
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"a;b,c", "text/html", "a;b,c, application/json", "*/*;q=0,application/json;q=1", ";;,,q=", "application/json; q=\xff"} {
		f.Add(seed)
	}
	mux := http.NewServeMux()
	router := newHuma(mux, huma.Config{}, nil)
	calls := 0
	huma.Register(router, huma.Operation{OperationID: "get", Method: http.MethodGet, Path: "/things"},
		func(context.Context, *struct{}) (*output, error) {
			calls++
			return &output{}, nil
		})
	f.Fuzz(func(t *testing.T, accept string) {
		r := httptest.NewRequest(http.MethodGet, "/things", nil)
		r.Header.Set("Accept", accept)
		w, before := httptest.NewRecorder(), calls
		mux.ServeHTTP(w, r)
		if want := map[int]int{http.StatusOK: 1}[w.Code]; w.Code != http.StatusOK && w.Code != http.StatusNotAcceptable || calls-before != want {
			t.Errorf("Accept: %q: %d %s", accept, w.Code, w.Body)
		}
	})
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"name":"x","count":1}`, `{"name":"x","name":"y"}`, `{"Name":1}`, `[[[`, "{\"name\":\"\xff\"}", `null`} {
		f.Add([]byte(seed))
	}
	mux := http.NewServeMux()
	router := newHuma(mux, huma.Config{}, nil)
	huma.Register(router, huma.Operation{Method: http.MethodPost, Path: "/", OperationID: "post"},
		func(_ context.Context, in *struct{ Body thing }) (*output, error) { return &output{in.Body}, nil })
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body))))
		switch w.Code {
		case http.StatusOK:
			var sent, got thing
			if err := json.Unmarshal(body, &sent); err != nil {
				t.Fatalf("admitted %q, which is not JSON: %v", body, err)
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Name != sent.Name {
				t.Fatalf("admitted %q as %s", body, w.Body)
			}
		case http.StatusBadRequest:
			if err := json.Unmarshal(w.Body.Bytes(), &apierror.Error{}); err != nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
		default:
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	})
}
