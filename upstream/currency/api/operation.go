package api

import (
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
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

// service has the state that all handlers share.
type service struct {
	source Source
	now    func() time.Time
	// answers has values of kept: growing a new buffer for each call would cost
	// more than the numbers in it.
	answers sync.Pool
}

// registration is the work of an operation for the document and the server.
type registration struct {
	// rows is true if the answer is tabular.
	rows bool
	// responses documents the answers, with an operation's own refusals.
	responses func(get bool, own problemCodes) map[string]*huma.Response
	// serve documents the operation and returns what serves it.
	serve func(*service, huma.API, huma.Operation) http.Handler
}

// reply is the return type that huma requires.
type reply[O any] struct{ Body *O }

// register returns the registration of a handler. huma documents both types;
// it does not serve them, because its request handling takes longer than a
// conversion. A handler has no context: all data is in memory.
func register[I, O any](handle func(*service, *I) (*O, *apierror.Error)) registration {
	var others []string
	_, rows := any((*O)(nil)).(tabular)
	if rows {
		others = rowTypes[:]
	}
	return registration{rows, countedResponses, func(s *service, documentation huma.API, operation huma.Operation) http.Handler {
		fields := inputOf(reflect.TypeFor[I]())
		huma.Register[I, reply[O]](documentation, operation, nil)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Vary", "Accept")
			in := new(I)
			accepted, refusal := apierror.Negotiate(r.Header, others...)
			if refusal == nil {
				refusal = fields.read(w, r, reflect.ValueOf(in).Elem())
			}
			if refusal != nil {
				// If this fails, the client is gone; ignore the error.
				_ = refusal.Write(w)
				return
			}
			var answer any
			if answer, refusal = handle(s, in); refusal == nil && accepted != mediaType {
				rows := answer.(tabular).table()
				if answer = rows; rows == nil {
					refusal = invalidRequest("CSV and NDJSON have only rows. Omit summary, or send Accept: application/json.")
				}
			}
			if refusal != nil {
				s.send(w, r, refusal.Status, refusalFormat, refusal)
				return
			}
			s.send(w, r, http.StatusOK, formats[accepted], answer)
		})
	}}
}

// external returns the registration of an operation that the login or the gate
// answers: the document describes the whole API that clients see.
func external[I, O any](responses func(get bool, own problemCodes) map[string]*huma.Response) registration {
	return registration{false, responses, func(_ *service, documentation huma.API, operation huma.Operation) http.Handler {
		huma.Register[I, reply[O]](documentation, operation, nil)
		return nil
	}}
}

// unserved is the adapter of a huma API that only documents.
type unserved struct{}

// Handle drops the handler of huma.
func (unserved) Handle(*huma.Operation, func(huma.Context)) {}

// ServeHTTP is never called.
func (unserved) ServeHTTP(http.ResponseWriter, *http.Request) {}
