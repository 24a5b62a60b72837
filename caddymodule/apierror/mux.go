package apierror

import (
	"net/http"
	"path"
)

var (
	notFound         = New(http.StatusNotFound, "not_found", "There is nothing here.")
	methodNotAllowed = New(http.StatusMethodNotAllowed, "method_not_allowed", "This cannot be done here; the Allow header lists what can.")
)

// Mux serves mux and refuses in this package's shape what it has no
// handler for: with 404, or with 405 and Allow where another method would
// do. A path that ServeMux would clean up and redirect is 404 as well.
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
			answer := probe{header: http.Header{}}
			handler.ServeHTTP(&answer, r)
			if answer.status == http.StatusMethodNotAllowed {
				refused = methodNotAllowed.WithHeader("Allow", answer.header.Get("Allow"))
			}
		}
		CloseUnread(w, r)
		// The client is gone if this fails; ignore the error.
		_ = refused.Write(w)
	})
}

// isClean tells whether ServeMux would leave the path as it is.
func isClean(p string) bool {
	clean := path.Clean(p)
	return p == clean || clean != "/" && p == clean+"/"
}

// probe learns what ServeMux's own refusal would be, since ServeMux tells
// the allowed methods nowhere else.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
