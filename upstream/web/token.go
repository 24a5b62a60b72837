package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// tokenView is the page that shows a token once.
type tokenView struct {
	Key     keyRow
	Token   string
	Curl    string
	Rotated bool
}

// showToken answers the request that created the token. It does not redirect
// to another page, since the token must not be stored.
func (s *site) showToken(w http.ResponseWriter, v *visit, issued api.IssuedKey, rotated bool) error {
	view := tokenView{
		Key: v.keyRow(issued.Key), Token: issued.Token, Rotated: rotated,
		Curl: v.curl(s.Address.String(), issued),
	}
	return s.views.show(w, http.StatusOK, "token", v.page("Your new key", "settings", view))
}

// samples are example values for the wildcards of the currency API's paths.
var samples = map[string]string{"from": "EUR", "to": "USD", "base": "EUR", "amount": "10"}

// curl returns a command that works with the key: a call of the first allowed
// GET endpoint that has example values. Empty if there is none.
func (v *visit) curl(address string, issued api.IssuedKey) string {
	for _, e := range v.plans.Endpoints {
		_, listed := v.plan.Limits[e.Name]
		path, ok := samplePath(e.Path)
		if listed && ok && e.Method == http.MethodGet &&
			(slices.Contains(issued.Abilities, e.Ability) || slices.Contains(issued.Abilities, e.Name)) {
			return "curl \"" + address + path + "\" -H \"Authorization: Bearer " + issued.Token + "\""
		}
	}
	return ""
}

// samplePath replaces the wildcards of a pattern by example values.
func samplePath(pattern string) (string, bool) {
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		name, wild := strings.CutPrefix(segment, "{")
		if !wild {
			continue
		}
		value, known := samples[strings.TrimSuffix(name, "}")]
		if !known {
			return "", false
		}
		segments[i] = value
	}
	return strings.Join(segments, "/"), true
}
