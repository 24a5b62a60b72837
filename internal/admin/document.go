package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// MaxBody is the maximum size of a request's body, in bytes.
const MaxBody = 16 << 10

// document returns the head of the OpenAPI document.
func document() huma.Config {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	describeChange[string](schemas)
	describeChange[[]string](schemas)
	describeChange[*time.Time](schemas)
	describeChange[[]api.Limit](schemas)
	return huma.Config{OpenAPI: &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title:   "Tollgate control API",
			Version: "1",
			Description: "Administers the accounts, keys, limits and counts of a gate. All times are RFC 3339 in UTC. " +
				"A refusal is a JSON object with a message for people and a code for programs, and never a page.",
			Contact: &huma.Contact{Name: "Tollgate", URL: "https://github.com/caddy-tollgate/tollgate"},
			License: &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"},
		},
		Tags: []*huma.Tag{
			{Name: "accounts", Description: "Accounts and their plans."},
			{Name: "limits", Description: "Overrides: limits of one account that replace those of its plan."},
			{Name: "keys", Description: "API keys that people create, and the tokens of logins."},
			{Name: "usage", Description: "The counts of calls."},
			{Name: "audit", Description: "Who changed what."},
			{Name: "plans", Description: "The configuration of the gate."},
			{Name: "health", Description: "Whether the gate works. These operations need no secret."},
		},
		Components: &huma.Components{
			Schemas: schemas,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"secret": {Type: "http", Scheme: "bearer", Description: "The secret that the gate is configured with."},
			},
		},
		Security: []map[string][]string{{"secret": {}}},
	}}
}

// describeChange gives the changes to a T the schema of a T.
func describeChange[T any](schemas huma.Registry) {
	schemas.RegisterTypeAlias(reflect.TypeFor[api.Change[T]](), reflect.TypeFor[T]())
}

// operation describes a row for huma, with the settings of all operations and
// with the statuses of its own refusals. An account can be deleted meanwhile, so
// each operation of one account can be 404.
func operation[In, Out any](row api.Operation[In, Out]) huma.Operation {
	op := huma.Operation{
		OperationID: row.ID, Method: row.Method, Path: row.Path, Tags: []string{row.Tag}, DefaultStatus: row.Status,
		Summary: row.Summary, Description: row.Description, MaxBodyBytes: MaxBody + 1, // see newHuma
		Errors: append(slices.Clip(row.Errors), http.StatusBadRequest, http.StatusUnauthorized, http.StatusServiceUnavailable),
	}
	if op.Method == http.MethodPut || op.Method == http.MethodPost || op.Method == http.MethodPatch {
		op.Errors = append(op.Errors, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if strings.Contains(op.Path, "{account}") {
		op.Errors = append(op.Errors, http.StatusNotFound)
	}
	slices.Sort(op.Errors)
	return op
}

// Described is what the document says of an operation beyond its row.
type Described struct {
	// Serve answers the operation. It is nil if the handler of the Server does not.
	Serve           http.HandlerFunc
	In, Out         []string // the media types of the bodies; no In without a body
	InText, OutText string
	Errors          []int
	Parameters      []*huma.Param
	Security        []map[string][]string
	// Tag and Schemes are for the operation alone.
	Tag     *huma.Tag
	Schemes map[string]*huma.SecurityScheme
}

// Describe adds an operation that huma does not serve: its bodies are not JSON, or
// it takes any Accept header.
func Describe[In, Out any](s *Server, row api.Operation[In, Out], d Described) {
	op := huma.Operation{
		OperationID: row.ID, Method: row.Method, Path: row.Path, Tags: []string{row.Tag}, Summary: row.Summary, Description: row.Description,
		Parameters: d.Parameters, Security: d.Security,
		Responses: map[string]*huma.Response{"200": {Description: d.OutText, Content: contentOf[Out](s.router, d.Out...)}},
	}
	if d.In != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Description: d.InText, Content: contentOf[In](s.router, d.In...)}
	}
	for _, status := range append(d.Errors, row.Errors...) {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: refusalContent()}
	}
	document := s.router.OpenAPI()
	document.AddOperation(&op)
	maps.Copy(document.Components.SecuritySchemes, d.Schemes)
	if d.Tag != nil {
		document.Tags = append(document.Tags, d.Tag)
	}
	if d.Serve != nil {
		s.mux.HandleFunc(row.Method+" "+row.Path, d.Serve)
	}
}

// contentOf describes a body of a T.
func contentOf[T any](router huma.API, mediaTypes ...string) map[string]*huma.MediaType {
	content := map[string]*huma.MediaType{}
	for _, mediaType := range mediaTypes {
		content[mediaType] = &huma.MediaType{Schema: router.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")}
	}
	return content
}

// serveDocument adds the OpenAPI document. Call it after all others.
func serveDocument(mux *http.ServeMux, router huma.API) {
	text, err := json.Marshal(router.OpenAPI())
	if err != nil {
		// Only a mistake in this package can be the cause.
		panic("admin: rendering the OpenAPI document: " + err.Error())
	}
	mux.HandleFunc("GET /tollgate/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		apierror.CloseUnread(w, r)
		w.Header().Set("Content-Type", "application/json")
		// The client is gone if this fails; ignore the error.
		_, _ = w.Write(text)
	})
}
