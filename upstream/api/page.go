package api

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// pageFiles are the reference page's template and style, and the samples
// on it.
//
//go:embed page
var pageFiles embed.FS

// newPages returns the handlers of the document and of the reference page, by
// path. The page is generated from the document, with the operations in this
// order. It needs no script and no other server.
func newPages(document *huma.OpenAPI, site *url.URL, shown []*huma.Operation) (map[string]http.Handler, error) {
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the document: %w", err)
	}
	style, err := pageFiles.ReadFile("page/style.css")
	if err != nil {
		return nil, fmt.Errorf("reading the page's style: %w", err)
	}
	reference, err := renderReference(document, site, shown, style)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(style)
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return map[string]http.Handler{
		// Pages of other sites, such as tools for APIs, may read the document.
		"/openapi.json": page(text, http.Header{"Content-Type": {mediaType}, "Access-Control-Allow-Origin": {"*"}}),
		"/docs": page(reference, http.Header{
			"Content-Type":            {"text/html; charset=utf-8"},
			"Content-Security-Policy": {policy},
			"Referrer-Policy":         {"no-referrer"},
		}),
	}, nil
}

// page serves a constant text.
func page(text []byte, header http.Header) http.Handler {
	etag := digest(text)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := w.Header()
		maps.Copy(fields, header)
		fields.Set("ETag", etag)
		fields.Set("Cache-Control", "no-cache")
		fields.Set("X-Content-Type-Options", "nosniff")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
}

// reference is the input of the page's template.
type reference struct {
	Title, Version, Authentication string
	Site                           string
	Style                          template.CSS
	Overview                       []paragraph
	Endpoints                      []referenceEndpoint
	Refusal                        []member
}

// paragraph is a paragraph whose first words, its lead, are bold.
type paragraph struct{ Lead, Text string }

type referenceEndpoint struct {
	ID, Summary, Description, Method, Path string
	Parameters                             []member
	Body                                   *content
	Samples                                []sample
	Answer                                 content
	Statuses                               []status
}

// content is an example and the description of its members.
type content struct {
	Example string
	Members []member
}

type status struct{ Code, Description string }

// renderReference writes the page.
func renderReference(document *huma.OpenAPI, site *url.URL, shown []*huma.Operation, style []byte) ([]byte, error) {
	layout, err := template.ParseFS(pageFiles, "page/page.html")
	if err != nil {
		return nil, fmt.Errorf("reading the page's template: %w", err)
	}
	schemas := document.Components.Schemas
	view := reference{
		Title: document.Info.Title, Version: document.Info.Version,
		Authentication: document.Components.SecuritySchemes[securityName].Description,
		Site:           site.String(),
		// The style is a file of this package, not input.
		Style:    template.CSS(style),
		Overview: paragraphs(document.Info.Description),
		Refusal:  members(schemas, schemas.Map()[schemaRefusal], ""),
	}
	for _, operation := range shown {
		e, err := newReferenceEndpoint(schemas, operation)
		if err != nil {
			return nil, err
		}
		view.Endpoints = append(view.Endpoints, e)
	}
	var text bytes.Buffer
	if err := layout.Execute(&text, view); err != nil {
		return nil, fmt.Errorf("writing the page: %w", err)
	}
	return text.Bytes(), nil
}

// newReferenceEndpoint returns what the page shows of one operation.
func newReferenceEndpoint(schemas huma.Registry, operation *huma.Operation) (referenceEndpoint, error) {
	shown := referenceEndpoint{
		ID: operation.OperationID, Summary: operation.Summary, Description: operation.Description,
		Method: operation.Method, Path: operation.Path,
		Answer: contentOf(schemas, operation.Responses["200"].Content[mediaType]),
	}
	for _, p := range operation.Parameters {
		m := newMember(p.Name, p.Schema, p.Required)
		m.Description = p.Description
		shown.Parameters = append(shown.Parameters, m)
	}
	var body string
	if operation.RequestBody != nil {
		request := contentOf(schemas, operation.RequestBody.Content[mediaType])
		shown.Body, body = &request, request.Example
	}
	var err error
	call := call{operation.Method, exampleTarget(operation), body, operation.Security == nil}
	if shown.Samples, err = samples(call); err != nil {
		return referenceEndpoint{}, err
	}
	for _, code := range slices.Sorted(maps.Keys(operation.Responses)) {
		shown.Statuses = append(shown.Statuses, status{code, operation.Responses[code].Description})
	}
	return shown, nil
}

// contentOf returns the content of a body in the document.
func contentOf(schemas huma.Registry, media *huma.MediaType) content {
	var text string
	if example, ok := media.Example.(json.RawMessage); ok {
		text = strings.TrimSpace(string(example))
	}
	return content{text, members(schemas, media.Schema, "")}
}

// paragraphs splits a text at its empty lines.
func paragraphs(text string) []paragraph {
	var all []paragraph
	for part := range strings.SplitSeq(text, "\n\n") {
		p := paragraph{Text: part}
		if rest, bold := strings.CutPrefix(part, "**"); bold {
			p.Lead, p.Text, _ = strings.Cut(rest, "**")
		}
		all = append(all, p)
	}
	return all
}
