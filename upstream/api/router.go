package api

import (
	"net/http"
	"path"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// router routes requests by patterns of http.ServeMux. apierror.Mux refuses
// the requests that match none. It matches each request twice, which takes a
// fifth of the time of a conversion, so it does not see the other requests.
func router(routes map[string]http.Handler) http.Handler {
	matched, all := http.NewServeMux(), http.NewServeMux()
	for pattern, served := range routes {
		matched.Handle(pattern, served)
		all.Handle(pattern, served)
	}
	refused := apierror.Mux(all)
	matched.Handle("/", refused)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// ServeMux redirects a path that is not clean.
		if p := r.URL.EscapedPath(); strings.HasPrefix(p, "/") && path.Clean(p) == p {
			matched.ServeHTTP(w, r)
		} else {
			refused.ServeHTTP(w, r)
		}
	})
}
