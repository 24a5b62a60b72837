package api

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	plain "text/template"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// pageFiles are the templates of the reference, and its samples.
//
//go:embed page
var pageFiles embed.FS

// newDocument returns the handler of the document.
func newDocument(document *huma.OpenAPI) (http.Handler, error) {
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the document: %w", err)
	}
	sum := sha256.Sum256(text)
	etag := entityTag(sum[:])
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", mediaType)
		// Pages of other sites, such as tools for APIs, may read the document.
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("ETag", etag)
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Content-Type-Options", "nosniff")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	}), nil
}

// docsPath is the page of the reference with the samples in the first
// language.
const docsPath = "/docs"

// reference is the input of the template of the pages.
type reference struct {
	Version, Authentication string
	Site                    string
	Overview                []paragraph
	Endpoints               []referenceEndpoint
	Languages               []language
	// Language is that of the samples of this page.
	Language language
	// Example is an error, Common are those of every endpoint with a token,
	// and Own the others.
	Example     string
	Common, Own []referenceError
	Refusal     []member
}

// paragraph is a paragraph with its heading, if it has one.
type paragraph struct{ Lead, Text string }

type referenceEndpoint struct {
	ID, Summary, Description, Method, Path string
	Parameters                             []member
	Body                                   *content
	Sample                                 string
	Answer                                 content
	// Rows is true if the answer is also CSV and NDJSON.
	Rows bool
	// Errors are those that are not common.
	Errors []referenceError
}

// referenceError is an error of an endpoint.
type referenceError struct {
	Status        int
	Code, Message string
}

// content is an example and the description of its members.
type content struct {
	Example string
	Members []member
}

// shown is an operation and its anchor on the page.
type shown struct {
	anchor    string
	operation *huma.Operation
}

// newReference renders the pages of the reference by their path, with the
// operations in this order. They are parts of pages, and need neither a script
// nor another server.
func newReference(document *huma.OpenAPI, site *url.URL, operations []shown) (map[string]template.HTML, error) {
	layouts, err := template.New("").Funcs(template.FuncMap{"lines": manyLines}).ParseFS(pageFiles, "page/*.html")
	if err != nil {
		return nil, fmt.Errorf("reading the templates of the reference: %w", err)
	}
	schemas := document.Components.Schemas
	view := reference{
		Version:        document.Info.Version,
		Authentication: document.Components.SecuritySchemes[securityName].Description,
		Site:           site.String(),
		Overview:       paragraphs(document.Info.Description),
		Refusal:        members(schemas, schemas.Map()[schemaRefusal], ""),
		Languages:      languages[:],
	}
	view.addErrors(operations)
	pages := map[string]template.HTML{}
	write := func(path, name string) error {
		var text bytes.Buffer
		if err := layouts.ExecuteTemplate(&text, name, view); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		// A quote needs an escape in attributes only, and those have none.
		short := strings.ReplaceAll(text.String(), "&#34;", `"`)
		pages[path] = template.HTML(short) // the template has escaped it
		return nil
	}
	for _, view.Language = range languages {
		if view.Endpoints, err = recipes(document.Paths["/api/rates/{base}"].Get, view.Language); err != nil {
			return nil, err
		}
		for _, s := range operations {
			e, err := newReferenceEndpoint(schemas, s, view.Language)
			if err != nil {
				return nil, err
			}
			e.Errors = slices.DeleteFunc(errorsOf(s.operation), func(e referenceError) bool { return slices.Contains(view.Common, e) })
			view.Endpoints = append(view.Endpoints, e)
		}
		if err := write(view.Language.Path, "reference.html"); err != nil {
			return nil, err
		}
	}
	return pages, write(docsPath+"/errors", "errors.html")
}

