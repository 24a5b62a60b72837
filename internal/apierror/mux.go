package apierror

import (
	"net/http"
	"path"
)

var notFound = New(http.StatusNotFound, "not_found", "This path does not exist.")

// MethodNotAllowed refuses a method at a path that has others.
func MethodNotAllowed(allow string) *Error {
	return New(http.StatusMethodNotAllowed, "method_not_allowed", "This path does not allow the method. Allowed: "+allow+".").WithHeader("Allow", allow)
}

// Unavailable refuses a request that can succeed some seconds later.
func Unavailable(message string) *Error {
	return New(http.StatusServiceUnavailable, "unavailable", message).WithHeader("Retry-After", "5")
}

// Mux serves mux, and refuses requests without a handler in the shape of
// this package: with 405 and Allow if the path has other methods, else with
// 404. A path that ServeMux would redirect to its clean form is 404 too.
func Mux(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, pattern := mux.Handler(r)
		clean := isClean(r.URL.EscapedPath())
		if pattern != "" && clean {
			mux.ServeHTTP(w, r)
			return
		}
		refused := notFound
		if clean {
			recorder := refusalRecorder{header: http.Header{}}
			handler.ServeHTTP(&recorder, r)
			if recorder.status == http.StatusMethodNotAllowed {
				refused = MethodNotAllowed(recorder.header.Get("Allow"))
			}
		}
		CloseUnread(w, r)
		// The client is gone if this fails; ignore the error.
		_ = refused.Write(w)
	})
}

// Routes serves handlers by patterns of http.ServeMux, and refuses what they
// do not match as Mux does. Mux matches each request twice, so Routes uses it
// only for those.
func Routes(handlers map[string]http.Handler) http.Handler {
	matched, all := http.NewServeMux(), http.NewServeMux()
	for pattern, handler := range handlers {
		matched.Handle(pattern, handler)
		all.Handle(pattern, handler)
	}
	refused := Mux(all)
	if handlers["/"] == nil {
		matched.Handle("/", refused)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// ServeMux redirects a path that is not clean.
		if p := r.URL.EscapedPath(); path.Clean(p) == p && p[0] == '/' {
			matched.ServeHTTP(w, r)
			return
		}
		refused.ServeHTTP(w, r)
	})
}

// isClean reports whether ServeMux would not redirect the path.
func isClean(p string) bool {
	clean := path.Clean(p)
	return p == clean || clean != "/" && p == clean+"/"
}

// refusalRecorder records the refusal of ServeMux: only it has the allowed
// methods.
type refusalRecorder struct {
	header http.Header
	status int
}

func (r *refusalRecorder) Header() http.Header         { return r.header }
func (r *refusalRecorder) WriteHeader(status int)      { r.status = status }
func (r *refusalRecorder) Write(b []byte) (int, error) { return len(b), nil }
