package api

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

// Source gives the rates. It is used from many goroutines at once.
type Source interface {
	// Current returns the rates of the moment, never nil. Each request
	// takes them once.
	Current() *rates.Dataset
	// NextExpected returns when newer rates than those of now may be there.
	// Clients keep their answers until then.
	NextExpected(now time.Time) time.Time
}

// Route is an endpoint.
type Route struct {
	// Method is the HTTP method. GET stands for HEAD too.
	Method string
	// Path is the path in the pattern language of http.ServeMux.
	Path string
}

// Routes returns the endpoints in the order of the reference page, without
// the document and the page themselves. A gate that admits calls by
// pattern can be held against it.
func Routes() []Route {
	var routes []Route
	for _, e := range endpoints() {
		routes = append(routes, Route{e.operation.Method, e.operation.Path})
	}
	return routes
}

// New returns the handler of the API: the endpoints below /api/, the
// OpenAPI document at /openapi.json and the reference page at /docs. It
// answers everything else with 404, and paths that http.ServeMux would
// redirect as well. The document and the page also show the calls that
// the server and the gate around it answer, POST /api/login and GET
// /api/usage. The page's samples call the site, the public URL of the
// API. The clock is asked at most twice a request.
//
// It authenticates nobody, limits no time and recovers no panic: that is
// for the server around it. The error is one of the embedded examples or
// the page's template, so it shows at the first start or never.
func New(source Source, site *url.URL, now func() time.Time) (http.Handler, error) {
	s := &service{source: source, now: now}
	mux := http.NewServeMux()
	api := humago.New(mux, configuration())
	document := api.OpenAPI()
	beside, err := describeNeighbours(document)
	if err != nil {
		return nil, err
	}
	shown := []*huma.Operation{beside.login}
	for _, e := range endpoints() {
		if err := e.add(s, api); err != nil {
			return nil, err
		}
		shown = append(shown, documented(document, e.operation))
	}
	shown = append(shown, beside.usage)
	// huma describes errors of its own, which nothing here answers with.
	for _, name := range [...]string{"ErrorModel", "ErrorDetail"} {
		delete(document.Components.Schemas.Map(), name)
	}
	pages, err := newPages(document, site, shown)
	if err != nil {
		return nil, err
	}
	for pattern, page := range pages {
		mux.Handle(http.MethodGet+" "+pattern, page)
	}
	return apierror.Mux(mux), nil
}

const (
	mediaType    = "application/json"
	schemaPrefix = "#/components/schemas/"
)

// marshal writes an answer. No two members of an answer can share a name:
// they are fields of a struct, or codes that are sorted and compacted. To
// check it once more would take a quarter of the time of a table of rates.
func marshal(w io.Writer, v any) error {
	return json.MarshalWrite(w, v, jsontext.AllowDuplicateNames(true))
}

// unmarshal hands a request body to its handler undecoded.
func unmarshal(text []byte, v any) error {
	body, ok := v.(interface{ keep([]byte) })
	if !ok {
		return fmt.Errorf("reading a body into %T: not a raw body", v)
	}
	body.keep(text)
	return nil
}

// schemaOf returns a reference to the schema of a type.
func schemaOf[T any](registry huma.Registry) *huma.Schema {
	return registry.Schema(reflect.TypeFor[T](), true, "")
}
