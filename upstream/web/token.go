package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// tokenView is the page that shows a token once.
type tokenView struct {
	Key   keyRow
	Token string
	// Curl is a command that calls the API, or empty. Wildcards tells that
	// its path still has wildcards.
	Curl      string
	Wildcards bool
	Rotated   bool
}

// showToken answers the request that created the token. It does not redirect
// to another page, since the token must not be stored.
func (s *site) showToken(w http.ResponseWriter, v *visit, issued api.IssuedKey, rotated bool) error {
	view := tokenView{Key: v.keyRow(issued.Key), Token: issued.Token, Rotated: rotated}
	view.try(s, v, issued)
	return s.views.show(w, http.StatusOK, "token", v.page("Your new key", "settings", view))
}

// samples are example values for the wildcards of the currency API's paths.
var samples = map[string]string{"from": "EUR", "to": "USD", "base": "EUR", "amount": "10"}

// gateEndpoint is the endpoint that the gate answers itself.
const gateEndpoint = "usage"

// try sets a command that calls a GET endpoint with the new key: best one
// without wildcards, and the gate's own endpoint last. A command of another
// method could change something, and lacks a body.
func (view *tokenView) try(s *site, v *visit, issued api.IssuedKey) {
	values := samples
	if s.NoRates {
		values = nil
	}
	best := 0
	for _, e := range v.plans.Endpoints {
		_, listed := v.plan.Limits[e.Name]
		if !listed || e.Method != http.MethodGet || !slices.Contains(issued.Abilities, e.Ability) && !slices.Contains(issued.Abilities, e.Name) {
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
			best, view.Wildcards = fit, !filled
			view.Curl = "curl \"" + s.Address.String() + path + "\" -H \"Authorization: Bearer " + issued.Token + "\""
		}
	}
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
