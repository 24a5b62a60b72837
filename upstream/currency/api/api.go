package api

import (
	"html/template"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
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

// API is the handler of the API: the endpoints below /api/, and the OpenAPI
// document at /openapi.json. All other paths are 404, including those that
// http.ServeMux would redirect.
type API struct {
	http.Handler

	// Reference has the pages of the reference by their path, for a frame
	// around them: the endpoints with samples in one language each, and the
	// errors. It describes the same endpoints as the document.
	Reference map[string]template.HTML
}

// New returns the API. The document and the reference also describe POST
// /api/login and GET /api/usage, which server and gate answer. Site is the
// public URL of the API. A request reads the clock at most twice.
//
// The handler does not authenticate, has no timeouts and does not recover
// panics: the server around it does. An error comes from an embedded template,
// and New panics for another defect of the program: every start fails or none.
func New(source Source, site *url.URL, now func() time.Time) (*API, error) {
	s := &service{source: source, now: now, answers: sync.Pool{New: newKept}}
	documentation := huma.NewAPI(configuration(site), unserved{})
	document := documentation.OpenAPI()
	routes, all := map[string]http.Handler{}, []shown(nil)
	for _, o := range operations() {
		described, served := o.add(s, documentation)
		if all = append(all, shown{o.name, described}); served != nil {
			routes[o.Method+" "+o.Path] = served
		}
	}
	// huma adds schemas of its own errors. This API does not use them.
	for _, name := range [...]string{"ErrorModel", "ErrorDetail"} {
		delete(document.Components.Schemas.Map(), name)
	}
	var err error
	if routes["GET /openapi.json"], err = newDocument(document); err != nil {
		return nil, err
	}
	reference, err := newReference(document, site, all)
	if err != nil {
		return nil, err
	}
	return &API{apierror.Routes(routes), reference}, nil
}

const schemaPrefix = "#/components/schemas/"

// schemaOf returns a reference to the schema of a type.
func schemaOf[T any](registry huma.Registry) *huma.Schema {
	return registry.Schema(reflect.TypeFor[T](), true, "")
}

// oneOf is a value of one of two types.
type oneOf[A, B any] struct{ value any }

// Schema describes both types.
func (oneOf[A, B]) Schema(registry huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{schemaOf[A](registry), schemaOf[B](registry)}}
}

// MarshalJSONTo writes the value.
func (o oneOf[A, B]) MarshalJSONTo(encoder *jsontext.Encoder) error {
	return json.MarshalEncode(encoder, o.value)
}
