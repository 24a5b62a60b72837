package web

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// keyForm is the page with the form that creates or changes a key. It has
// what the person typed.
type keyForm struct {
	// Key is the key to change, nil to create one.
	Key  *keyRow
	Name string
	// All is true for all abilities of the plan, also if others are checked.
	All       bool
	Abilities []abilityChoice
	Lives     []lifeChoice
	Life      string
	// Until is the last day of a key whose life is untilDate. Today is the
	// first day that is allowed.
	Until, Today string
	Zone         string
	Limits       []limitRow
	Periods      []choice
	// Addresses has one on each line.
	Addresses string
	// Problem is about Field: name, abilities, expires, limits or addresses.
	Problem, Field string
	// Offer is set if the plan has no access: then no key can be created.
	Offer *offer

	// isDraft is true for a form that was filled in before.
	isDraft bool
	// checked are the abilities that the person chose, nil for all.
	checked []string
}

// More tells whether to open the fields that few keys need.
func (f *keyForm) More() bool {
	return f.Field == "limits" || f.Field == "addresses" || f.Addresses != "" ||
		slices.ContainsFunc(f.Limits, func(r limitRow) bool { return r.Endpoint+r.Limit != "" })
}

// WrongRow tells whether the problem is about one row of the limits.
func (f *keyForm) WrongRow() bool {
	return slices.ContainsFunc(f.Limits, func(r limitRow) bool { return r.Wrong })
}

// Number is the number of a row for people.
func (f *keyForm) Number(i int) int { return i + 1 }

// abilityChoice is a checkbox: an ability of the plan, and the endpoints
// that it opens.
type abilityChoice struct {
	Name      string
	Endpoints []api.Endpoint
	Checked   bool
}

// limitRow has the fields of a limit. A row without an endpoint is ignored.
type limitRow struct {
	Endpoint, Limit, Period string
	// Endpoints are the options of Endpoint.
	Endpoints []choice
	// Wrong marks the row that the Problem is about.
	Wrong bool
}

// freeRows is the number of empty rows for limits.
const freeRows = 3

// maxLimits is the maximum number of limits of a key, and also of its
// addresses.
const maxLimits = 32

// periods are the options of a period: those of the calendar, then the paces.
var periods = func() (all []choice) {
	for _, quota := range []bool{true, false} {
		for _, p := range api.Periods() {
			if api.IsQuota(p) == quota {
				all = append(all, choice{p, api.Per(p)})
			}
		}
	}
	return all
}()

func (s *site) newKey(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.showNewForm(w, r, v, keyForm{Life: defaultLife, All: true})
}

// showNewForm shows a form, or the draft of it.
func (s *site) showNewForm(w http.ResponseWriter, r *http.Request, v *visit, form keyForm) error {
	if draft := s.takeDraftOf(v.who.ID, w, r); draft != nil {
		kept := keyForm{Key: form.Key, isDraft: true}
		if err := kept.read(draft); err == nil {
			form = kept
		}
	}
	return s.showKeyForm(w, http.StatusOK, v, form)
}

func (s *site) editKey(w http.ResponseWriter, r *http.Request, v *visit) error {
	key, err := s.liveKey(r, v)
	if err != nil {
		return err
	}
	return s.showNewForm(w, r, v, v.formOf(key))
}

// formOf returns the form with the values of a key.
func (v *visit) formOf(key api.Key) keyForm {
	form := keyForm{
		Key: new(v.keyRow(key)), Name: key.Name, Life: unchanged,
		Addresses: strings.Join(key.Addresses, "\n"), checked: key.Abilities,
	}
	form.All = form.Key.All
	if key.ExpiresAt == nil {
		form.Life = never
	}
	for _, l := range key.Limits {
		form.Limits = append(form.Limits, limitRow{Endpoint: l.Endpoint, Limit: strconv.FormatInt(l.Limit, 10), Period: l.Period})
	}
	return form
}

