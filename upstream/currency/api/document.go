package api

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// examples are answers of this code for a few fixed rates. A test compares
// each file with the served answer.
//
//go:embed examples
var examples embed.FS

const (
	schemaRefusal = "ApiError"
	securityName  = "key"
	formatInt64   = "int64"
	tagAccount    = "account"
	tagCurrencies = "currencies"
)

// overview is the introduction of the document.
//
//go:embed page/overview.md
var overview string

// problemCodes are codes of refusals by status.
type problemCodes map[int][]string

// configuration returns a huma configuration for the document alone, without
// the pages and the $schema members of huma.
func configuration(site *url.URL) huma.Config {
	schemas := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	schemas.Map()[schemaRefusal] = refusalSchema()
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Tollgate currency API", Version: "1", Description: strings.TrimSpace(overview),
				Contact: &huma.Contact{Name: "Tollgate", URL: "https://github.com/caddy-tollgate/tollgate"},
				License: &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"},
			},
			Servers: []*huma.Server{{URL: site.String()}},
			Tags: []*huma.Tag{
				{Name: tagAccount, Description: "Login and usage of an account."},
				{Name: tagCurrencies, Description: "Currencies, rates and conversion."},
			},
			Components: &huma.Components{
				Schemas: schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{securityName: {
					Type: "http", Scheme: "bearer",
					Description: "The token is an API key from Settings or a token from POST /api/login. GET /api/usage shows the calls that are left today.",
				}},
			},
			Security: []map[string][]string{{securityName: {}}},
		},
	}
}

// refusalExamples are the refusals of all codes.
var refusalExamples = sync.OnceValue(func() (all map[string]json.RawMessage) {
	must(json.Unmarshal(exampleOf("refusals.json"), &all))
	return all
})

// refusalSchema describes the refusals of package apierror with all members
// that this API and the gate add.
func refusalSchema() *huma.Schema {
	text := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Description: description}
	}
	var codes []any
	for _, code := range slices.Sorted(maps.Keys(refusalExamples())) {
		codes = append(codes, code)
	}
	// A limit can exceed 32 bits. Without the format, generated clients have
	// 32 bits for it.
	number := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeInteger, Format: formatInt64, Description: description}
	}
	return &huma.Schema{
		Type:        huma.TypeObject,
		Description: "An error.",
		Properties: map[string]*huma.Schema{
			"message":    text("A message for people."),
			"code":       {Type: huma.TypeString, Description: "A stable code for programs.", Enum: codes},
			"request_id": text("In refusals of the gate: the id of the request, for support."),
			"successor":  text("With currency_retired: the currency that replaced it."),
			"endpoint":   text("With quota_exceeded, rate_limited and cost_above_limit: the endpoint of the limit, or all."),
			"period":     text("With these codes: day or month, or the second, minute or hour of a pace."),
			"limit":      number("With these codes: the calls that the limit admits in the period."),
			"of":         text("With these codes: account, or key for a limit of the key."),
			"cost":       number("With cost_above_limit: the cost of this call."),
			"resets_at":  {Type: huma.TypeString, Format: "date-time", Description: "With quota_exceeded: when the next day or month begins."},
		},
		Required:             []string{"message", "code"},
		AdditionalProperties: true,
	}
}

// countedResponses documents the answers of a call of this service: success, its
// own refusals, and those of every call and of the gate.
func countedResponses(get bool, own problemCodes) map[string]*huma.Response {
	counted := joined(own, unansweredProblems(), problemCodes{
		http.StatusNotAcceptable:       {codeNotAcceptable},
		http.StatusInternalServerError: {"internal"},
	})
	all := gatedRefusals(counted)
	for status := range counted {
		maps.Copy(all[strconv.Itoa(status)].Headers, limitHeaders())
	}
	all["200"] = &huma.Response{Description: "The response.", Headers: successHeaders(get)}
	if get {
		all["304"] = &huma.Response{
			Description: "Not modified: the ETag in If-None-Match is current.",
			Headers:     successHeaders(get),
		}
	}
	return all
}

// usageResponses documents the answers of a counted call that the gate answers.
func usageResponses(_ bool, own problemCodes) map[string]*huma.Response {
	all := gatedRefusals(own)
	all["200"] = &huma.Response{Description: "The response.", Headers: successHeaders(false)}
	return all
}

// loginResponses documents the answers of a login, which is not counted.
func loginResponses(_ bool, own problemCodes) map[string]*huma.Response {
	all := refusals(targetProblems(), unansweredProblems(), own)
	all["200"] = &huma.Response{Description: "The response."}
	return all
}

// gatedRefusals documents the refusals of a counted call: those of the gate,
// and those of the service behind it.
func gatedRefusals(behind problemCodes) map[string]*huma.Response {
	all := refusals(behind, gateProblems())
	// A token in two places is 400 with this header (RFC 6750, 3.1).
	maps.Copy(all[strconv.Itoa(http.StatusBadRequest)].Headers, refusalHeaders("invalid_token"))
	return all
}

