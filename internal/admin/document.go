package admin

import (
	"encoding/json"
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

// maxBody is the maximum size of a request's body, in bytes.
const maxBody = 16 << 10

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
			{Name: "introspection", Description: "What a token may do, for other programs (RFC 7662)."},
			{Name: "plans", Description: "The configuration of the gate."},
			{Name: "health", Description: "Whether the gate works. These operations need no secret."},
		},
		Components: &huma.Components{
			Schemas: schemas,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"secret":             {Type: "http", Scheme: "bearer", Description: "The secret that the gate is configured with."},
				"introspection":      {Type: "http", Scheme: "bearer", Description: "The introspection_secret of the gate."},
				"introspectionBasic": {Type: "http", Scheme: "basic", Description: "The introspection_secret of the gate as the password, with any user."},
			},
		},
		Security: []map[string][]string{{"secret": {}}},
	}}
}

// describeChange gives the changes to a T the schema of a T.
func describeChange[T any](schemas huma.Registry) {
	schemas.RegisterTypeAlias(reflect.TypeFor[api.Change[T]](), reflect.TypeFor[T]())
}

// operation completes an operation with the settings of all operations and
// with the statuses of its own refusals. An account can be deleted meanwhile,
// so each operation of one account can be 404.
func operation(op huma.Operation, refusals ...int) huma.Operation {
	op.MaxBodyBytes = maxBody + 1 // see newHuma
	op.Errors = append(slices.Clip(refusals), http.StatusBadRequest, http.StatusUnauthorized, http.StatusServiceUnavailable)
	if op.Method == http.MethodPut || op.Method == http.MethodPost || op.Method == http.MethodPatch {
		op.Errors = append(op.Errors, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if strings.Contains(op.Path, "{account}") {
		op.Errors = append(op.Errors, http.StatusNotFound)
	}
	slices.Sort(op.Errors)
	return op
}

// describe adds an operation that huma does not serve to the document.
func describe(router huma.API, op huma.Operation, ok *huma.Response) {
	op.Responses = map[string]*huma.Response{"200": ok}
	for _, status := range op.Errors {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: refusalContent()}
	}
	router.OpenAPI().AddOperation(&op)
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
		panic("control: rendering the OpenAPI document: " + err.Error())
	}
	mux.HandleFunc("GET /tollgate/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		apierror.CloseUnread(w, r)
		w.Header().Set("Content-Type", "application/json")
		// The client is gone if this fails; ignore the error.
		_, _ = w.Write(text)
	})
}
