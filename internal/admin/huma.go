package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// refusalSchema is the name of a refusal's schema in the OpenAPI document.
const refusalSchema = "Refusal"

// maxDetails is the maximum number of mistakes that one message lists.
const maxDetails = 3

var errInternal = apierror.New(http.StatusInternalServerError, "internal", "Something went wrong on our side.")

// newHuma returns a huma API on mux that refuses in the shape of package
// apierror. It changes none of huma's package-level variables: other
// modules of the process may use huma too.
//
// Bodies are strict JSON: no duplicate or unknown members, no invalid
// UTF-8, no data after the value, and not longer than the operation's
// MaxBodyBytes less one, since huma refuses a body of exactly MaxBodyBytes.
// Query parameters must be known, unique and not empty, and the Accept
// header must allow JSON. Handlers return *apierror.Error; the text of any
// other error is not sent.
//
// A request that huma's validation refuses has the code invalid_request,
// unless refusals has an entry for the invalid location, for example
// "path.account", "query.days" or "body.name".
//
// The OpenAPI document is complete once all operations are registered. The
// caller serves it.
func newHuma(mux *http.ServeMux, config huma.Config, refusals map[string]*apierror.Error) huma.API {
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.Formats = map[string]huma.Format{"application/json": strictJSON, "json": strictJSON}
	config.DefaultFormat = "application/json"
	config.RejectUnknownQueryParameters = true
	config.CreateHooks = nil
	config.Transformers = []huma.Transformer{refusalTransformer(refusals)}
	config.Servers = []*huma.Server{{URL: "/"}} // the server of the document
	config.OnAddOperation = []huma.AddOpFunc{describeRefusals}
	router := humago.New(mux, config)
	router.OpenAPI().Components.Schemas.Map()[refusalSchema] = schemaOfRefusal()
	router.UseMiddleware(checkRequest)
	return router
}

// strictJSON reads only what every parser reads alike (RFC 8259, section
// 4; RFC 7493) and writes as encoding/json does. A member name in another
// case is unknown: huma's validation accepts it, and decoding would drop
// the member.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error { return apierror.Decode("the body", data, v) },
}

// refusalTransformer turns huma's own errors into refusals. huma calls it
// before it writes the status and the body.
func refusalTransformer(refusals map[string]*apierror.Error) huma.Transformer {
	return func(ctx huma.Context, _ string, body any) (any, error) {
		refused, ok := body.(*apierror.Error)
		if model, own := body.(*huma.ErrorModel); own {
			refused, ok = translate(ctx.Operation(), model, refusals), true
			ctx.SetHeader("Content-Type", apierror.ContentType)
		}
		if !ok {
			return body, nil
		}
		ctx.SetHeader("Cache-Control", "no-store")
		return refused, nil
	}
}

// translate returns the refusal for an error of huma's own.
func translate(op *huma.Operation, model *huma.ErrorModel, refusals map[string]*apierror.Error) *apierror.Error {
	if model.Status != http.StatusBadRequest && model.Status != http.StatusUnprocessableEntity {
		return errInternal
	}
	details := slices.Clone(model.Errors)
	slices.SortStableFunc(details, func(a, b *huma.ErrorDetail) int { return strings.Compare(a.Location, b.Location) })
	known := queryParameters(op)
	for _, d := range details {
		if refused := refusals[d.Location]; refused != nil {
			return refused
		}
		if name, ok := strings.CutPrefix(d.Location, "query."); ok && !slices.Contains(known, name) {
			return UnknownParameter(name, known)
		}
	}
	const sentence = "The request is not valid: "
	if len(details) == 0 {
		return InvalidRequest(sentence + model.Detail + ".")
	}
	var mistakes []string
	for _, d := range details[:min(len(details), maxDetails)] {
		text := d.Message
		if d.Location != "" && d.Location != "body" {
			text = Shorten(d.Location) + ": " + text
		}
		mistakes = append(mistakes, text)
	}
	return InvalidRequest(sentence + strings.Join(mistakes, "; ") + ".")
}

// queryParameters returns the names of an operation's query parameters.
func queryParameters(op *huma.Operation) []string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// UnknownParameter refuses a parameter of the query.
func UnknownParameter(name string, known []string) *apierror.Error {
	allowed := "none"
	if len(known) > 0 {
		allowed = strings.Join(known, ", ")
	}
	return apierror.New(http.StatusBadRequest, "unknown_parameter",
		fmt.Sprintf("Unknown query parameter %q. Allowed here: %s.", Shorten(name), allowed))
}

// Shorten bounds a text that the client chose.
func Shorten(text string) string {
	const limit = 64
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}

// describeRefusals corrects what huma documents of an operation: huma
// describes its own error model and 422 instead of 400, and does not know
// of the 406 that checkRequest sends.
func describeRefusals(document *huma.OpenAPI, op *huma.Operation) {
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

func schemaOfRefusal() *huma.Schema {
	return &huma.Schema{
		Type:        huma.TypeObject,
		Description: "A refusal. Some have further members.",
		Properties: map[string]*huma.Schema{
			"message": {Type: huma.TypeString, Description: "A sentence for a person."},
			"code":    {Type: huma.TypeString, Description: "A stable word for a program."},
		},
		Required:             []string{"message", "code"},
		AdditionalProperties: true,
	}
}
