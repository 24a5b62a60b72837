package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/account"
)

// operatorAction is a change that an operator can make to an account.
type operatorAction struct {
	// Title is the heading of the form, Effect what will happen, Button the text
	// of its button, and Done confirms the change.
	Title, Effect, Button, Done string
	// Danger marks a change that stops programs.
	Danger bool
	// make makes the change. The link that it returns is shown once.
	make func(s *site, ctx context.Context, f *actionForm) (link string, err error)
}

var operatorActions = map[string]operatorAction{
	"plan": {"Change the plan", "The new plan applies from the next call. Overrides stay, and the calls of today and of this month still count.",
		"Change the plan", "The plan is changed. It applies from the next call.", false, (*site).setPlan},
	"limit": {"Override a limit", "From the next call to the end of the last day, this limit replaces that of the plan. It gives no access to an endpoint that the plan does not have.",
		"Override the limit", "The limit is overridden. It applies from the next call.", false, (*site).setLimit},
	"clear": {"Clear the override", "From the next call, the limit of the plan applies again.",
		"Clear the override", "The override is cleared. The limit of the plan applies from the next call.", false, (*site).clearLimit},
	"credit": {"Give calls back", "The calls no longer count in the limits, and bills show them as given back. At most the calls of that day can be given back.",
		"Give the calls back", "The calls are given back, at most those of that day.", false, (*site).credit},
	"disable": {"Disable the account", "All keys and login tokens are refused from the next call on, and the person is signed out here. Nothing is deleted.",
		"Disable the account", "The account is disabled. Its calls are refused.", true, setDisabled(true)},
	"enable": {"Enable the account", "The keys that are not revoked work again from the next call on, and the person can sign in.",
		"Enable the account", "The account is enabled. Its keys work again.", false, setDisabled(false)},
	"revoke": {"Revoke the key", "The key stops working at once. You cannot undo this. Programs that use it are refused at their next call.",
		"Revoke the key", "The key is revoked. It no longer works.", true, (*site).revokeFor},
	"reset": {"Make a reset link", "The next page shows a link, once. With it the person sets a new password, without the current one. It works once, for 30 minutes. Older reset links end.",
		"Make a reset link", "", false, (*site).resetLink},
	"link": {"Make a sign-in link", "The next page shows a link, once. It opens Settings and My usage of this account, without an e-mail and a password. It works once, for 5 minutes.",
		"Make a sign-in link", "", false, (*site).signInLink},
}

// actionForm is the form of an action.
type actionForm struct {
	operatorAction
	*subject
	Action string
	// Target is the key to revoke, or the override to clear, as in the audit
	// log. TargetText is its name.
	Target, TargetText string
	// Values are the fields that were sent, or the first values.
	Values  url.Values
	Problem string
	// Link is what was made.
	Link string
	// Today is the last day for a credit, and the first one for the end of an
	// override.
	Today, Zone string
}

// Value is the value of a field.
func (f *actionForm) Value(name string) string { return f.Values.Get(name) }

// Select is a field with options.
func (f *actionForm) Select(name string) selection {
	chosen := selection{Name: name, Value: f.Value(name)}
	switch name {
	case "plan":
		chosen.Choices = planChoices(f.visit.plans)
	case "period":
		chosen.Choices = periods
	case "endpoint":
		if f.Action == "limit" {
			chosen.Choices = []choice{{api.All, "all endpoints"}}
		}
		for _, e := range f.visit.plans.Endpoints {
			chosen.Choices = append(chosen.Choices, choice{e.Name, e.Name})
		}
	}
	return chosen
}

// mistake is a value that a person can mend, in words.
type mistake string

func (m mistake) Error() string { return string(m) }

func (s *site) actionForm(w http.ResponseWriter, r *http.Request, v *visit) error {
	f, err := s.newAction(r, v, r.URL.Query().Get("target"))
	if err != nil {
		return err
	}
	f.Values = url.Values{"plan": {f.Plan}, "period": {perDay}, "day": {f.Today}, "id": {rand.Text()}}
	return s.showAction(w, http.StatusOK, v, f)
}

// newAction returns the form of the action in the path. A target has to be one
// of the account in the path.
func (s *site) newAction(r *http.Request, v *visit, target string) (*actionForm, error) {
	of, err := s.subject(r, v)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("action")
	f := &actionForm{
		operatorAction: operatorActions[name], subject: of, Action: name, Target: target,
		Today: v.clock.now.In(v.clock.zone).Format(time.DateOnly), Zone: v.plans.Timezone,
	}
	switch {
	case f.make == nil, name == "reset" && of.Email == "":
		return nil, errNotFound
	case name == "revoke":
		return f, s.findTargetKey(r.Context(), f)
	case name == "clear":
		return f, s.findOverride(r.Context(), f)
	}
	return f, nil
}

func (s *site) findTargetKey(ctx context.Context, f *actionForm) error {
	keys, err := s.keyList(ctx, f.visit, false)
	for _, key := range keys {
		if key.ID == f.Target && f.visit.keyRow(key).Live {
			f.TargetText = key.Name + " (" + key.Hint + ")"
			return nil
		}
	}
	return cmp.Or(err, error(errNotFound))
}

