package policy_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// model finds the endpoint of a request with a ServeMux, and has the rule of the
// gate: a path is not found where a server that ignores case and a slash at the
// end would serve it with a more specific route of another endpoint.
type model struct {
	mux    http.ServeMux
	routes []lenientRoute
}

// lenientRoute is a route as such a server reads it.
type lenientRoute struct {
	endpoint, method string
	segments         []string // in lower case, "" for a wildcard
	below            bool     // also the paths below
}

// routeIndex is the handler of a route: its index.
type routeIndex int

func (routeIndex) ServeHTTP(http.ResponseWriter, *http.Request) {}

func (m *model) add(endpoint, pattern string) (err error) {
	defer func() {
		if refusal := recover(); refusal != nil {
			err = fmt.Errorf("%v", refusal)
		}
	}()
	m.mux.Handle(strings.TrimPrefix(pattern, "* "), routeIndex(len(m.routes)))
	method, path, _ := strings.Cut(pattern, " ")
	r := lenientRoute{endpoint: endpoint, method: method, below: strings.HasSuffix(path, "/")}
	for _, segment := range segmentsOf(strings.TrimSuffix(path, "{$}")) {
		switch {
		case strings.HasSuffix(segment, "...}"):
			r.below = true
		case segment[0] == '{':
			r.segments = append(r.segments, "")
		default:
			r.segments = append(r.segments, segment)
		}
	}
	m.routes = append(m.routes, r)
	return nil
}

// segmentsOf returns the segments of a path in lower case.
func segmentsOf(path string) []string {
	if path = strings.Trim(path, "/"); path == "" {
		return nil
	}
	return strings.Split(strings.ToLower(path), "/")
}

// takes tells whether the route has all these segments. Those of another route can
// be wildcards.
func (r *lenientRoute) takes(segments []string) bool {
	if len(segments) < len(r.segments) || len(segments) > len(r.segments) && !r.below {
		return false
	}
	for i, segment := range r.segments {
		if segment != "" && segment != segments[i] {
			return false
		}
	}
	return true
}

// includes tells whether the route has all paths of another one.
func (r *lenientRoute) includes(other *lenientRoute) bool {
	return r.takes(other.segments) && (r.below || !other.below)
}

func (r *lenientRoute) has(method string) bool {
	return r.method == method || r.method == "*" || r.method == http.MethodGet && method == http.MethodHead
}

// find returns the endpoint of a request, or "" and whether the rule of the gate
// is the reason.
func (m *model) find(method, path string) (endpoint string, alias bool) {
	handler, _ := m.mux.Handler(&http.Request{Method: method, URL: &url.URL{Path: path}})
	index, ok := handler.(routeIndex)
	if !ok {
		return "", false // nothing, another method or a redirect
	}
	found, segments := &m.routes[index], segmentsOf(path)
	for i := range m.routes {
		r := &m.routes[i]
		if r.endpoint != found.endpoint && r.takes(segments) && r.has(method) && found.includes(r) && !r.includes(found) {
			return "", true
		}
	}
	return found.endpoint, false
}
