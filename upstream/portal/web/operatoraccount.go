package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

const (
	operatorEntries = 10 // entries of the audit log on the page of an account
	operatorKeys    = 40 // keys there, unless all are asked for
)

// sheet is an account as an operator sees it.
type sheet struct {
	*subject
	Limits    meters
	Overrides []overrideRow
	// Credits are the days with calls that were given back, and Refused the refused
	// calls of the last week by code and endpoint.
	Credits []api.UsageDay
	Refused map[[2]string]int64
	Keys    keysView
	// OlderKeys is the number of keys that are not shown.
	OlderKeys int
	Calls     callList
	Entries   []entryRow
}

// operatorAccount asks the gate for all about an account at once.
func (s *site) operatorAccount(w http.ResponseWriter, r *http.Request, v *visit) error {
	of, err := s.subject(r, v)
	if err != nil {
		return err
	}
	var (
		document  api.UsageDocument
		overrides []api.Override
		keys      []api.Key
		refused   []api.Refused
		log       api.AuditPage
	)
	ctx, cancel := account.OfCall(r.Context())
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { document, err = s.usageOf(ctx, of.visit, historyDays); return err })
	group.Go(func() (err error) { overrides, err = s.Gate.Limits(ctx, of.Account.Account); return err })
	group.Go(func() (err error) { keys, err = s.keyList(ctx, of.visit, client.KeyFilter{}); return err })
	group.Go(func() (err error) { refused, err = s.refusedOf(ctx, of.visit, recentDays); return err })
	last := api.AuditQuery{Account: of.Account.Account, Order: "desc", Limit: operatorEntries}
	group.Go(func() (err error) { log, err = s.Gate.Audit(ctx, last); return err })
	if err := group.Wait(); err != nil {
		return err
	}
	view := newSheet(of, document, overrides, keys, refused, log.Audit, r.URL.Query())
	if older := len(keys) - operatorKeys; older > 0 && !r.URL.Query().Has("keys") {
		view.Keys.Keys, view.OlderKeys = view.Keys.Keys[:operatorKeys], older
	}
	p := v.page(of.Name(), operatorSection, view)
	p.Notice = cmp.Or(givenBack(log.Audit, r.URL.Query().Get("credit")), operatorActions[r.URL.Query().Get("done")].Done, p.Notice)
	return s.views.show(w, http.StatusOK, "operatoraccount", p)
}

func newSheet(of *subject, document api.UsageDocument, overrides []api.Override, keys []api.Key, refused []api.Refused, log []api.AuditEntry, query url.Values) *sheet {
	view := &sheet{
		subject: of, Limits: of.meters(document), Overrides: of.overrideRows(overrides), Entries: of.entryRows(log),
		Calls:   of.callList(document.RecentCalls, query),
		Credits: slices.DeleteFunc(document.Days, func(d api.UsageDay) bool { return len(d.Credited) == 0 }),
		Refused: sumBy(refused, func(r api.Refused) [2]string { return [2]string{r.Code, r.Endpoint} }),
	}
	for i := range view.Entries {
		view.Entries[i].Account = "" // the page has it
	}
	for i, bar := range view.Limits.Bars {
		if bar.Key == "" && bar.Target != "" {
			view.Limits.Bars[i].Change = of.Path() + "/limit?target=" + bar.Target
		}
	}
	for i, p := range view.Limits.Paces {
		if p.Key == "" && p.Target != "" {
			view.Limits.Paces[i].Change = of.Path() + "/limit?target=" + p.Target
		}
	}
	view.Keys.fill(of.visit, keys)
	return view
}

// givenBack says what a credit gave, by its entry in the audit log.
func givenBack(log []api.AuditEntry, id string) string {
	for _, e := range log {
		var made api.Credit
		if json.Unmarshal(e.After, &made) == nil && e.Action == api.UsageCredit && made.ID == id {
			return "Given back: " + humanize.Comma(made.Credited) + " of " + humanize.Comma(made.Calls) + " asked."
		}
	}
	return ""
}

// operatorAction is a change that an operator can make to an account.
type operatorAction struct {
	// Title is also the text of the button. Effect is what will happen, and Done
	// confirms it.
	Title, Effect, Done string
}

