package api

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
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

**Dates** are days of the calendar, and today is today in UTC. Every answer says which day its rates are for, and where they come from: ECB are the euro reference rates of the European Central Bank, snapshot are republished market rates and indicative. Not every day has every currency: the days of the ECB have some thirty, and the others end with the snapshot. Without a date the answer is for the newest day that has what was asked for, so look at the date in it.

**Limits** are calls a day: for each endpoint, and for the whole account, whichever of its keys is used. They start again at midnight of one time zone, which GET /api/usage names beside what is left. Every call that gets through counts, also one that is refused for what it asks. Its answer tells in RateLimit how many remain and the seconds until midnight, and in RateLimit-Policy the limit. Above the limit the answer is 429: whoever waits the seconds in Retry-After is let through again.

**Caching.** An answer to GET has a strong ETag and a max-age that ends when newer rates are expected.

**Refusals** are JSON objects with a message for people and a code for programs. What is not understood is refused, not ignored: a query parameter that is unknown, empty or given twice is an error.`

// problemCodes are the codes of an endpoint's own refusals by status.
type problemCodes map[int][]string

// configuration returns a huma configuration that adds nothing of its own:
// no pages, no $schema members, no Link fields, JSON alone.
func configuration() huma.Config {
	schemas := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
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
		all["304"] = &huma.Response{
			Description: "The client has the answer already: If-None-Match names its ETag.",
			Headers:     successHeaders(get),
		}
	}
	counted := joined(own, unansweredProblems(), problemCodes{
		http.StatusNotAcceptable:       {codeNotAcceptable},
		http.StatusInternalServerError: {"internal"},
	})
	maps.Copy(all, gatedRefusals(counted))
	for status := range counted {
		maps.Copy(all[strconv.Itoa(status)].Headers, limitHeaders())
	}
	return all
}

// gatedRefusals documents what a call that is counted can be refused with:
// by the gate, and by what is behind it.
func gatedRefusals(behind problemCodes) map[string]*huma.Response {
	all := refusals(behind, gateProblems())
	// Also for a token in two places (RFC 6750, 3.1).
	maps.Copy(all[strconv.Itoa(http.StatusBadRequest)].Headers, refusalHeaders("invalid_token"))
	return all
}

// targetProblems are what the gate refuses of every request.
func targetProblems() problemCodes {
	return problemCodes{
		http.StatusBadRequest:         {"bad_path"},
		http.StatusMethodNotAllowed:   {"method_not_allowed"},
		http.StatusServiceUnavailable: {"unavailable"},
	}
}

// gateProblems are what the gate refuses of every call that is counted.
func gateProblems() problemCodes {
	return joined(targetProblems(), problemCodes{
		http.StatusBadRequest:      {codeInvalidRequest},
		http.StatusUnauthorized:    {"unauthenticated", "invalid_token"},
		http.StatusForbidden:       {"plan_required", "not_entitled", "insufficient_scope"},
		http.StatusTooManyRequests: {"quota_exceeded"},
	})
}

// unansweredProblems are what the gate answers in place of this service,
// if that does not.
func unansweredProblems() problemCodes {
	return problemCodes{
		http.StatusBadGateway:         {"upstream_unreachable"},
		http.StatusServiceUnavailable: {"upstream_unreachable"},
		http.StatusGatewayTimeout:     {"upstream_timeout"},
	}
}

// joined returns what several lists of codes have together.
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
		Content: map[string]*huma.MediaType{
			mediaType: {Schema: &huma.Schema{Ref: schemaPrefix + schemaRefusal}},
		},
	}
	for _, code := range codes {
		maps.Copy(response.Headers, refusalHeaders(code))
	}
	return response
}

// refusalHeaders documents the header fields of the refusals with a code.
func refusalHeaders(code string) map[string]*huma.Header {
	switch code {
	case "unauthenticated", "invalid_token", "insufficient_scope":
		return map[string]*huma.Header{"WWW-Authenticate": header(huma.TypeString, "How to authenticate (RFC 6750).")}
	case "method_not_allowed":
		return map[string]*huma.Header{"Allow": header(huma.TypeString, "The methods that are known here.")}
	case "quota_exceeded":
		headers := limitHeaders()
		headers["Retry-After"] = header(huma.TypeInteger, "Seconds until midnight: a client that waits exactly that long is admitted.")
		return headers
	case "too_many_attempts", "busy", "unavailable":
		return map[string]*huma.Header{"Retry-After": header(huma.TypeInteger, "Seconds to wait.")}
	}
	return nil
}

// limitHeaders documents what a counted call's answer says of its limit.
func limitHeaders() map[string]*huma.Header {
	return map[string]*huma.Header{
		"RateLimit-Policy": header(huma.TypeString, "The calls a day, unless they are unlimited."),
		"RateLimit":        header(huma.TypeString, "The calls that remain, and the seconds until the day ends."),
	}
}

func header(kind, description string) *huma.Header {
	return &huma.Header{Description: description, Schema: &huma.Schema{Type: kind}}
}

// successHeaders documents the header fields of an answer that succeeds.
func successHeaders(get bool) map[string]*huma.Header {
	headers := limitHeaders()
	headers["Cache-Control"] = header(huma.TypeString, "How long the client may keep the answer. It is nobody else's.")
	if get {
		headers["ETag"] = header(huma.TypeString, "Names the answer: it changes exactly when the answer does.")
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