// showKeyForm shows the form with some empty rows for limits.
func (s *site) showKeyForm(w http.ResponseWriter, status int, v *visit, form keyForm) error {
	form.Abilities = v.abilities(form.checked)
	form.Lives = v.lives(&form)
	form.Today, form.Zone = v.clock.now.In(v.clock.zone).Format(time.DateOnly), v.plans.Timezone
	form.Periods = periods
	for range min(freeRows, maxLimits-len(form.Limits)) {
		form.Limits = append(form.Limits, limitRow{Period: api.Day})
	}
	for i := range form.Limits {
		form.Limits[i].Endpoints = v.endpointChoices(form.Limits[i].Endpoint)
	}
	title := "Create a key"
	if form.Key != nil {
		title = "Edit " + form.Key.Name
	} else {
		form.Offer = v.offer()
	}
	p := v.page(title, "settings", &form)
	if form.isDraft {
		p.Notice = notices["draft"]
	}
	return s.views.show(w, status, "keyform", p)
}

// abilities returns the abilities of the plan, in the order of the gate's
// endpoints. All are checked if checked is nil.
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

// removeLimit is the endpoint of a limit that the person removes.
const removeLimit = "none"

// endpointChoices returns the endpoints of the plan, and all of them
// together. A limit can also be on an endpoint that the plan no longer has.
func (v *visit) endpointChoices(current string) []choice {
	choices := []choice{{"", "no limit"}, {api.All, "all endpoints"}}
	if current != "" {
		choices[0] = choice{removeLimit, "remove this limit"}
	}
	for _, e := range v.plans.Endpoints {
		if _, listed := v.plan.Limits[e.Name]; listed {
			choices = append(choices, choice{e.Name, e.Name})
		}
	}
	if !isChoice(choices, current) {
		choices = append(choices, choice{current, current})
	}
	return choices
}

func (s *site) createKey(w http.ResponseWriter, r *http.Request, v *visit) error {
	form := keyForm{}
	if err := form.read(r.PostForm); err != nil {
		return err
	}
	request := api.KeyRequest{Name: form.Name, Abilities: v.chosen(&form)}
	if len(request.Abilities) == 0 && len(v.plan.Limits) > 0 {
		form.refuse("abilities", choosePermission)
	}
	request.TTL, request.ExpiresAt = v.expiry(&form)
	request.Limits, request.Addresses = form.limits(), form.addresses()
	if form.Problem != "" {
		return s.showKeyForm(w, http.StatusUnprocessableEntity, v, form)
	}
	issued, err := s.Accounts.CreateKey(r.Context(), v.who.ID, request)
	if form.refused(err) {
		return s.showKeyForm(w, http.StatusUnprocessableEntity, v, form)
	}
	if err != nil {
		return err
	}
	return s.showToken(w, v, issued, false)
}

func (s *site) changeKey(w http.ResponseWriter, r *http.Request, v *visit) error {
	key, err := s.liveKey(r, v)
	if err != nil {
		return err
	}
	form := keyForm{Key: new(v.keyRow(key))}
	if err := form.read(r.PostForm); err != nil {
		return err
	}
	request := v.keyChange(key, &form)
	if form.Problem != "" {
		return s.showKeyForm(w, http.StatusUnprocessableEntity, v, form)
	}
	now, err := untilDone(r.Context(), func(ctx context.Context) (api.Key, error) {
		return s.Gate.ChangeKey(ctx, v.who.ID, key.ID, request)
	})
	if form.refused(err) {
		return s.showKeyForm(w, http.StatusUnprocessableEntity, v, form)
	}
	if err != nil {
		return err
	}
	done := "changed"
	now.LastUsedAt, now.LastUsedFrom = key.LastUsedAt, key.LastUsedFrom
	if reflect.DeepEqual(now, key) {
		done = "unchanged"
	}
	redirect(w, keysPath+"/"+key.ID, url.Values{"done": {done}})
	return nil
}

// keyChange returns the changes that the form makes to a key. A key keeps
// abilities that the plan does not have unless the person chooses others.
func (v *visit) keyChange(key api.Key, form *keyForm) api.KeyChange {
	var request api.KeyChange
	var before []string
	for _, a := range v.abilities(key.Abilities) {
		if a.Checked {
			before = append(before, a.Name)
		}
	}
	chosen := v.chosen(form)
	if !slices.Equal(slices.Sorted(slices.Values(before)), slices.Sorted(slices.Values(chosen))) {
		request.Abilities = api.To(chosen)
		if len(chosen) == 0 {
			form.refuse("abilities", choosePermission)
		}
	}
	ttl, at := v.expiry(form)
	if request.TTL = ttl; ttl == "" && form.Life != unchanged {
		request.ExpiresAt = api.To(at)
	}
	request.Name, request.Limits, request.Addresses = api.To(form.Name), api.To(form.limits()), api.To(form.addresses())
	return request
}

