package apierror_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// Routes and Mux answer alike, with and without a handler of all paths.
func TestRoutesAnswersAsMux(t *testing.T) {
	t.Parallel()
	patterns := []string{"GET /a/{id}", "POST /a/{id}", "/b/", "/c", "PUT /c/d/{$}", "GET /e"}
	targets := []string{
		"/", "/a", "/a/", "/a/1", "/a/%2F", "/a//1", "/a/1/", "/a/../b", "/a/%2e%2e/b", "/b", "/b/", "/b/x/y", "/b/./x", "/b//",
		"/c", "/c/", "/c/d", "/c/d/", "/e", "/e?x=1", "/E", "//e", "/nothing", "*",
	}
	for _, all := range [][]string{nil, patterns, append([]string{"/"}, patterns...)} {
		mux, handlers := http.NewServeMux(), map[string]http.Handler{}
		for _, pattern := range all {
			handlers[pattern] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, pattern, " ", r.PathValue("id"))
			})
			mux.Handle(pattern, handlers[pattern])
		}
		want, got := apierror.Mux(mux), apierror.Routes(handlers)
		for _, target := range targets {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW"} {
				if w, g := answerOf(want, method, target), answerOf(got, method, target); !reflect.DeepEqual(g, w) {
					t.Errorf("%d patterns, %s %s: got %v, want %v", len(all), method, target, g, w)
				}
			}
		}
	}
}

type recorded struct {
	status int
	header http.Header
	body   string
}

func answerOf(handler http.Handler, method, target string) recorded {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	body, _ := io.ReadAll(w.Body)
	return recorded{w.Code, w.Header(), string(body)}
}
