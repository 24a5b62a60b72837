package api

import (
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

// Source returns the rates. It must be safe for concurrent use.
type Source interface {
	// Current returns the current rates, never nil. Each request calls it
	// once.
	Current() *rates.Dataset
	// NextExpected returns when newer rates are expected. Clients cache
	// answers until then.
	NextExpected(now time.Time) time.Time
}

// Route is an endpoint.
type Route struct {
	// Method is the HTTP method. GET includes HEAD.
	Method string
	// Path is the path in the pattern language of http.ServeMux.
	Path string
}

// Routes returns the endpoints in the order of the reference page, without
// the document and the page. A test compares a gate's configuration with it.
func Routes() []Route {
	var routes []Route
	for _, e := range endpoints() {
		routes = append(routes, Route{e.operation.Method, e.operation.Path})
	}
	return routes
}

// New returns the handler of the API: the endpoints below /api/, the
// OpenAPI document at /openapi.json and the reference page at /docs. All
// other paths are 404, including those that http.ServeMux would redirect.
// The document and the page also describe POST /api/login and GET
// /api/usage, which server and gate answer. Site is the public URL of the
// API, for the samples on the page. A request reads the clock at most twice.
//
// The handler does not authenticate, has no timeouts and does not recover
// panics: the server around it does. An error comes from an embedded file or
// an input type, so every start fails or none.
func New(source Source, site *url.URL, now func() time.Time) (http.Handler, error) {
	s := &service{source: source, now: now}
	documentation := huma.NewAPI(configuration(), unserved{})
	document := documentation.OpenAPI()
	login, usage, err := describeExternal(document)
	if err != nil {
		return nil, err
	}
	routes, shown := map[string]http.Handler{}, []*huma.Operation{login}
	for _, e := range endpoints() {
		if routes[e.operation.Method+" "+e.operation.Path], err = e.add(s, documentation); err != nil {
			return nil, err
		}
		shown = append(shown, documented(document, e.operation))
	}
	shown = append(shown, usage)
	// huma adds schemas of its own errors. This API does not use them.
	for _, name := range [...]string{"ErrorModel", "ErrorDetail"} {
		delete(document.Components.Schemas.Map(), name)
	}
	pages, err := newPages(document, site, shown)
	if err != nil {
		return nil, err
	}
	for path, page := range pages {
		routes[http.MethodGet+" "+path] = page
	}
	return router(routes), nil
}

const (
	mediaType    = "application/json"
	schemaPrefix = "#/components/schemas/"
)

// schemaOf returns a reference to the schema of a type.
func schemaOf[T any](registry huma.Registry) *huma.Schema {
	return registry.Schema(reflect.TypeFor[T](), true, "")
}
