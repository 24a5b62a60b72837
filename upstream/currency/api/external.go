package api

import (
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// describeExternal adds two calls to the document that this package does not
// answer: package server answers the login, the gate answers the usage. The
// document describes the whole API that clients see.
func describeExternal(document *huma.OpenAPI) (login, usage *huma.Operation) {
	login, usage = loginOperation(document.Components.Schemas), usageOperation(document.Components.Schemas)
	document.AddOperation(login)
	document.AddOperation(usage)
	return login, usage
}

// LoginRequest is the body of POST /api/login.
type LoginRequest struct {
	_        struct{} `additionalProperties:"true"`
	Email    string   `json:"email" format:"email" minLength:"1" doc:"The e-mail address of the account."`
	Password string   `json:"password" format:"password" minLength:"1" doc:"The password of the account."`
}

// LoginAnswer is the answer to it (RFC 6749, section 5.1).
type LoginAnswer struct {
	Token     string `json:"token" doc:"The token. Send it as a Bearer token in Authorization."`
	TokenType string `json:"token_type" enum:"Bearer" doc:"How to send the token."`
	ExpiresIn int64  `json:"expires_in" minimum:"0" doc:"How many seconds the token is valid."`
}

func loginOperation(schemas huma.Registry) *huma.Operation {
	all := refusals(targetProblems(), unansweredProblems(), attemptProblems(), problemCodes{
		http.StatusUnauthorized:        {"invalid_credentials"},
		http.StatusForbidden:           {"plan_required"},
		http.StatusInternalServerError: {"internal"},
		http.StatusServiceUnavailable:  {"busy"},
	})
	all["200"] = &huma.Response{
		Description: "The response.",
		Content:     map[string]*huma.MediaType{mediaType: {Schema: schemaOf[LoginAnswer](schemas), Example: exampleOf("login.json")}},
	}
	return &huma.Operation{
		OperationID: "login", Method: http.MethodPost, Path: "/api/login", Tags: []string{tagAccount},
		Summary: "Log in",
		Description: "Returns a token for an e-mail address and a password. The token expires, and has all abilities of the account's plan. " +
			"Programs should use an API key from Settings instead. Attempts are limited; they do not count as calls. " +
			"The body is at most 4 KiB of JSON in UTF-8.",
		Security: []map[string][]string{},
		RequestBody: &huma.RequestBody{
			Required: true,
			Content:  map[string]*huma.MediaType{mediaType: {Schema: schemaOf[LoginRequest](schemas), Example: exampleOf("login_request.json")}},
		},
		Responses: all,
	}
}

// attemptProblems are the gate's refusals of a login. This service has the
// same for a body.
func attemptProblems() problemCodes {
	return problemCodes{
		http.StatusBadRequest:            {codeInvalidRequest},
		http.StatusRequestEntityTooLarge: {codeBodyTooLarge},
		http.StatusUnsupportedMediaType:  {codeUnsupportedMedia},
		http.StatusTooManyRequests:       {"too_many_attempts"},
	}
}

func usageOperation(schemas huma.Registry) *huma.Operation {
	all := gatedRefusals(problemCodes{http.StatusBadRequest: {codeUnknownParameter}})
	all["200"] = &huma.Response{
		Description: "The response.",
		Headers:     successHeaders(false),
		Content:     map[string]*huma.MediaType{mediaType: {Schema: schemaOf[api.UsageDocument](schemas), Example: exampleOf("usage.json")}},
	}
	least, most := 1.0, float64(api.MaxUsageDays)
	return &huma.Operation{
		OperationID: "getUsage", Method: http.MethodGet, Path: "/api/usage", Tags: []string{tagAccount},
		Summary:     "Show the usage",
		Description: "The limits of each endpoint, of all endpoints together and of the key, how many calls are left, when the counts reset, and the last calls. The counts include this call.",
		Parameters: []*huma.Param{{
			Name: "days", In: "query",
			Description: fmt.Sprintf("Adds the calls of the last days, including today: 1 to %d.", api.MaxUsageDays),
			Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Examples: []any{2}},
		}},
		Responses: all,
	}
}