// addErrors adds the errors of all operations.
func (r *reference) addErrors(operations []shown) {
	count := map[referenceError]int{}
	metered := 0
	for _, s := range operations {
		if s.operation.Security == nil {
			metered++
		}
		for _, e := range errorsOf(s.operation) {
			count[e]++
			if e.Code == "quota_exceeded" {
				r.Example = string(s.operation.Responses[strconv.Itoa(e.Status)].Content[mediaType].Examples[e.Code].Value.(json.RawMessage))
			}
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(count), compareErrors) {
		if count[e] >= metered {
			r.Common = append(r.Common, e)
		} else {
			r.Own = append(r.Own, e)
		}
	}
}

func compareErrors(a, b referenceError) int {
	return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
}

// errorsOf returns the errors of an operation by status and code.
func errorsOf(operation *huma.Operation) (all []referenceError) {
	for text, response := range operation.Responses {
		status, err := strconv.Atoi(text)
		if err != nil {
			continue // impossible: this package writes numbers
		}
		for _, media := range response.Content {
			for code, example := range media.Examples {
				var body struct{ Message string }
				must(json.Unmarshal(example.Value.(json.RawMessage), &body))
				all = append(all, referenceError{status, code, body.Message})
			}
		}
	}
	slices.SortFunc(all, compareErrors)
	return all
}

// recipes returns what a page shows of calls for the rates. Other APIs have
// endpoints of these names.
func recipes(rates *huma.Operation, l language) (all []referenceEndpoint, err error) {
	for _, r := range [...]struct{ id, summary, description, accept string }{
		{"latest", "Latest rates", "Other APIs have an endpoint for the latest rates. Here, leave out the date: the answer then has the newest rates. Its member date is the day of the rates, and its member source names their sources.", ""},
		{"csv", "CSV", "The header Accept selects CSV. The rates, their history and the currencies are then rows for a spreadsheet or a database.", csvType},
	} {
		e := referenceEndpoint{ID: r.id, Summary: r.summary, Description: r.description, Method: rates.Method, Path: rates.Path}
		e.Answer.Example = strings.TrimSpace(fmt.Sprintf("%s", rates.Responses["200"].Content[cmp.Or(r.accept, mediaType)].Example))
		if e.Sample, err = l.sample(call{e.Method, "/api/rates/EUR?symbols=USD,GBP", "", r.accept, true}); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// newReferenceEndpoint returns what a page shows of one operation.
func newReferenceEndpoint(schemas huma.Registry, s shown, l language) (referenceEndpoint, error) {
	operation := s.operation
	e := referenceEndpoint{
		ID: s.anchor, Summary: operation.Summary, Description: operation.Description,
		Method: operation.Method, Path: operation.Path,
		Answer: contentOf(schemas, operation.Responses["200"].Content[mediaType]),
		Rows:   operation.Responses["200"].Content[csvType] != nil,
	}
	for _, p := range operation.Parameters {
		m := newMember(p.Name, p.Schema, p.Required)
		m.Description = p.Description
		e.Parameters = append(e.Parameters, m)
	}
	var body string
	if operation.RequestBody != nil {
		request := contentOf(schemas, operation.RequestBody.Content[mediaType])
		e.Body, body = &request, request.Example
	}
	var err error
	e.Sample, err = l.sample(call{operation.Method, exampleTarget(operation), body, "", operation.Security == nil})
	return e, err
}

// contentOf returns the content of a body in the document.
func contentOf(schemas huma.Registry, media *huma.MediaType) content {
	var text string
	if example, ok := media.Example.(json.RawMessage); ok {
		text = strings.TrimSpace(string(example))
	}
	return content{text, slices.DeleteFunc(members(schemas, media.Schema, ""), isOfControl)}
}

// isOfControl tells whether a member of the usage is in the control API only.
func isOfControl(m member) bool {
	return m.Name == "keys" || strings.HasPrefix(m.Name, "keys[]")
}

// manyLines returns the number of lines of an answer that a page does not show whole,
// or 0 for up to ten lines.
func manyLines(code string) int {
	if n := strings.Count(code, "\n") + 1; n > 10 {
		return n
	}
	return 0
}

// paragraphs splits a text at its empty lines. The bold words at the start of a
// paragraph are its heading.
func paragraphs(text string) []paragraph {
	var all []paragraph
	for part := range strings.SplitSeq(text, "\n\n") {
		p := paragraph{Text: part}
		if rest, bold := strings.CutPrefix(part, "**"); bold {
			p.Lead, p.Text, _ = strings.Cut(rest, "**")
			p.Text = strings.TrimSpace(p.Text)
		}
		all = append(all, p)
	}
	return all
}

// language is a language of the samples. Path is the page with its samples.
type language struct{ Name, Path, file string }

var languages = [...]language{
	{"curl", docsPath, "curl.txt"},
	{"JavaScript", docsPath + "/javascript", "javascript.txt"},
	{"Python", docsPath + "/python", "python.txt"},
	{"Go", docsPath + "/go", "go.txt"},
}

// call is the call of a sample.
type call struct {
	Method, Target, Body string
	// Accept is the media type of the answer, empty for JSON.
	Accept string
	// Token is true if the call needs a token.
	Token bool
}

// sample returns a program that makes a call.
func (l language) sample(c call) (string, error) {
	layout, err := plain.ParseFS(pageFiles, "page/"+l.file)
	if err != nil {
		return "", fmt.Errorf("reading the sample in %s: %w", l.Name, err)
	}
	var code strings.Builder
	if err := layout.Execute(&code, c); err != nil {
		return "", fmt.Errorf("writing the sample in %s: %w", l.Name, err)
	}
	return strings.TrimSpace(code.String()), nil
}

// exampleTarget returns a request target from the examples of an operation's
// parameters.
func exampleTarget(operation *huma.Operation) string {
	target, query := operation.Path, []string{}
	for _, p := range operation.Parameters {
		if len(p.Schema.Examples) == 0 {
			continue
		}
		example := fmt.Sprint(p.Schema.Examples[0])
		if p.In == "path" {
			target = strings.ReplaceAll(target, "{"+p.Name+"}", url.PathEscape(example))
		} else {
			query = append(query, p.Name+"="+strings.ReplaceAll(url.QueryEscape(example), "%2C", ","))
		}
	}
	if len(query) > 0 {
		target += "?" + strings.Join(query, "&")
	}
	return target
}
