package api

import (
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// endpoint is one line of the API.
type endpoint struct {
	operation huma.Operation
	// refusals are the codes that only this endpoint answers with.
	refusals problemCodes
	register registration
}

// endpoints returns the whole API in the order of the reference page. Each
// call makes it anew, since registering adds to it.
func endpoints() []endpoint {
	return []endpoint{
		{
			operation: huma.Operation{
				OperationID: "currencies", Method: http.MethodGet, Path: "/api/currencies",
				Summary:     "List the currencies",
				Description: "Every currency that lives and has a rate, with its name, its minor unit and since when it is quoted.",
			},
			refusals: problemCodes{
				http.StatusBadRequest: {codeUnknownParameter, codeInvalidRequest},
			},
			register: register((*service).listCurrencies),
		},
		{
			operation: huma.Operation{
				OperationID: "convert", Method: http.MethodGet, Path: "/api/convert/{from}/{amount}/{to}",
				Summary:     "Convert an amount",
				Description: "Converts an amount of one currency to another, exactly, and shows the rate, so that the result can be recomputed.",
			},
			refusals: problemCodes{
				http.StatusBadRequest: {codeInvalidCurrency, codeInvalidAmount, codeInvalidDate, codeUnknownParameter, codeInvalidRequest},
				http.StatusNotFound:   {codeUnknownCurrency, codeCurrencyRetired, codeNoRate},
			},
			register: register((*service).convert),
		},
		{
			operation: huma.Operation{
				OperationID: "rates", Method: http.MethodGet, Path: "/api/rates/{base}",
				Summary:     "List the rates of a day",
				Description: "What one unit of a currency buys of each other on one day. All rates are of the same day.",
			},
			refusals: problemCodes{
				http.StatusBadRequest: {codeInvalidCurrency, codeInvalidDate, codeUnknownParameter, codeInvalidRequest},
				http.StatusNotFound:   {codeUnknownCurrency, codeCurrencyRetired, codeNoRate},
			},
			register: register((*service).listRates),
		},
		{
			operation: huma.Operation{
				OperationID: "history", Method: http.MethodGet, Path: "/api/history/{from}/{to}",
				Summary:     "Follow a rate over time",
				Description: "The rates of a pair by day, week or month; without a range those of the 30 days to the newest.",
			},
			refusals: problemCodes{
				http.StatusBadRequest: {codeInvalidCurrency, codeInvalidDate, codeUnknownParameter, codeInvalidRequest},
				http.StatusNotFound:   {codeUnknownCurrency, codeCurrencyRetired, codeNoRate},
			},
			register: register((*service).listHistory),
		},
		{
			operation: huma.Operation{
				OperationID: "batch", Method: http.MethodPost, Path: "/api/convert/batch",
				Summary: "Convert many amounts",
				Description: "Makes 1 to 100 conversions with the same rates. The results stand in the order of the conversions. " +
					"One that fails carries its error, and the others go on; a body that is not of the shape described is refused as a whole. " +
					"At most 64 KiB of JSON in UTF-8.",
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

// add registers the endpoint, with its examples in the document.
func (e endpoint) add(s *service, api huma.API) error {
	example, err := exampleOf(e.operation.OperationID)
	if err != nil {
		return err
	}
	get := e.operation.Method == http.MethodGet
	e.operation.Tags = []string{tagCurrencies}
	e.operation.Responses = responses(get, example, e.refusals)
	e.register(s, api, e.operation)
	if get {
		return nil
	}
	var request json.RawMessage
	if request, err = exampleOf(e.operation.OperationID + "_request"); err != nil {
		return err
	}
	documented(api.OpenAPI(), e.operation).RequestBody.Content[mediaType].Example = request
	return nil
}
