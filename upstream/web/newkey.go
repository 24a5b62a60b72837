package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// newKeyView is the page with the form for a key.
type newKeyView struct {
	Name      string
	Abilities []abilityChoice
	Lives     []choice
	Life      string
	Problem   string
	// Field is the field that the problem is about.
	Field string
	// Offer is set where the plan has no access, and there is no form.
	Offer *offer
}

// abilityChoice is a checkbox: an ability of the plan, and the endpoints
// that it opens.
type abilityChoice struct {
	Name      string
	Endpoints []api.Endpoint
	Checked   bool
}

// lives are the lifetimes of a key, in days.
var lives = []choice{{"7", "7 days"}, {"30", "30 days"}, {"90", "90 days"}, {"365", "1 year"}, {"0", "Never"}}

// defaultLife ends forgotten keys, but does not force frequent rotation.
const defaultLife = "90"

func (s *site) newKey(w http.ResponseWriter, _ *http.Request, v *visit) error {
	return s.showNewKey(w, http.StatusOK, v, newKeyView{Life: defaultLife}, nil)
}

// showNewKey shows the form with some abilities checked; nil checks all.
func (s *site) showNewKey(w http.ResponseWriter, status int, v *visit, view newKeyView, checked []string) error {
	view.Abilities = v.abilities(checked)
	view.Lives = lives
	view.Offer = v.offer()
	return s.views.show(w, status, "newkey", v.page("Create a key", "settings", view))
}

// abilities returns the abilities of the plan, in the order of the gate's
// endpoints.
func (v *visit) abilities(checked []string) []abilityChoice {
	var choices []abilityChoice
	for _, e := range v.plans.Endpoints {
		if _, listed := v.plan.Limits[e.Name]; !listed {
			continue
		}
		i := slices.IndexFunc(choices, func(c abilityChoice) bool { return c.Name == e.Ability })
		if i < 0 {
			i = len(choices)
			choices = append(choices, abilityChoice{
				Name: e.Ability, Checked: checked == nil || slices.Contains(checked, e.Ability),
			})
		}
		choices[i].Endpoints = append(choices[i].Endpoints, e)
	}
	return choices
}

func (s *site) createKey(w http.ResponseWriter, r *http.Request, v *visit) error {
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	request, ok := keyRequest(form)
	if !ok {
		return errForm
	}
	view := newKeyView{Name: request.Name, Life: form.Get("life")}
	if len(request.Abilities) == 0 {
		view.Field, view.Problem = "abilities", "Choose at least one ability."
		return s.showNewKey(w, http.StatusUnprocessableEntity, v, view, []string{})
	}
	issued, err := change(r.Context(), func(ctx context.Context) (api.IssuedKey, error) {
		return s.Gate.CreateKey(ctx, v.who.ID, request)
	})
	if refused := refusal(err); refused != nil {
		if field, problem := keyProblem(refused.Code); problem != "" {
			view.Field, view.Problem = field, problem
			return s.showNewKey(w, http.StatusUnprocessableEntity, v, view, request.Abilities)
		}
	}
	if err != nil {
		return err
	}
	return s.showToken(w, v, issued, false)
}

// keyRequest reads the form. It is not ok if a field has a value that is not
// an option of the form.
func keyRequest(form url.Values) (api.KeyRequest, bool) {
	life := form.Get("life")
	if !slices.ContainsFunc(lives, func(c choice) bool { return c.Value == life }) {
		return api.KeyRequest{}, false
	}
	request := api.KeyRequest{Name: strings.TrimSpace(form.Get("name")), Abilities: form["ability"]}
	if life != "0" {
		request.TTL = life + "d"
	}
	return request, true
}

// keyProblem returns the field that the gate refuses and the text for it. The
// text is empty for a refusal that our forms cannot cause.
func keyProblem(code string) (field, problem string) {
	switch code {
	case "invalid_name":
		return "name", "Give the key a name of 1 to 64 characters, all of them visible."
	case "name_taken":
		return "name", "You have a key with this name. Choose another name, or rotate or revoke that key."
	case "too_many_keys":
		return "name", "You have 100 keys, the maximum. Revoke a key first."
	case "not_entitled":
		return "abilities", "Your plan does not have all of these abilities. Choose again."
	case "plan_required":
		return "name", "Your plan has no access to the API."
	}
	return "", ""
}

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
