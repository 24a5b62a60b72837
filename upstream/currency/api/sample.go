package api

import (
	"fmt"
	"net/url"
	"strings"
	"text/template"

	"github.com/danielgtaylor/huma/v2"
)

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
	layout, err := template.ParseFS(pageFiles, "page/"+l.file)
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
