package web

import (
	"embed"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"text/template"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

//go:embed sample/*.txt
var sampleFiles embed.FS

// samples are programs that make one call with a key. All is empty if the key
// may call no endpoint with GET.
type samples struct {
	All []sample
	// Wildcards is true if the path still has wildcards.
	Wildcards bool
}

// sample is a program. ID is its name in the page.
type sample struct{ ID, Language, Code string }

// exampleValues are values for the wildcards of the currency API's paths.
var exampleValues = map[string]string{"from": "EUR", "to": "USD", "base": "EUR", "amount": "10"}

// gateEndpoint is the endpoint that the gate answers itself.
const gateEndpoint = "usage"

// samples returns programs that call a GET endpoint with the key: best one
// without wildcards, and the gate's own endpoint last. A call of another
// method could change something, and lacks a body. Without a token the
// programs read it from their environment.
func (s *site) samples(v *visit, abilities []string, token string) (samples, error) {
	values := exampleValues
	if s.NoRates {
		values = nil
	}
	best, target, wildcards := 0, "", false
	for _, e := range v.plans.Endpoints {
		if _, listed := v.plan.Limits[e.Name]; !listed || e.Method != http.MethodGet || !slices.Contains(abilities, e.Ability) {
			continue
		}
		path, filled := samplePath(e.Path, values)
		fit := 3
		switch {
		case e.Name == gateEndpoint:
			fit = 1
		case !filled:
			fit = 2
		}
		if fit > best {
			best, target, wildcards = fit, path, !filled
		}
	}
	if best == 0 {
		return samples{}, nil
	}
	all, err := writeSamples(s.Address.String()+target, token)
	return samples{all, wildcards}, err
}

// writeSamples returns the samples of a call in all languages.
func writeSamples(url, token string) (all []sample, err error) {
	layouts, err := template.ParseFS(sampleFiles, "sample/*.txt")
	if err != nil {
		return nil, fmt.Errorf("reading the samples: %w", err)
	}
	for _, language := range [...]struct{ id, name string }{{"curl", "curl"}, {"javascript", "JavaScript"}, {"python", "Python"}} {
		var code strings.Builder
		if err := layouts.ExecuteTemplate(&code, language.id+".txt", struct{ URL, Token string }{url, token}); err != nil {
			return nil, fmt.Errorf("writing the sample in %s: %w", language.name, err)
		}
		all = append(all, sample{language.id, language.name, strings.TrimSpace(code.String())})
	}
	return all, nil
}

// samplePath replaces the wildcards of a pattern by values. A wildcard without
// a value stays, and the path is then not filled. "{$}" only marks the end of
// a pattern.
func samplePath(pattern string, values map[string]string) (path string, filled bool) {
	filled = true
	segments := strings.Split(strings.TrimSuffix(pattern, "{$}"), "/")
	for i, segment := range segments {
		name, wild := strings.CutPrefix(segment, "{")
		if !wild {
			continue
		}
		value, known := values[strings.TrimSuffix(name, "}")]
		if !known {
			filled = false
			continue
		}
		segments[i] = value
	}
	return strings.Join(segments, "/"), filled
}

// endpointsOf returns the endpoints of the plan that a key with these
// abilities may call, and those that it may not.
func (v *visit) endpointsOf(abilities []string) (allowed, denied []api.Endpoint) {
	for _, e := range v.plans.Endpoints {
		if _, listed := v.plan.Limits[e.Name]; !listed {
			continue
		}
		if slices.Contains(abilities, e.Ability) {
			allowed = append(allowed, e)
		} else {
			denied = append(denied, e)
		}
	}
	return allowed, denied
}
