package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// errOtherHost answers a request that no site of a server takes.
var errOtherHost = apierror.New(http.StatusNotFound, "not_found", "There is no site for this host name.")

// lastRoute is the first handler of the last route of a server. It passes the
// requests that the route matches, and answers all others. Caddy would answer
// them with 200 and an empty body, which looks like success: for example a
// change that is sent to the control API at localhost instead of 127.0.0.1.
type lastRoute struct {
	matches   caddyhttp.MatcherSets
	otherwise caddyhttp.Handler // nil for errOtherHost
}

// CaddyModule returns the name that Caddy's metrics have for the route. It is that
// of the route of a site in a Caddyfile, as without this handler.
func (*lastRoute) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.subroute"}
}

// endServer makes the server whose routes are being provisioned answer requests
// that no route matches. A control site that is alone on its server answers
// them itself: the names of its listener are all its own.
//
// It is called while a handler is provisioned. The matchers of all routes are
// provisioned by then, and the last route has its handlers added later or now.
func endServer(ctx caddy.Context, alone caddyhttp.MiddlewareHandler) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || len(server.Routes) == 0 {
		return
	}
	last := &server.Routes[len(server.Routes)-1]
	if len(last.MatcherSets) == 0 || last.Group != "" {
		return
	}
	end := &lastRoute{matches: last.MatcherSets}
	if alone != nil && len(server.Routes) == 1 {
		end.otherwise = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			return alone.ServeHTTP(w, r, nil)
		})
	}
	last.MatcherSets = nil
	last.Handlers = append([]caddyhttp.MiddlewareHandler{end}, last.Handlers...)
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (l *lastRoute) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	matches, err := l.matches.AnyMatchWithError(r)
	switch {
	case err != nil:
		return err
	case matches:
		return next.ServeHTTP(w, r)
	case l.otherwise != nil:
		return l.otherwise.ServeHTTP(w, r)
	}
	return errOtherHost.Write(w)
}

// Interface guard.
var _ caddyhttp.MiddlewareHandler = (*lastRoute)(nil)
