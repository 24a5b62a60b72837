package api

import (
	"fmt"
	"net/url"
	"strings"
	"text/template"

	"github.com/danielgtaylor/huma/v2"
)

// sample is a program that makes a call.
type sample struct{ ID, Language, Code string }

// call is the call of a sample.
type call struct {
	Method, Target, Body string
	// Token is true if the call needs a token.
	Token bool
}

// samples returns the samples of a call in all languages.
func samples(c call) ([]sample, error) {
	layouts, err := template.ParseFS(pageFiles, "page/*.txt")
	if err != nil {
		return nil, fmt.Errorf("reading the samples: %w", err)
	}
	var all []sample
	for _, language := range [...]struct{ name, file string }{
		{"curl", "curl"}, {"JavaScript", "javascript"}, {"Python", "python"}, {"Go", "go"},
	} {
		var code strings.Builder
		if err := layouts.ExecuteTemplate(&code, language.file+".txt", c); err != nil {
			return nil, fmt.Errorf("writing the sample in %s: %w", language.name, err)
		}
		all = append(all, sample{language.file, language.name, strings.TrimSpace(code.String())})
	}
	return all, nil
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