func (s *site) findOverride(ctx context.Context, f *actionForm) error {
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	overrides, err := s.Gate.Limits(ctx, f.Account.Account)
	for _, o := range overrides {
		if o.Endpoint+"/"+o.Period == f.Target {
			f.TargetText = covers(o.Endpoint) + ", " + per(o.Period)
			return nil
		}
	}
	return cmp.Or(err, error(errNotFound))
}

func (s *site) showAction(w http.ResponseWriter, status int, v *visit, f *actionForm) error {
	return s.views.show(w, status, "operatoraction", v.page(f.Title, operatorSection, f))
}

// act makes the change of a form. Its reason goes into the audit log.
func (s *site) act(w http.ResponseWriter, r *http.Request, v *visit) error {
	f, err := s.newAction(r, v, r.PostForm.Get("target"))
	if err != nil {
		return err
	}
	f.Values = r.PostForm
	reason := strings.TrimSpace(f.Value("reason"))
	if n := utf8.RuneCountInString(reason); n == 0 || n > api.MaxReason || strings.ContainsFunc(reason, unicode.IsControl) {
		err = mistake("Give a reason of 1 to 200 characters, all of them visible.")
	} else {
		f.Link, err = untilDone(client.WithReason(r.Context(), reason), func(ctx context.Context) (string, error) { return f.make(s, ctx, f) })
	}
	if f.Problem = adviceOf(err); f.Problem != "" {
		return s.showAction(w, http.StatusUnprocessableEntity, v, f)
	}
	switch {
	case err != nil:
		return err
	case f.Link != "":
		return s.showAction(w, http.StatusOK, v, f)
	}
	redirect(w, f.Path(), url.Values{"done": {f.Action}})
	return nil
}

// adviceOf says why a form was not accepted. It is empty for other errors.
func adviceOf(err error) string {
	if wrong, ok := errors.AsType[mistake](err); ok {
		return string(wrong)
	}
	if refused, ok := errors.AsType[*apierror.Error](err); ok {
		switch refused.Status {
		case http.StatusBadRequest, http.StatusForbidden, http.StatusConflict:
			return refused.Message
		}
	}
	return ""
}

func (s *site) setPlan(ctx context.Context, f *actionForm) (string, error) {
	return "", s.put(ctx, f, api.AccountChange{Plan: new(f.Value("plan"))})
}

func setDisabled(disabled bool) func(*site, context.Context, *actionForm) (string, error) {
	return func(s *site, ctx context.Context, f *actionForm) (string, error) {
		return "", s.put(ctx, f, api.AccountChange{Disabled: &disabled})
	}
}

func (s *site) put(ctx context.Context, f *actionForm, change api.AccountChange) error {
	_, err := s.Gate.PutAccount(ctx, f.Account.Account, change)
	return err
}

// setLimit reads the limit and its last day as the form of a key does.
func (s *site) setLimit(ctx context.Context, f *actionForm) (string, error) {
	form := keyForm{Until: f.Value("until"), Limits: []limitRow{{Endpoint: f.Value("endpoint"), Limit: f.Value("calls"), Period: f.Value("period")}}}
	limit, end := form.limits()[0], f.visit.lastDay(&form)
	if form.Problem != "" {
		return "", mistake(form.Problem)
	}
	_, err := s.Gate.SetLimit(ctx, f.Account.Account, limit.Endpoint, limit.Period,
		api.OverrideRequest{Limit: &limit.Limit, ExpiresAt: end, Reason: strings.TrimSpace(f.Value("reason"))})
	return "", err
}

func (s *site) clearLimit(ctx context.Context, f *actionForm) (string, error) {
	endpoint, period, _ := strings.Cut(f.Target, "/")
	return "", s.Gate.ClearLimit(ctx, f.Account.Account, endpoint, period)
}

// credit gives calls back once, also if the form is sent twice: it has an id.
func (s *site) credit(ctx context.Context, f *actionForm) (string, error) {
	calls, err := strconv.ParseInt(strings.ReplaceAll(f.Value("calls"), ",", ""), 10, 64)
	if err != nil {
		return "", mistake("Enter a whole number of calls, such as 100.")
	}
	_, err = s.Gate.Credit(ctx, f.Account.Account, api.CreditRequest{Endpoint: f.Value("endpoint"), Calls: calls, Day: f.Value("day"), ID: f.Value("id")})
	return "", err
}

func (s *site) revokeFor(ctx context.Context, f *actionForm) (string, error) {
	return "", s.Gate.RevokeKey(ctx, f.Account.Account, f.Target)
}

// resetLink makes a link once it is in the audit log.
func (s *site) resetLink(ctx context.Context, f *actionForm) (string, error) {
	if err := s.Gate.Note(ctx, f.Account.Account, api.ResetCreate); err != nil {
		return "", err
	}
	token, err := s.Accounts.NewReset(ctx, f.Account.Account)
	return s.Address.JoinPath("reset", token).String(), err
}

func (s *site) signInLink(ctx context.Context, f *actionForm) (string, error) {
	link, err := s.Gate.Portal(ctx, f.Account.Account)
	return link.URL, err
}
