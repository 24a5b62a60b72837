// Package site looks at the sites of Caddy around the gate: which routes reach
// it, what changes a request behind it, which hosts no site has, and whether
// another gate has the same port.
package site

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/route"
)

// Server has what the warnings about routes need of a server in the JSON of
// Caddy.
type Server struct {
	Listen      []string                    `json:"listen"`
	Routes      []siteRoute                 `json:"routes"`
	NamedRoutes map[string]siteRoute        `json:"named_routes"`
	Policies    caddytls.ConnectionPolicies `json:"tls_connection_policies"`
}

type siteRoute struct {
	Match  []match   `json:"match"`
	Handle []handler `json:"handle"`
}

type match struct {
	Path []string `json:"path"`
}

type handler struct {
	Handler string `json:"handler"`
	pathRewrite
	Rewrite  *pathRewrite `json:"rewrite"`         // of reverse_proxy
	Response any          `json:"handle_response"` // of reverse_proxy
	Routes   []siteRoute  `json:"routes"`          // of subroute
}

// pathRewrite is a rewrite.Rewrite.
type pathRewrite struct {
	Method       string            `json:"method"`
	URI          string            `json:"uri"`
	StripPrefix  string            `json:"strip_path_prefix"`
	StripSuffix  string            `json:"strip_path_suffix"`
	URISubstring []json.RawMessage `json:"uri_substring"`
	PathRegexp   []json.RawMessage `json:"path_regexp"`
}

// Check returns a sentence for each rewrite of a path behind the gate that
// open paths reach, for each gate that only some paths or no requests reach, if
// there is no gate, for each control API that listens on all interfaces, and for
// an identity of certificates that no server with a gate verifies.
func Check(servers map[string]Server, p *policy.Policy) (findings []string) {
	guard := p.Guard
	add := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	isOpen := func(path string) bool { return !guard.Covers(path) }
	var server Server
	found, gates, verified := false, false, false // gates: the server has one
	// walk returns the handler that answers all requests, in front of the list or in it, or "".
	var walk func(list []siteRoute, gated, open bool, within, answers string) string
	walk = func(list []siteRoute, gated, open bool, within, answers string) string {
		for _, r := range list {
			within, reached := within, len(r.Match) == 0
			for _, m := range r.Match {
				reached = reached || len(m.Path) == 0 || slices.ContainsFunc(m.Path, isOpen)
				if paths := strings.Join(m.Path, " "); paths != "" && paths != "*" && paths != "/*" {
					within = paths
				}
			}
			open := open && reached
			for _, h := range r.Handle {
				how := h.rewrites(guard)
				switch {
				case h.Handler == "tollgate":
					gated, found, gates = true, true, true
					if within != "" {
						add("tollgate is only for the path %s: other spellings of a path can pass beside it. Put tollgate in front of handle and route, for the whole site.", within)
					}
					if answers != "" {
						add("tollgate is behind %s, which answers all requests: the gate gets none. Put tollgate in front of it.", answers)
					}
				case h.Handler == "tollgate_control" && (within == "" || slices.ContainsFunc(strings.Fields(within), needsSecret)):
					if at := slices.IndexFunc(server.Listen, isPublic); at >= 0 {
						add("tollgate_control listens on all interfaces (%s): other machines can reach the control API. Write bind 127.0.0.1 in its site, or bind with a private address.", server.Listen[at])
					}
				case gated && open && how != "":
					add("A rewrite behind tollgate changes the path (%s): the service gets a path that the gate has not checked. Rewrite in front of tollgate.", how)
				}
				behind := walk(h.Routes, gated, open, within, answers)
				if h.Handler == "static_response" || h.Handler == "reverse_proxy" && h.Response == nil {
					behind = cmp.Or(behind, h.Handler)
				}
				if len(r.Match) == 0 {
					answers = behind
				}
			}
		}
		return answers
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		server, gates = servers[name], false
		walk(server.Routes, false, true, "", "")
		for _, named := range server.NamedRoutes {
			walk([]siteRoute{named}, false, true, "", "")
		}
		verified = verified || gates && server.verifies()
	}
	if !found {
		add("No site has the directive tollgate: no request is checked or counted. Write tollgate in the site in front of your service.")
	}
	if p.Identity.OfCertificate() && found && !verified {
		add("The option identity reads client certificates, but no site with tollgate verifies them: its placeholder is always empty. Write client_auth in tls of the site, with the mode verify_if_given or require_and_verify, and a trust_pool.")
	}
	return findings
}

