package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// sample is a command that makes one call with a key. Wildcards is true if its
// path still has wildcards.
type sample struct {
	Code      string
	Wildcards bool
}

// exampleValues are values for the wildcards of the currency API's paths.
var exampleValues = map[string]string{"from": "EUR", "to": "USD", "base": "EUR", "amount": "10"}

// gateEndpoint is the endpoint that the gate answers itself.
const gateEndpoint = "usage"

// sample returns a command that calls a GET endpoint with the key: best one
// without wildcards, and the gate's own endpoint last. It is nil if the key may
// call none. A call of another method could change something, and lacks a body.
// Without a token the command reads it from the environment.
func (s *site) sample(v *visit, abilities []string, token string) *sample {
	values := exampleValues
	if s.NoRates {
		values = nil
	}
	best, target, wildcards := 0, "", false
	allowed, _ := v.endpointsOf(abilities)
	for _, e := range allowed {
		for _, pattern := range e.Patterns {
			method, path, _ := strings.Cut(pattern, " ")
			if method != http.MethodGet && method != "*" {
				continue
			}
			path, filled := samplePath(path, values)
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
	}
	if best == 0 {
		return nil
	}
	if token == "" {
		token = "$TOKEN"
	}
	return &sample{`curl "` + s.Address.String() + target + `" -H "Authorization: Bearer ` + token + `"`, wildcards}
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