// targetProblems are the gate's refusals of any request.
func targetProblems() problemCodes {
	return problemCodes{
		http.StatusBadRequest:         {"bad_path"},
		http.StatusMethodNotAllowed:   {"method_not_allowed"},
		http.StatusServiceUnavailable: {"unavailable"},
	}
}

// gateProblems are the gate's refusals of a counted call.
func gateProblems() problemCodes {
	return joined(targetProblems(), problemCodes{
		http.StatusBadRequest:      {codeInvalidRequest},
		http.StatusUnauthorized:    {"unauthenticated", "invalid_token"},
		http.StatusForbidden:       {"plan_required", "not_entitled", "insufficient_scope", "address_not_allowed", "cost_above_limit"},
		http.StatusTooManyRequests: {"quota_exceeded", "rate_limited"},
	})
}

// unansweredProblems are the gate's answers when this service does not
// answer.
func unansweredProblems() problemCodes {
	return problemCodes{
		http.StatusBadGateway:         {"upstream_unreachable"},
		http.StatusServiceUnavailable: {"upstream_unreachable"},
		http.StatusGatewayTimeout:     {"upstream_timeout"},
	}
}

// joined merges lists of codes.
func joined(lists ...problemCodes) problemCodes {
	all := problemCodes{}
	for _, list := range lists {
		for status, codes := range list {
			for _, code := range codes {
				if !slices.Contains(all[status], code) {
					all[status] = append(all[status], code)
				}
			}
		}
	}
	return all
}

// refusals documents refusals by status.
func refusals(problems ...problemCodes) map[string]*huma.Response {
	all := make(map[string]*huma.Response)
	for status, codes := range joined(problems...) {
		all[strconv.Itoa(status)] = refusalResponse(status, codes)
	}
	return all
}

// refusalResponse documents the refusals of one status.
func refusalResponse(status int, codes []string) *huma.Response {
	response := &huma.Response{
		Headers:     map[string]*huma.Header{},
		Description: fmt.Sprintf("%s. Codes: %s.", http.StatusText(status), strings.Join(codes, ", ")),
	}
	media := &huma.MediaType{Schema: &huma.Schema{Ref: schemaPrefix + schemaRefusal}, Examples: map[string]*huma.Example{}}
	for _, code := range codes {
		media.Examples[code] = &huma.Example{Value: refusalExamples()[code]}
		maps.Copy(response.Headers, refusalHeaders(code))
	}
	response.Content = map[string]*huma.MediaType{mediaType: media}
	return response
}

// refusalHeaders documents the header fields of the refusals with a code.
func refusalHeaders(code string) map[string]*huma.Header {
	switch code {
	case "unauthenticated", "invalid_token", "insufficient_scope":
		return map[string]*huma.Header{"WWW-Authenticate": header("How to authenticate (RFC 6750).")}
	case "method_not_allowed":
		return map[string]*huma.Header{"Allow": header("The allowed methods.")}
	case "quota_exceeded", "rate_limited":
		headers := limitHeaders()
		headers["Retry-After"] = secondsHeader("Seconds until the limit has room. A client that waits that long is admitted.")
		headers["X-Should-Retry"] = header("true if the wait is short, false if it lasts until the end of a day or a month.")
		return headers
	case "too_many_attempts", "busy", "unavailable":
		return map[string]*huma.Header{"Retry-After": secondsHeader("Seconds to wait.")}
	}
	return nil
}

// limitHeaders documents the headers about the limits of a counted call.
func limitHeaders() map[string]*huma.Header {
	return map[string]*huma.Header{
		"RateLimit-Policy": header("Each limit of the call, and the length of its period in seconds. Missing if unlimited."),
		"RateLimit":        header("What remains of each limit, and the seconds until it is full again. Missing if unlimited."),
	}
}

func header(description string) *huma.Header {
	return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
}

// secondsHeader documents a header with a number of seconds.
func secondsHeader(description string) *huma.Header {
	return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeInteger, Format: formatInt64}}
}

// successHeaders documents the headers of a successful answer.
func successHeaders(get bool) map[string]*huma.Header {
	headers := limitHeaders()
	headers["Cache-Control"] = header("How long the client may cache the answer. Shared caches must not.")
	if get {
		headers["ETag"] = header("Identifies the answer. It changes exactly when the answer changes.")
	}
	return headers
}

// addRows adds the media types of rows to those of an answer. A row is
// described by the members of the JSON answer.
func addRows(media map[string]*huma.MediaType, name string) {
	for mediaType, described := range map[string]struct{ file, text string }{
		csvType:   {name + ".csv", "The rows as CSV: a header line, then a line for each row. Lines end with LF."},
		linesType: {name + ".ndjson", "The rows as NDJSON: a JSON object on each line."},
	} {
		media[mediaType] = &huma.MediaType{
			Schema:  &huma.Schema{Type: huma.TypeString, Description: described.text},
			Example: string(exampleOf(described.file)),
		}
	}
}

// exampleOf returns one of the embedded examples.
func exampleOf(file string) json.RawMessage {
	text, err := examples.ReadFile("examples/" + file)
	must(err)
	return text
}
