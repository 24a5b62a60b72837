package api

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// examples are answers of this very code to a few fixed rates. A test holds
// each file against what is served, so what the document shows is true.
//
//go:embed examples/*.json
var examples embed.FS

const (
	schemaRefusal = "Refusal"
	securityName  = "key"
	tagAccount    = "account"
	tagCurrencies = "currencies"
)

// overview is the text at the head of the document.
const overview = `Exchange rates of the world's currencies, by day, and conversion with them.

**Numbers** are exact decimals, written as JSON numbers in plain notation. Read them with a decimal type to keep every digit. All rates of one day come from one table of values against the euro, so they never contradict each other.

**Dates** are days of the calendar, and today is today in UTC. Every answer says which day its rates are for, and where they come from: ECB are the euro reference rates of the European Central Bank, snapshot are republished market rates and indicative.

**Caching.** An answer to GET has a strong ETag and a max-age that ends when newer rates are expected.

**Refusals** are JSON objects with a message for people and a code for programs. What is not understood is refused, not ignored: a query parameter that is unknown, empty or given twice is an error.`

// problemCodes are the codes of an endpoint's own refusals by status.
type problemCodes map[int][]string

// configuration returns a huma configuration that adds nothing of its own:
// no pages, no $schema members, no Link fields, JSON alone.
func configuration() huma.Config {
	schemas := huma.NewMapRegistry(schemaPrefix, schemaName)
	schemas.Map()[schemaRefusal] = refusalSchema()
	format := huma.Format{Marshal: marshal, Unmarshal: unmarshal}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Tollgate currency API", Version: "1", Description: overview,
				Contact: &huma.Contact{Name: "Tollgate", URL: "https://github.com/caddy-tollgate/tollgate"},
				License: &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"},
			},
			Servers: []*huma.Server{{URL: "/"}},
			Tags: []*huma.Tag{
				{Name: tagAccount, Description: "What an account may do, and did."},
				{Name: tagCurrencies, Description: "Currencies, rates and conversion."},
			},
			Components: &huma.Components{
				Schemas: schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{securityName: {
					Type: "http", Scheme: "bearer",
					Description: "The token is an API key, made in Settings, or comes from POST /api/login. GET /api/usage tells what remains of the day's calls.",
				}},
			},
			Security: []map[string][]string{{securityName: {}}},
		},
		Formats:       map[string]huma.Format{mediaType: format, "json": format},
		DefaultFormat: mediaType,
	}
}

// refusalSchema describes the shape of package apierror, and the further
// members that this API and the gate in front of it put into it.
func refusalSchema() *huma.Schema {
	text := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Description: description}
	}
	return &huma.Schema{
		Type:        huma.TypeObject,
		Description: "A refusal.",
		Properties: map[string]*huma.Schema{
			"message":   text("A sentence for a person."),
			"code":      text("A stable word for a program."),
			"successor": text("With currency_retired: the currency that replaced the one asked for."),
			"endpoint":  text("With quota_exceeded: the endpoint whose calls are used up."),
			"limit":     {Type: huma.TypeInteger, Description: "With quota_exceeded: the calls a day."},
			"resets_at": {Type: huma.TypeString, Format: "date-time", Description: "With quota_exceeded: when the next day begins."},
		},
		Required:             []string{"message", "code"},
		AdditionalProperties: true,
	}
}

// responses documents an endpoint's answers: the one that succeeds, what
// the endpoint refuses, and what every endpoint or the gate refuses.
func responses(get bool, example json.RawMessage, own problemCodes) map[string]*huma.Response {
	all := map[string]*huma.Response{
		"200": {
			Description: "The answer.",
			Headers:     successHeaders(get),
			Content:     map[string]*huma.MediaType{mediaType: {Example: example}},
		},
	}
	if get {
		all["304"] = &huma.Response{Description: "The client has the answer already: If-None-Match names its ETag."}
	}
	maps.Copy(all, refusals(problemCodes{
		http.StatusMethodNotAllowed:    {"method_not_allowed"},
		http.StatusNotAcceptable:       {codeNotAcceptable},
		http.StatusInternalServerError: {"internal"},
		http.StatusServiceUnavailable:  {"unavailable"},
	}))
	maps.Copy(all, refusals(gateProblems()))
	maps.Copy(all, refusals(own))
	return all
}

// gateProblems are what the gate refuses of every call that is counted.
func gateProblems() problemCodes {
	return problemCodes{
		http.StatusUnauthorized:    {"unauthenticated", "invalid_token"},
		http.StatusForbidden:       {"plan_required", "not_entitled", "insufficient_scope"},
		http.StatusTooManyRequests: {"quota_exceeded"},
	}
}

// refusals documents refusals by status.
func refusals(problems problemCodes) map[string]*huma.Response {
	all := make(map[string]*huma.Response)
	for status, codes := range problems {
		all[strconv.Itoa(status)] = refusalResponse(status, codes)
	}
	return all
}

// refusalResponse documents the refusals of one status.
func refusalResponse(status int, codes []string) *huma.Response {
	response := &huma.Response{
		Description: fmt.Sprintf("%s. Codes: %s.", http.StatusText(status), strings.Join(codes, ", ")),
		Content: map[string]*huma.MediaType{
			mediaType: {Schema: &huma.Schema{Ref: schemaPrefix + schemaRefusal}},
		},
	}
	header := func(name, kind, description string) {
		response.Headers = map[string]*huma.Header{
			name: {Description: description, Schema: &huma.Schema{Type: kind}},
		}
	}
	switch status {
	case http.StatusUnauthorized:
		header("WWW-Authenticate", huma.TypeString, "How to authenticate (RFC 6750).")
	case http.StatusMethodNotAllowed:
		header("Allow", huma.TypeString, "The methods that are known here.")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		header("Retry-After", huma.TypeInteger, "Seconds to wait: a client that waits exactly that long is admitted.")
	}
	return response
}

// successHeaders documents the header fields of an answer that succeeds.
func successHeaders(get bool) map[string]*huma.Header {
	text := func(description string) *huma.Header {
		return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	headers := map[string]*huma.Header{
		"RateLimit-Policy": text("The calls a day, unless they are unlimited."),
		"RateLimit":        text("The calls that remain, and the seconds until the day ends."),
		"Cache-Control":    text("How long the client may keep the answer. It is nobody else's."),
	}
	if get {
		headers["ETag"] = text("Names the answer: it changes exactly when the answer does.")
	}
	return headers
}

// exampleOf returns one of the embedded examples.
func exampleOf(name string) (json.RawMessage, error) {
	text, err := examples.ReadFile("examples/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("reading example: %w", err)
	}
	return text, nil
}