var operatorActions = map[string]operatorAction{
	"plan":    {"Change the plan", "The new plan applies from the next call. Overrides stay, and the calls of the running periods still count.", "The plan is changed. It applies from the next call."},
	"billing": {"Change the billing day", "The months of the account begin on this day. The running month goes on until the first such day that is at least one day after today, and its calls still count.", "The billing day is changed."},
	"limit":   {"Override a limit", "From the next call to the end of the last day, this limit replaces that of the plan. It gives no access to an endpoint that the plan does not have.", "The limit is overridden. It applies from the next call."},
	"clear":   {"Clear the override", "From the next call, the limit of the plan applies again.", "The override is cleared. The limit of the plan applies from the next call."},
	"credit":  {"Give calls back", "The calls no longer count in the limits, and bills show them as given back. At most the calls of that day can be given back.", "The calls are given back, at most those of that day."},
	"disable": {"Disable the account", "All keys and login tokens are refused from the next call on, and the person is signed out here. Nothing is deleted.", "The account is disabled. Its calls are refused."},
	"enable":  {"Enable the account", "The keys that are not revoked work again from the next call on, and the person can sign in.", "The account is enabled. Its keys work again."},
	"revoke":  {"Revoke the key", "The key stops working at once. You cannot undo this. Programs that use it are refused at their next call.", "The key is revoked. It no longer works."},
	"reset":   {Title: "Make a reset link", Effect: "The next page shows a link, once. With it the person sets a new password, without the current one. It works once, for 30 minutes. Older reset links end."},
	"link":    {Title: "Make a sign-in link", Effect: "The next page shows a link, once. It opens Settings and My usage of this account, without an e-mail and a password. It works once, for 5 minutes."},
}

// actionForm is the form of an action.
type actionForm struct {
	operatorAction
	*subject
	fields
	// Target is the key to revoke, or the override to clear. Link is what was made.
	Action, Target, Problem, Link string
	// Today is the last day for a credit, and the first for the end of an override.
	Today, Zone string
	// Sure is what the problem asks: the form can be sent again with it.
	Sure string
	// Limits are the limits now, the nearest first. The maps have the endpoint and the
	// period of each, and what is used today of endpoints without a limit.
	Limits    meters
	Overrides []overrideRow
	limits    map[string]api.UsageLimit
	used      map[string]int64
	overrides map[string]api.Override
}

// ask is a mistake unless the text is empty, or the form was asked the same.
func (f *actionForm) ask(sure, text string) error {
	if text == "" || f.Get("sure") == sure {
		return nil
	}
	f.Sure = sure
	return mistake(text + " If you want this, press the button again.")
}

// action shows the form of the action in the path, and makes its change. Its
// reason goes into the audit log.
func (s *site) action(w http.ResponseWriter, r *http.Request, v *visit) error {
	of, err := s.subject(r, v)
	if err != nil {
		return err
	}
	f := newAction(of, r.PathValue("action"), r.PostForm)
	if f.Title == "" || f.Action == "reset" && of.Email == "" {
		return errNotFound
	}
	if r.Method != http.MethodPost {
		f.Values = url.Values{"target": r.URL.Query()["target"], "plan": {of.Plan}, "until": {f.lastDay()}, "then": {of.Account.Then}, "billing": {strconv.Itoa(max(1, of.Account.BillingDay))}, "day": {f.Today}, "id": {rand.Text()}}
	}
	status := http.StatusOK
	if err = s.fillTarget(r, f); err == nil && r.Method == http.MethodPost {
		f.Link, err = untilDone(r.Context(), func(ctx context.Context) (string, error) { return s.make(ctx, f) })
	}
	gone := f.Target != "" && (errors.Is(err, errNotFound) || errors.Is(err, api.ErrNotFound))
	switch f.Problem = adviceOf(err); {
	case f.Problem != "":
		status = http.StatusUnprocessableEntity
	case gone, errors.Is(err, errUnchanged):
		redirect(w, f.Path(), url.Values{"done": {"unchanged"}})
		return nil
	case err != nil:
		return err
	case r.Method == http.MethodPost && f.Link == "":
		done := url.Values{"done": {f.Action}}
		if f.Action == "credit" {
			done.Set("credit", f.Get("id"))
		}
		redirect(w, f.Path(), done)
		return nil
	}
	return s.views.show(w, status, "operatoraction", v.page(f.Title, operatorSection, f))
}