// chosen returns the abilities that the person chose.
func (v *visit) chosen(form *keyForm) []string {
	if !form.All {
		return form.checked
	}
	var all []string
	for _, a := range v.abilities(nil) {
		all = append(all, a.Name)
	}
	return all
}

// read reads what a person typed. It returns errForm if a field has a value
// that is not an option of the form.
func (f *keyForm) read(values url.Values) error {
	f.Name, f.Life = strings.TrimSpace(values.Get("name")), values.Get("life")
	f.Addresses = strings.TrimSpace(strings.ReplaceAll(values.Get("addresses"), "\r\n", "\n"))
	f.checked, f.All = append([]string{}, values["ability"]...), values.Get("scope") == scopeAll
	f.Until = strings.TrimSpace(values.Get("until"))
	if !isChoice(f.lives(), f.Life) {
		return errForm
	}
	endpoints, numbers, spans := values["limit_endpoint"], values["limit"], values["limit_period"]
	if len(numbers) > maxLimits || len(endpoints) != len(numbers) || len(spans) != len(numbers) {
		return errForm
	}
	for i, number := range numbers {
		if !isChoice(periods, spans[i]) {
			return errForm
		}
		row := limitRow{Endpoint: endpoints[i], Limit: strings.TrimSpace(number), Period: spans[i]}
		if row.Endpoint != removeLimit && row.Endpoint+row.Limit != "" {
			f.Limits = append(f.Limits, row)
		}
	}
	return nil
}

func isChoice(choices []choice, value string) bool {
	return slices.ContainsFunc(choices, func(c choice) bool { return c.Value == value })
}

// limits returns the limits of the rows, and marks the first wrong one.
func (f *keyForm) limits() []api.Limit {
	limits := []api.Limit{}
	for i := range f.Limits {
		row := &f.Limits[i]
		limit := api.Limit{Endpoint: row.Endpoint, Period: row.Period}
		var valid bool
		limit.Limit, valid = wholeNumber(row.Limit, 0)
		same := func(l api.Limit) bool { return l.Endpoint == limit.Endpoint && l.Period == limit.Period }
		problem := ""
		switch {
		case row.Endpoint == "":
			problem = "Choose the endpoint of this limit, or clear the number."
		case row.Limit == "":
			problem = "Enter the number of calls of this limit, or choose “remove this limit”."
		case !valid:
			problem = "A limit is a whole number from 0 to 10^15, such as 1000."
		case limit.Limit == 0 && !api.IsQuota(limit.Period):
			problem = "A limit " + api.Per(limit.Period) + " is at least 1."
		case slices.ContainsFunc(limits, same):
			problem = "A key has only one limit " + api.Per(limit.Period) + " for " + row.Endpoint + "."
		}
		if problem != "" {
			row.Wrong = f.Problem == ""
			f.refuse("limits", problem)
		}
		limits = append(limits, limit)
	}
	return limits
}

// wholeNumber reads a number of calls, from least on, with or without commas.
func wholeNumber(text string, least int64) (n int64, valid bool) {
	n, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(text), ",", ""), 10, 64)
	return n, err == nil && n >= least && n <= api.MaxLimit
}

// addresses returns the lines of the field.
func (f *keyForm) addresses() []string {
	addresses := strings.Fields(f.Addresses)
	if len(addresses) > maxLimits {
		f.refuse("addresses", "A key has at most "+strconv.Itoa(maxLimits)+" addresses. Use networks such as 203.0.113.0/24 instead.")
	}
	for _, text := range addresses {
		if _, err := netip.ParsePrefix(text); err != nil && net.ParseIP(text) == nil {
			f.refuse("addresses", text+" is neither an IP address nor a network such as 203.0.113.0/24.")
		}
	}
	return addresses
}

// scopeAll is the scope of a key with all abilities of the plan. All other
// scopes are those that are checked.
const scopeAll = "all"

const choosePermission = "Choose at least one endpoint."