// verifies tells whether the server verifies client certificates of one of its
// sites.
func (s *Server) verifies() bool {
	return slices.ContainsFunc(s.Policies, func(p *caddytls.ConnectionPolicy) bool {
		if p.ClientAuthentication == nil {
			return false
		}
		var config tls.Config
		auth := *p.ClientAuthentication // it can be in use, and ConfigureTLSConfig changes it
		return auth.ConfigureTLSConfig(&config) == nil && config.ClientAuth >= tls.VerifyClientCertIfGiven
	})
}

// needsSecret tells whether a path of the control API needs the secret.
func needsSecret(path string) bool {
	return !strings.HasPrefix(path, "/tollgate/health/") && path != "/tollgate/jwks.json"
}

// isPublic tells whether a listener is on all interfaces.
func isPublic(listen string) bool {
	address, err := caddy.ParseNetworkAddress(listen)
	ip, _ := netip.ParseAddr(address.Host)
	return err == nil && !address.IsUnixNetwork() && !address.IsFdNetwork() && (address.Host == "" || ip.IsUnspecified())
}

// rewrites tells how a handler changes the path, or "". Some rewrites open no path:
// that of forward_auth, which sets the method of a request of its own, that of
// try_files and php_fastcgi, whose target is a file of the site, and one to a path
// below no guard.
func (h *handler) rewrites(guard *route.Guard) string {
	r := &h.pathRewrite
	switch {
	case h.Handler == "reverse_proxy" && h.Rewrite != nil && h.Rewrite.Method == "":
		r = h.Rewrite
	case h.Handler != "rewrite":
		return ""
	}
	path, _, _ := strings.Cut(r.URI, "?")
	switch {
	case r.StripPrefix+r.StripSuffix != "":
		return "strip " + cmp.Or(r.StripPrefix, r.StripSuffix)
	case len(r.URISubstring)+len(r.PathRegexp) > 0:
		return "replace"
	case path == "", strings.HasPrefix(path, "{http.matchers.file."), !strings.Contains(path, "{") && !guard.Covers(path):
		return ""
	}
	return "to " + r.URI
}

// CheckRunning is Check for a running configuration, whose JSON Caddy has
// dropped.
func CheckRunning(ctx caddy.Context, p *policy.Policy) []string {
	running, err := ctx.AppIfConfigured("http")
	servers := map[string]Server{}
	switch {
	case errors.Is(err, caddy.ErrNotConfigured):
		return Check(servers, p)
	case err != nil:
		return nil
	}
	for name, server := range running.(*caddyhttp.App).Servers {
		s := Server{server.Listen, readRoutes(server.Routes), map[string]siteRoute{}, server.TLSConnPolicies}
		for name, named := range server.NamedRoutes {
			s.NamedRoutes[name] = readRoutes(caddyhttp.RouteList{*named})[0]
		}
		servers[name] = s
	}
	return Check(servers, p)
}

func readRoutes(list caddyhttp.RouteList) (routes []siteRoute) {
	for _, of := range list {
		var r siteRoute
		for _, set := range of.MatcherSets {
			var m match
			for _, matcher := range set {
				if paths, is := matcher.(*caddyhttp.MatchPath); is {
					m.Path = *paths
				}
			}
			r.Match = append(r.Match, m)
		}
		for _, module := range of.Handlers {
			var h handler
			if sub, is := module.(*caddyhttp.Subroute); is {
				h.Routes = readRoutes(sub.Routes)
			} else if text, err := json.Marshal(module); err == nil {
				_ = json.Unmarshal(text, &h) // another handler can have other types
			}
			if m, is := module.(caddy.Module); is {
				h.Handler = m.CaddyModule().ID.Name()
			}
			r.Handle = append(r.Handle, h)
		}
		routes = append(routes, r)
	}
	return routes
}
