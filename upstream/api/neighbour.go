package api

import (
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// neighbours are the calls below /api/ that this package describes and does
// not answer: the upstream's server logs in, and the gate tells the usage.
// Clients meet one API, and its document shows all of it.
type neighbours struct{ login, usage *huma.Operation }

// describeNeighbours adds them to the document.
func describeNeighbours(document *huma.OpenAPI) (neighbours, error) {
	var n neighbours
	var err error
	if n.login, err = loginOperation(document.Components.Schemas); err != nil {
		return n, err
	}
	if n.usage, err = usageOperation(document.Components.Schemas); err != nil {
		return n, err
	}
	document.AddOperation(n.login)
	document.AddOperation(n.usage)
	return n, nil
}

// loginRequest is the body of POST /api/login as the document describes it.
type loginRequest struct {
	_        struct{} `additionalProperties:"true"`
	Email    string   `json:"email" format:"email" minLength:"1" doc:"The e-mail address of the account."`
	Password string   `json:"password" format:"password" minLength:"1" doc:"The password of the account."`
}

// loginAnswer is the answer to it (RFC 6749, section 5.1).
type loginAnswer struct {
	Token     string `json:"token" doc:"The token, to be sent as Authorization: Bearer."`
	TokenType string `json:"token_type" enum:"Bearer" doc:"How to send the token."`
	ExpiresIn int64  `json:"expires_in" minimum:"0" doc:"How many seconds the token lives."`
}

func loginOperation(schemas huma.Registry) (*huma.Operation, error) {
	request, err := exampleOf("login_request")
	if err != nil {
		return nil, err
	}
	answer, err := exampleOf("login")
	if err != nil {
		return nil, err
	}
	all := refusals(targetProblems(), unansweredProblems(), problemCodes{
		http.StatusBadRequest:            {codeInvalidRequest},
		http.StatusUnauthorized:          {"invalid_credentials"},
		http.StatusForbidden:             {"plan_required"},
		http.StatusRequestEntityTooLarge: {codeBodyTooLarge},
		http.StatusUnsupportedMediaType:  {codeUnsupportedMedia},
		http.StatusTooManyRequests:       {"too_many_attempts"},
		http.StatusInternalServerError:   {"internal"},
		http.StatusServiceUnavailable:    {"busy"},
	})
	all["200"] = &huma.Response{
		Description: "The answer.",
		Content:     map[string]*huma.MediaType{mediaType: {Schema: schemaOf[loginAnswer](schemas), Example: answer}},
	}
	return &huma.Operation{
		OperationID: "login", Method: http.MethodPost, Path: "/api/login", Tags: []string{tagAccount},
		Summary: "Log in",
		Description: "Exchanges e-mail address and password for a token that lives for a while and may do what the account's plan allows. " +
			"For lasting use make an API key in Settings instead. Attempts are limited, apart from the calls of the day. " +
			"At most 4 KiB of JSON in UTF-8.",
		Security: []map[string][]string{},
		RequestBody: &huma.RequestBody{
			Required: true,
			Content:  map[string]*huma.MediaType{mediaType: {Schema: schemaOf[loginRequest](schemas), Example: request}},
		},
		Responses: all,
	}, nil
}

func usageOperation(schemas huma.Registry) (*huma.Operation, error) {
	answer, err := exampleOf("usage")
	if err != nil {
		return nil, err
	}
	all := gatedRefusals(problemCodes{http.StatusBadRequest: {"invalid_parameter"}})
	all["200"] = &huma.Response{
		Description: "The answer.",
		Headers:     successHeaders(false),
		Content:     map[string]*huma.MediaType{mediaType: {Schema: schemaOf[api.UsageDocument](schemas), Example: answer}},
	}
	least, most := 1.0, float64(api.MaxUsageDays)
	return &huma.Operation{
		OperationID: "usage", Method: http.MethodGet, Path: "/api/usage", Tags: []string{tagAccount},
		Summary:     "See what was used",
		Description: "What is left of each endpoint's calls today, when the counts start again, and the last calls. The call itself is counted in what it shows.",
		Parameters: []*huma.Param{{
			Name: "days", In: "query",
			Description: fmt.Sprintf("Adds the calls of so many days, today included: 1 to %d.", api.MaxUsageDays),
			Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Examples: []any{2}},
		}},
		Responses: all,
	}, nil
}