func newAction(of *subject, name string, values url.Values) *actionForm {
	f := &actionForm{
		operatorAction: operatorActions[name], subject: of, fields: of.visit.fields(values), Action: name,
		Today: of.clock.now.In(of.clock.zone).Format(time.DateOnly), Zone: of.plans.Timezone,
	}
	f.options["then"] = f.options["plan"]
	if name == "limit" {
		f.options["endpoint"] = slices.DeleteFunc(of.endpointChoices(""), func(c choice) bool { return !has(of.plan, c.Value) })
	}
	return f
}

// lastDay is the last day of a plan that ends, or empty.
func (f *actionForm) lastDay() string {
	if f.PlanUntil == nil {
		return ""
	}
	return f.PlanUntil.Add(-1).In(f.clock.zone).Format(time.DateOnly)
}

// errUnchanged means that a form has what is there already.
var errUnchanged = errors.New("nothing changed")

// make makes the change of a form. The link that it returns is shown once.
func (s *site) make(ctx context.Context, f *actionForm) (link string, err error) {
	id, reason := f.Account.Account, strings.TrimSpace(f.Get("reason"))
	for name, label := range map[string]string{"plan": "New plan", "then": "Plan after it", "endpoint": "Endpoint", "period": "Period"} {
		if f.Has(name) && !isChoice(f.options[name], f.Get(name)) {
			return "", mistake(label + ": choose one of the list.")
		}
	}
	switch {
	case f.Action == "plan" && f.Get("plan") == f.Plan && f.Get("until") == f.lastDay() && (f.PlanUntil == nil || f.Get("then") == f.Then), f.Action == "disable" && f.Disabled, f.Action == "enable" && !f.Disabled:
		return "", errUnchanged
	case reason == "": // the gate refuses other reasons that the log cannot have
		return "", mistake("Give a reason.")
	case f.Action == "disable" && id == f.session.AccountID:
		err = f.ask(id, "This is your own account. You are signed out at once, and only another operator, or a person with a shell on the server, can enable it again.")
	}
	if err != nil {
		return "", err
	}
	ctx = client.WithReason(ctx, reason)
	switch f.Action {
	case "plan":
		change := api.AccountChange{Plan: new(f.Get("plan"))}
		if f.Get("until") != "" {
			end, wrong := f.clock.endOf(f.Get("until"))
			if wrong != "" {
				return "", mistake(wrong)
			}
			change.PlanUntil, change.Then = api.To(&end), new(f.Get("then"))
		}
		_, err = s.Gate.PutAccount(ctx, id, change)
	case "billing":
		day, valid := wholeNumber(f.Get("billing"), 1)
		if !valid || day > 31 {
			return "", mistake("Billing day: a number from 1 to 31.")
		}
		_, err = s.Gate.PutAccount(ctx, id, api.AccountChange{BillingDay: new(int(day))})
	case "disable", "enable":
		_, err = s.Gate.PutAccount(ctx, id, api.AccountChange{Disabled: new(f.Action == "disable")})
	case "limit":
		err = s.setLimit(ctx, f, reason)
	case "clear":
		endpoint, period, _ := strings.Cut(f.Target, "/")
		err = s.Gate.ClearLimit(ctx, id, endpoint, period)
	case "credit":
		calls, valid := wholeNumber(f.Get("calls"), 1)
		if !valid {
			return "", mistake("Calls: a whole number from 1 to 10^15, such as 100.")
		}
		// With its id, a form that is sent twice gives nothing back again.
		_, err = s.Gate.Credit(ctx, id, api.CreditRequest{Endpoint: f.Get("endpoint"), Calls: calls, Day: f.Get("day"), ID: f.Get("id")})
	case "revoke":
		err = s.Gate.RevokeKey(ctx, id, f.Get("target"))
	case "reset":
		if err = s.Gate.Note(ctx, id, api.ResetCreate); err == nil {
			link, err = s.Accounts.NewReset(ctx, id)
			link = s.Address.JoinPath("reset", link).String()
		}
	case "link":
		made, err := s.Gate.Portal(ctx, id)
		return made.URL, err
	}
	return link, err
}
