package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// endpoint is one endpoint of the API.
type endpoint struct {
	// name is that of the endpoint's examples, and its anchor on the page.
	name string
	// operation has the name of the function in generated clients as its id.
	operation huma.Operation
	// refusals are the codes of this endpoint's own refusals.
	refusals problemCodes
	register registration
}

// endpoints returns all endpoints in the order of the reference page. Each
// call returns new values, since registration changes them.
func endpoints() []endpoint {
	return []endpoint{
		{
			name: "currencies",
			operation: huma.Operation{
				OperationID: "listCurrencies", Method: http.MethodGet, Path: "/api/currencies",
				Summary:     "List the currencies",
				Description: "Every active currency that has a rate, with its name, its minor unit, the first and the last day with a rate, and the source of its rates.",
			},
			refusals: problemCodes{
				http.StatusBadRequest: {codeUnknownParameter, codeInvalidRequest},
			},
			register: register((*service).listCurrencies),
		},
		{
			name: "convert",
			operation: huma.Operation{
				OperationID: "convert", Method: http.MethodGet, Path: "/api/convert/{from}/{amount}/{to}",
				Summary:     "Convert an amount",
				Description: "Converts an amount of one currency to another with exact decimals. The answer has the rate, so you can recompute the result.",
			},
			refusals: problemCodes{
				http.StatusBadRequest: {codeInvalidCurrency, codeInvalidAmount, codeInvalidDate, codeUnknownParameter, codeInvalidRequest},
				http.StatusNotFound:   {codeUnknownCurrency, codeCurrencyRetired, codeNoRate},
			},
			register: register((*service).convert),
		},
		{
			name: "rates",
			operation: huma.Operation{
				OperationID: "getRates", Method: http.MethodGet, Path: "/api/rates/{base}",
				Summary:     "List the rates of a day",
				Description: "How many units of each other currency one unit of the base buys on one day.",
			},
			refusals: problemCodes{
				http.StatusBadRequest: {codeInvalidCurrency, codeInvalidDate, codeUnknownParameter, codeInvalidRequest},
				http.StatusNotFound:   {codeUnknownCurrency, codeCurrencyRetired, codeNoRate},
			},
			register: register((*service).listRates),
		},
		{
			name: "history",
			operation: huma.Operation{
				OperationID: "getHistory", Method: http.MethodGet, Path: "/api/history/{from}/{to}",
				Summary:     "List the history of a rate",
				Description: "The rates of one currency in another, or in up to 10 others, by day, week or month. Without a range, the 30 days up to the newest rate.",
			},
			refusals: problemCodes{
				http.StatusBadRequest: {codeInvalidCurrency, codeInvalidDate, codeUnknownParameter, codeInvalidRequest},
				http.StatusNotFound:   {codeUnknownCurrency, codeCurrencyRetired, codeNoRate},
			},
			register: register((*service).listHistory),
		},
		{
			name: "batch",
			operation: huma.Operation{
				OperationID: "convertBatch", Method: http.MethodPost, Path: "/api/convert/batch",
				Summary: "Convert many amounts",
				Description: "Makes 1 to 100 conversions with the same rates. The results have the order of the conversions. " +
					"A conversion that fails has an error in place of its result; the others still succeed. An invalid body is refused as a whole. " +
					"The body is at most 64 KiB of JSON in UTF-8.",
			},
			refusals: problemCodes{
				http.StatusBadRequest:            {codeInvalidRequest, codeUnknownParameter},
				http.StatusRequestEntityTooLarge: {codeBodyTooLarge},
				http.StatusUnsupportedMediaType:  {codeUnsupportedMedia},
			},
			register: register((*service).convertBatch),
		},
	}
}

// add documents the endpoint, with its examples, and returns what serves it.
func (e endpoint) add(s *service, documentation huma.API) http.Handler {
	get := e.operation.Method == http.MethodGet
	e.operation.Tags = []string{tagCurrencies}
	e.operation.Responses = responses(get, exampleOf(e.name+".json"), e.refusals)
	if e.register.rows {
		addRows(e.operation.Responses["200"].Content, e.name)
	}
	served := e.register.serve(s, documentation, e.operation)
	if !get {
		documented(documentation.OpenAPI(), e.operation).RequestBody.Content[mediaType].Example = exampleOf(e.name + "_request.json")
	}
	return served
}
