package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

type thing struct {
	Name  string `json:"name,omitempty" maxLength:"8"`
	Count *int   `json:"count,omitempty" nullable:"true"`
}

type output struct {
	Body thing
}

// FuzzAccept checks that every Accept field gets an answer, and that the
// handler does nothing for a client that does not accept the answer. huma's own
// parser panics on "a;b,c".
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"a;b,c", "text/html", "a;b,c, application/json", "*/*;q=0,application/json;q=1", ";;,,q=", "application/json; q=\xff"} {
		f.Add(seed)
	}
	mux := http.NewServeMux()
	router := newHuma(mux, document(), nil)
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
	router := newHuma(mux, document(), nil)
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
