package api

import (
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// operation is a call of the API, as a row: the document, the reference and
// the server are made from it.
type operation struct {
	// name is that of its examples, and its anchor on the page.
	name string
	// Operation has the name of the function in generated clients as its id.
	huma.Operation
	// refusals are the codes of its own refusals.
	refusals problemCodes
	registration
}

// operations returns all rows in the order of the reference. Each call returns
// new values, since registration changes them.
func operations() []operation {
	tags := []string{tagCurrencies}
	return []operation{
		{"login", huma.Operation{
			OperationID: "login", Method: http.MethodPost, Path: "/api/login", Tags: []string{tagAccount}, Security: []map[string][]string{},
			Summary: "Log in",
			Description: "Returns a token for an e-mail address and a password. The token expires, and has all abilities of the account's plan. " +
				"Programs should use an API key from Settings instead. Attempts are limited; they do not count as calls. " +
				"The body is at most 4 KiB of JSON in UTF-8.",
		}, problemCodes{
			http.StatusBadRequest:            {codeInvalidRequest},
			http.StatusUnauthorized:          {"invalid_credentials"},
			http.StatusForbidden:             {"plan_required"},
			http.StatusRequestEntityTooLarge: {codeBodyTooLarge},
			http.StatusUnsupportedMediaType:  {codeUnsupportedMedia},
			http.StatusTooManyRequests:       {"too_many_attempts"},
			http.StatusInternalServerError:   {"internal"},
			http.StatusServiceUnavailable:    {"busy"},
		}, external[loginInput, LoginAnswer](loginResponses)},
		{"currencies", huma.Operation{
			OperationID: "listCurrencies", Method: http.MethodGet, Path: "/api/currencies", Tags: tags,
			Summary:     "List the currencies",
			Description: "Every active currency that has a rate, with its name, its minor unit, the first and the last day with a rate, and the source of its rates.",
		}, problemCodes{
			http.StatusBadRequest: {codeUnknownParameter, codeInvalidRequest},
		}, register((*service).listCurrencies)},
		{"convert", huma.Operation{
			OperationID: "convert", Method: http.MethodGet, Path: "/api/convert/{from}/{amount}/{to}", Tags: tags,
			Summary:     "Convert an amount",
			Description: "Converts an amount of one currency to another with exact decimals. The answer has the rate, so you can recompute the result.",
		}, problemCodes{
			http.StatusBadRequest: {codeInvalidCurrency, codeInvalidAmount, codeInvalidDate, codeUnknownParameter, codeInvalidRequest},
			http.StatusNotFound:   {codeUnknownCurrency, codeCurrencyRetired, codeNoRate},
		}, register((*service).convert)},
		{"rates", huma.Operation{
			OperationID: "getRates", Method: http.MethodGet, Path: "/api/rates/{base}", Tags: tags,
			Summary:     "List the rates of a day",
			Description: "How many units of each other currency one unit of the base buys on one day.",
		}, problemCodes{
			http.StatusBadRequest: {codeInvalidCurrency, codeInvalidDate, codeUnknownParameter, codeInvalidRequest},
			http.StatusNotFound:   {codeUnknownCurrency, codeCurrencyRetired, codeNoRate},
		}, register((*service).listRates)},
		{"history", huma.Operation{
			OperationID: "getHistory", Method: http.MethodGet, Path: "/api/history/{from}/{to}", Tags: tags,
			Summary:     "List the history of a rate",
			Description: "The rates of one currency in another, or in up to 10 others, by day, week or month. Without a range, the 30 days up to the newest rate.",
		}, problemCodes{
			http.StatusBadRequest: {codeInvalidCurrency, codeInvalidDate, codeUnknownParameter, codeInvalidRequest},
			http.StatusNotFound:   {codeUnknownCurrency, codeCurrencyRetired, codeNoRate},
		}, register((*service).listHistory)},
		{"batch", huma.Operation{
			OperationID: "convertBatch", Method: http.MethodPost, Path: "/api/convert/batch", Tags: tags,
			Summary: "Convert many amounts",
			Description: "Makes 1 to 100 conversions with the same rates. The results have the order of the conversions. " +
				"A conversion that fails has an error in place of its result; the others still succeed. An invalid body is refused as a whole. " +
				"The body is at most 64 KiB of JSON in UTF-8.",
		}, problemCodes{
			http.StatusBadRequest:            {codeInvalidRequest, codeUnknownParameter},
			http.StatusRequestEntityTooLarge: {codeBodyTooLarge},
			http.StatusUnsupportedMediaType:  {codeUnsupportedMedia},
		}, register((*service).convertBatch)},
		{"usage", huma.Operation{
			OperationID: "getUsage", Method: http.MethodGet, Path: "/api/usage", Tags: []string{tagAccount}, Parameters: []*huma.Param{days()},
			Summary:     "Show the usage",
			Description: "The limits of each endpoint, of all endpoints together and of the key, how many calls are left, when the counts reset, and the last calls. The counts include this call.",
		}, problemCodes{
			http.StatusBadRequest: {codeUnknownParameter},
		}, external[struct{}, api.UsageDocument](usageResponses)},
	}
}

// loginInput is the request of POST /api/login.
type loginInput struct{ Body LoginRequest }

// LoginRequest is the body of that request.
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

// days is the parameter of GET /api/usage.
func days() *huma.Param {
	least, most := 1.0, float64(api.MaxUsageDays)
	return &huma.Param{
		Name: "days", In: "query",
		Description: fmt.Sprintf("Adds the calls of the last days, including today: 1 to %d.", api.MaxUsageDays),
		Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Examples: []any{2}},
	}
}

// add documents the operation, with its examples. It returns what the document
// has, and what serves it, nil if another program does.
func (o operation) add(s *service, documentation huma.API) (*huma.Operation, http.Handler) {
	get := o.Method == http.MethodGet
	o.Responses = o.responses(get, o.refusals)
	answer := o.Responses["200"]
	answer.Content = map[string]*huma.MediaType{mediaType: {Example: exampleOf(o.name + ".json")}}
	if o.rows {
		addRows(answer.Content, o.name)
	}
	served := o.serve(s, documentation, o.Operation)
	item := documentation.OpenAPI().Paths[o.Path]
	if get {
		return item.Get, served
	}
	item.Post.RequestBody.Content[mediaType].Example = exampleOf(o.name + "_request.json")
	return item.Post, served
}
