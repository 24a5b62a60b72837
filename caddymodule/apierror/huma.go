package apierror

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// refusalSchema is the name of the one shape in an OpenAPI document.
const refusalSchema = "Refusal"

// maxDetails bounds how many mistakes of a request one message tells.
const maxDetails = 3

var internal = New(http.StatusInternalServerError, "internal", "Something went wrong on our side.")

// Huma makes a huma API on mux that refuses in this package's shape. It
// needs none of huma's package-level settings, so two APIs in one program
// do not meet.
//
// Bodies are strict JSON: no duplicate or unknown members, no invalid
// UTF-8, nothing behind the value, no other media type, and not longer
// than the operation's MaxBodyBytes. Query parameters must be known and
// must stand there once, and the Accept header must allow JSON. Handlers
// return *Error; the text of any other error is shown to nobody.
//
// What huma's validation refuses has the code invalid_request, unless
// refusals has another for the place it blames, written as "path.account",
// "query.days" or "body.name".
//
// The OpenAPI document is complete in the API's OpenAPI method once all
// operations are registered; serving it is left to the caller.
func Huma(mux *http.ServeMux, config huma.Config, refusals map[string]*Error) huma.API {
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.Formats = map[string]huma.Format{"application/json": strictJSON, "json": strictJSON}
	config.DefaultFormat = "application/json"
	config.RejectUnknownQueryParameters = true
	config.CreateHooks = nil
	config.Transformers = append(slices.Clone(config.Transformers), transformer(refusals))
	if config.OpenAPI == nil {
		config.OpenAPI = &huma.OpenAPI{}
	}
	if len(config.Servers) == 0 {
		config.Servers = []*huma.Server{{URL: "/"}} // where the document itself was found
	}
	config.OnAddOperation = append(slices.Clone(config.OnAddOperation), describe)
	api := humago.New(mux, config)
	api.OpenAPI().Components.Schemas.Map()[refusalSchema] = schema()
	api.UseMiddleware(admit)
	return api
}

// transformer turns huma's own error model into a refusal. It runs before
// the status is written, and ahead of the body.
func transformer(refusals map[string]*Error) huma.Transformer {
	return func(ctx huma.Context, _ string, v any) (any, error) {
		switch v := v.(type) {
		case *Error:
			ctx.SetHeader("Cache-Control", "no-store")
			return v, nil
		case *huma.ErrorModel:
			refused := translate(ctx.Operation(), v, refusals)
			if x := exchangeOf(ctx); x != nil {
				x.status = refused.Status
			}
			ctx.SetHeader("Content-Type", ContentType)
			ctx.SetHeader("Cache-Control", "no-store")
			return refused, nil
		}
		return v, nil
	}
}

// translate says in this package's words what huma refuses by itself.
func translate(op *huma.Operation, model *huma.ErrorModel, refusals map[string]*Error) *Error {
	// huma answers 422 to what parses and is not valid; here that is 400.
	if model.Status != http.StatusBadRequest && model.Status != http.StatusUnprocessableEntity {
		return internal
	}
	details := slices.Clone(model.Errors)
	slices.SortStableFunc(details, func(a, b *huma.ErrorDetail) int { return strings.Compare(a.Location, b.Location) })
	for _, d := range details {
		if refused := refusals[d.Location]; refused != nil {
			return refused
		}
		if name, ok := strings.CutPrefix(d.Location, "query."); ok && !takes(op, name) {
			return unknownParameter(op, name)
		}
	}
	const sentence = "The request is not valid: "
	if len(details) == 0 {
		return invalid(sentence + model.Detail + ".")
	}
	var mistakes []string
	for _, d := range details[:min(len(details), maxDetails)] {
		text := d.Message
		if d.Location != "" && d.Location != "body" {
			text = shorten(d.Location) + ": " + text
		}
		mistakes = append(mistakes, text)
	}
	return invalid(sentence + strings.Join(mistakes, "; ") + ".")
}

// takes tells whether an operation has a query parameter of that name.
func takes(op *huma.Operation, name string) bool {
	return slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "query" && p.Name == name })
}

func unknownParameter(op *huma.Operation, name string) *Error {
	var known []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			known = append(known, p.Name)
		}
	}
	slices.Sort(known)
	hint := "This call takes none."
	if len(known) > 0 {
		hint = "This call takes: " + strings.Join(known, ", ") + "."
	}
	return New(http.StatusBadRequest, "unknown_parameter",
		fmt.Sprintf("There is no query parameter %q here. %s", shorten(name), hint))
}

// shorten bounds a text that the client chose.
func shorten(text string) string {
	const most = 64
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// describe makes the document of an operation tell the refusals as they
// are: huma describes its own model, 422 where 400 is sent, and knows
// nothing of what admit refuses of every operation.
//
// It also lets huma read one byte more than the limit, because huma
// refuses a body of exactly the limit; admit holds the limit itself.
func describe(document *huma.OpenAPI, op *huma.Operation) {
	if op.RequestBody != nil {
		op.MaxBodyBytes++
	}
	for status, response := range op.Responses {
		if response.Content["application/problem+json"] == nil {
			continue
		}
		response.Content = refusalContent()
		if status == strconv.Itoa(http.StatusUnprocessableEntity) {
			delete(op.Responses, status)
			response.Description = http.StatusText(http.StatusBadRequest)
			op.Responses[strconv.Itoa(http.StatusBadRequest)] = response
		}
	}
	op.Responses[strconv.Itoa(http.StatusNotAcceptable)] = &huma.Response{
		Description: http.StatusText(http.StatusNotAcceptable), Content: refusalContent(),
	}
	schemas := document.Components.Schemas.Map()
	maps.DeleteFunc(schemas, func(name string, _ *huma.Schema) bool { return name == "ErrorModel" || name == "ErrorDetail" })
}

func refusalContent() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{
		"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/" + refusalSchema}},
	}
}

func schema() *huma.Schema {
	return &huma.Schema{
		Type:        huma.TypeObject,
		Description: "A refusal. Some carry further members.",
		Properties: map[string]*huma.Schema{
			"message": {Type: huma.TypeString, Description: "A sentence for a person."},
			"code":    {Type: huma.TypeString, Description: "A stable word for a program."},
		},
		Required:             []string{"message", "code"},
		AdditionalProperties: true,
	}
}
