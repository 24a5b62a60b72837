package web_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// words returns the text of a page: without its tags, each space once.
func (a answer) words() string {
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(a.body, " "))), " ")
}

// says fails unless the text of a page has some words.
func (a answer) says(t testing.TB, words ...string) {
	t.Helper()
	for _, want := range words {
		if text := a.words(); !strings.Contains(text, want) {
			t.Errorf("lacks %q: %s", want, text)
		}
	}
}

// value returns the value of a field of the page.
func (a answer) value(name string) string {
	if found := regexp.MustCompile(` name="` + name + `"[^>]* value="([^"]*)"`).FindStringSubmatch(a.body); found != nil {
		return html.UnescapeString(found[1])
	}
	chosen := regexp.MustCompile(`<select id="` + name + `".*?<option value="([^"]*)" selected`).FindStringSubmatch(a.body)
	if chosen == nil {
		return ""
	}
	return chosen[1]
}

// entries returns the number of entries in the audit log of an account.
func (w *world) entries(id string) int {
	w.t.Helper()
	page, err := w.gate.Client.Audit(w.t.Context(), api.AuditQuery{Account: id, Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(page.Audit)
}

// overrides returns the overrides of an account.
func (w *world) overrides(id string) []api.Override {
	w.t.Helper()
	list, err := w.gate.Client.Limits(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// The form of an override shows the limit and what is used of it. It asks again
// before a lower number, and before one that has an end for calls today.
func TestOverrideShowsWhatItReplaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "business")
	w.call(ada.ID, "rates", 900)
	w.call(ada.ID, "convert", 20)
	p, _ := w.operator()
	at := accountPage(ada.ID)
	sheet := p.get(at)
	for _, target := range []string{"convert/day", "rates/day"} {
		sheet.has(t, http.StatusOK, at+"/limit?target="+target)
	}
	form := p.get(at + "/limit")
	if form.value("endpoint") != "rates" || form.value("period") != "day" || form.value("calls") != "1,000" {
		t.Errorf("the form does not begin with the limit that is nearest: %s", form.body)
	}
	form.says(t, "rates: 900 of 1,000 used today", "convert: 20 of 100,000 used today")
	if other := p.get(at + "/limit?target=convert%2Fday"); other.value("endpoint") != "convert" || other.value("calls") != "100,000" {
		t.Errorf("the link of a meter leads to another limit: %s", other.body)
	}
	if other := p.get(at + "/limit?target=rates/month"); other.value("endpoint") != "rates" || other.value("period") != "month" || other.value("calls") != "" {
		t.Errorf("a limit that there is not: %s", other.body)
	}

	send := func(calls, sure string) answer {
		return p.post(at+"/limit", "endpoint", "rates", "calls", calls, "period", "day", "until", "2099-12-31", "reason", "fair", "sure", sure)
	}
	asked := send("800", "")
	asked.says(t, "800 a day is lower than the present limit of rates, 1,000 a day.", "900 are used: calls are refused until the day ends.")
	if asked.status != http.StatusUnprocessableEntity || len(w.overrides(ada.ID)) != 0 {
		t.Fatalf("a lower limit: got %d and %+v, want a question", asked.status, w.overrides(ada.ID))
	}
	send("700", asked.value("sure")).says(t, "700 a day is lower") // the answer was about another number
	if done := send("800", asked.value("sure")); done.location != at+"?done=limit" || *w.overrides(ada.ID)[0].Limit != 800 {
		t.Fatalf("after the answer: got %d %s", done.status, done.words())
	}
	if higher := send("5000", ""); higher.location != at+"?done=limit" {
		t.Errorf("a higher limit: got %d %s", higher.status, higher.words())
	}

	// The form shows the override, and its number again is no change.
	form = p.get(at + "/limit?target=rates%2Fday")
	if form.value("calls") != "5,000" || form.value("until") != "2099-12-31" {
		t.Errorf("got the calls %q until %q", form.value("calls"), form.value("until"))
	}
	before := w.entries(ada.ID)
	if same := send("5,000", ""); same.location != at+"?done=unchanged" || w.entries(ada.ID) != before {
		t.Errorf("the same number: got %d %q and %d new entries", same.status, same.location, w.entries(ada.ID)-before)
	}

	// An endpoint that the plan does not have stays closed, so the form refuses it.
	if _, err := w.gate.Client.PutAccount(t.Context(), ada.ID, api.AccountChange{Plan: new("starter")}); err != nil {
		t.Fatal(err)
	}
	send("5", "").says(t, "Endpoint: choose one of the list.")
	if _, err := w.gate.Client.PutAccount(t.Context(), ada.ID, api.AccountChange{Plan: new("free")}); err != nil {
		t.Fatal(err)
	}
	p.get(at+"/limit").says(t, "The plan free has no access to the API, and an override gives none. Change the plan")
}

// The form lists overrides and paces. It asks before an end for an override that
// has none, and before a first limit that calls of today reach. An answer is to the
// limit that the question was about.
func TestOverrideAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "business")
	forEver := func(endpoint, period string, limit *int64) {
		t.Helper()
		if _, err := w.gate.Client.SetLimit(t.Context(), ada.ID, endpoint, period, api.OverrideRequest{Limit: limit}); err != nil {
			t.Fatal(err)
		}
	}
	forEver("rates", "day", new(int64(70_000)))
	forEver("all", "second", new(int64(9)))
	forEver("convert", "day", nil)
	w.call(ada.ID, "convert", 50)
	p, _ := w.operator()
	at := accountPage(ada.ID)
	p.get(at).has(t, http.StatusOK, at+"/limit?target=all/second")
	pace := p.get(at + "/limit?target=all/second")
	pace.says(t, "rates : 70,000 a day, without an end (plan: 1,000)", "convert : unlimited a day, without an end (plan: 100,000)", "All endpoints: at most 9 a second")
	if pace.value("calls") != "9" || pace.value("period") != "second" || strings.Contains(pace.words(), "all/second") {
		t.Errorf("the form of a pace: %s", pace.body)
	}
	send := func(endpoint, calls, reason, sure string) answer {
		return p.post(at+"/limit", "endpoint", endpoint, "calls", calls, "period", "day", "until", "2099-12-31", "reason", reason, "sure", sure)
	}
	const ends = "An override without an end applies now. This one replaces it, and ends."
	asked := send("rates", "80000", "more", "")
	asked.says(t, ends)
	forEver("rates", "day", new(int64(75_000)))
	asked = send("rates", "80000", "more", asked.value("sure"))
	asked.says(t, ends)
	p.get(at).says(t, "rates : 75,000 a day (plan")
	if done := send("rates", "80000", "more", asked.value("sure")); done.location != at+"?done=limit" {
		t.Errorf("after the answer: got %d %s", done.status, done.words())
	}
	if unasked := send("rates", "90000", "a\u202etxt", ""); unasked.status != http.StatusUnprocessableEntity || unasked.value("sure") != "" {
		t.Errorf("a form without a question: got %d, answered as %q", unasked.status, unasked.value("sure"))
	}
	send("convert", "10", "less", "").says(t, "convert has no limit a day now. "+ends, "50 are used: calls are refused until the day ends.")
	asked = send("all", "10", "less", "")
	asked.says(t, "All endpoints has no limit a day now.", "50 are used: calls are refused until the day ends.")
	send("all", "10", "less", asked.value("sure"))
	p.get(at).says(t, "50 of 10 used")
}

// An override replaces what the plan gives in total, not its top-ups, and a soft limit
// with one that is not soft.
func TestOverrideOfTotal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gate.Control
	config := controltest.Config()
	config.Plans[1].MoreLimits = []policy.LimitConfig{{Endpoint: "convert", Period: "total", Limit: 3000}, {Endpoint: "convert", Period: "month", Limit: 500, Soft: 900}}
	g.Configure(t, config)
	ada := w.add("ada@example.com", "starter")
	if _, err := w.gate.Client.TopUp(t.Context(), ada.ID, api.TopUpRequest{Endpoint: "convert", Calls: 5000, ID: "order-1"}); err != nil {
		t.Fatal(err)
	}
	p, _ := w.operator()
	at := accountPage(ada.ID) + "/limit"
	send := func(calls, period string) answer {
		return p.post(at, "endpoint", "convert", "calls", calls, "period", period, "until", "2099-12-31", "reason", "fair")
	}
	p.get(at+"?target=convert/total").says(t, "of 8,000 used")
	if form := p.get(at + "?target=convert/total"); form.value("calls") != "3,000" {
		t.Errorf("the form begins with %q", form.value("calls"))
	}
	send("2000", "total").says(t, "2,000 in total is lower than the present limit of convert, 3,000 in total.")
	if done := send("4000", "total"); done.location != accountPage(ada.ID)+"?done=limit" {
		t.Errorf("got %d %s", done.status, done.words())
	}
	if form := p.get(at + "?target=convert/total"); form.value("calls") != "4,000" || !strings.Contains(form.words(), "of 9,000 used") {
		t.Errorf("after it, the form begins with %q: %s", form.value("calls"), form.words())
	}
	send("600", "month").says(t, "An override is not soft: above it, calls are refused. The limit of the plan refuses them above 900.")
}

// The plan that follows can change alone.
func TestOperatorChangesNextPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "business")
	p, _ := w.operator()
	for _, then := range []string{"free", "starter"} {
		done := p.post(accountPage(ada.ID)+"/plan", "plan", "business", "until", "2099-12-31", "then", then, "reason", "fair")
		got, err := w.gate.Client.Account(t.Context(), ada.ID)
		if done.location != accountPage(ada.ID)+"?done=plan" || err != nil || got.Then != then {
			t.Errorf("got %d %q and the next plan %q, %v, want %q", done.status, done.location, got.Then, err, then)
		}
	}
}

// An override of the page ends when that of the command with the same last day
// ends, and both say the day that is included.
func TestOverridesEndTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	plans, err := w.gate.Client.Plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plans.Timezone = "Europe/Berlin"
	w.gate.Control.SetPlans(t, plans)
	p, _ := w.operator()
	p.post(accountPage(ada.ID)+"/limit", "endpoint", "convert", "calls", "5000", "period", "day", "until", "2099-12-31", "reason", "fair")
	page := w.overrides(ada.ID)
	command := &cobra.Command{Use: "tollgate"}
	cli.Add(command, func(string) (*client.Client, error) { return w.gate.Client, nil })
	command.SetArgs([]string{"limit", "set", ada.ID, "convert", "5000", "--until", "2099-12-31"})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ends := w.overrides(ada.ID)[0].ExpiresAt; len(page) != 1 || !page[0].ExpiresAt.Equal(*ends) || ends.Format(time.RFC3339) != "2099-12-31T23:00:00Z" {
		t.Errorf("the page's ends at %v, the command's at %v", page[0].ExpiresAt, ends)
	}
	p.get(accountPage(ada.ID)).says(t, "convert : 5,000 a day until 31 Dec 2099")
}

// A customer sees overrides with their end, and calls that were given back. The
// chart of a day shows what the meter shows.
func TestCustomerIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	p := w.person().signIn("ada@example.com")
	end := time.Date(2099, 12, 31, 23, 59, 59, 0, time.UTC).Add(time.Second)
	for _, o := range []struct {
		endpoint, period string
		limit            *int64
		ends             *time.Time
	}{{"convert", "day", new(int64(5000)), &end}, {"convert", "second", new(int64(9)), nil}, {"all", "month", nil, &end}, {"rates", "day", new(int64(7)), nil}} {
		if _, err := w.gate.Client.SetLimit(t.Context(), a.ID, o.endpoint, o.period, api.OverrideRequest{Limit: o.limit, ExpiresAt: o.ends, Reason: "a secret of the operator"}); err != nil {
			t.Fatal(err)
		}
	}
	w.call(a.ID, "convert", 30)
	if err := w.gate.Client.ResetUsage(t.Context(), a.ID, "convert", "an outage"); err != nil {
		t.Fatal(err)
	}
	w.call(a.ID, "convert", 2)
	usage := p.get("/usage")
	for _, page := range []answer{usage, p.get("/settings/plan")} {
		page.says(t, "convert : 5,000 a day until 31 Dec 2099 (your plan: 1,000)", "convert : at most 9 a second (your plan: no limit)",
			"All endpoints : unlimited a month until 31 Dec 2099 (your plan: no limit)")
		if text := page.words(); strings.Contains(text, "rates : 7") || strings.Contains(text, "secret") {
			t.Errorf("shows an endpoint without access, or a reason: %s", text)
		}
	}
	usage.says(t, "2 of 5,000 used, 30 given back 4,998 left", "convert 2 Given back 30", "Limits of your account convert :")
	operator, _ := w.operator()
	operator.get(accountPage(a.ID)).says(t, "rates : 7 a day (plan: no access)")
}

// Each form of the operator's pages and of Settings that changes nothing says
// so, and leaves no entry.
func TestNothingChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	customer := w.person().signIn("ada@example.com")
	key := customer.makeKey("shop backend")
	p, _ := w.operator()
	at := accountPage(ada.ID)
	edit := "/settings/keys/" + key + "/edit"
	for _, c := range []struct {
		who    *person
		page   string
		fields []string
	}{
		{p, at + "/plan", []string{"plan", "starter", "reason", "r"}},
		{p, at + "/plan", []string{"plan", "starter"}},
		{p, at + "/enable", []string{"reason", "r"}},
		{customer, edit, []string{"name", "shop backend", "ability", "convert", "life", "unchanged"}},
		{customer, "/settings/sessions", []string{"session", "gone"}},
		{p, at + "/clear", []string{"target", "convert/day", "reason", "r"}},
		{p, at + "/revoke", []string{"target", "gone", "reason", "r"}},
	} {
		before := w.entries(ada.ID)
		a := c.who.post(c.page, c.fields...)
		if a.status != http.StatusSeeOther || w.entries(ada.ID) != before {
			t.Errorf("%s: got %d and %d new entries: %s", c.page, a.status, w.entries(ada.ID)-before, a.words())
			continue
		}
		c.who.get(a.location).says(t, "Nothing changed.")
	}
	for _, link := range []string{"/clear?target=convert/day", "/revoke?target=gone"} {
		p.get(p.get(at+link).location).says(t, "Nothing changed.")
	}
	p.post(at+"/disable", "reason", "r")
	before := w.entries(ada.ID)
	p.get(p.post(at+"/disable", "reason", "r").location).says(t, "Nothing changed.")
	if w.entries(ada.ID) != before {
		t.Error("an entry of nothing")
	}
}

// Values that the gate refuses are told with the name of the field, and not in
// the words of the control API.
func TestPagesHaveTheirOwnWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	p, _ := w.operator()
	at := accountPage(ada.ID)
	limit := func(endpoint, calls, period, until string) []string {
		return []string{"endpoint", endpoint, "calls", calls, "period", period, "until", until, "reason", "r"}
	}
	credit := func(endpoint, calls, day string) []string {
		return []string{"endpoint", endpoint, "calls", calls, "day", day, "id", "x", "reason", "r"}
	}
	for _, c := range []struct {
		page   string
		fields []string
		says   string
	}{
		{at + "/plan", []string{"plan", "gold", "reason", "r"}, "New plan: choose one of the list."},
		{at + "/plan", []string{"plan", "business", "reason", "a\u202etxt"}, "Reason: at most 200 characters, all of them visible."},
		{at + "/limit", limit("nothing", "5", "day", "2099-12-31"), "Endpoint: choose one of the list."},
		{at + "/limit", limit("", "5", "day", "2099-12-31"), "Endpoint: choose one of the list."},
		{at + "/limit", limit("convert", "5", "fortnight", "2099-12-31"), "Period: choose one of the list."},
		{at + "/limit", limit("convert", "-5", "day", "2099-12-31"), "Calls: a whole number from 0 to 10^15, such as 1000."},
		{at + "/limit", limit("convert", "", "day", "2099-12-31"), "Calls: a whole number from 0 to 10^15, such as 1000."},
		{at + "/limit", append(limit("convert", "0", "hour", "2099-12-31"), "sure", "convert/hour/0 an hour/0/convert has no limit an hour now."), "Calls: a limit of a second, a minute or an hour is at least 1."},
		{at + "/limit", limit("convert", "5000", "day", "soon"), "Last day: Enter a date such as"},
		{at + "/limit", limit("convert", "5000", "day", "2020-01-01"), "Last day: The date is in the past."},
		{at + "/credit", credit("convert", "0", ""), "Calls: a whole number from 1 to 10^15, such as 100."},
		{at + "/credit", credit("convert", "-3", ""), "Calls: a whole number from 1 to 10^15, such as 100."},
		{at + "/credit", credit("nothing", "3", ""), "Endpoint: choose one of the list."},
		{at + "/credit", credit("convert", "3", "2020-01-01"), "Day of the calls: choose today or one of the 399 days before."},
		{at + "/credit", credit("convert", "3", "soon"), "Day of the calls: choose today or one of the 399 days before."},
		{"/operator/try", []string{"method", "GET", "target", "no path"}, "Path: enter the path and the query of a request"},
		{"/operator/try", []string{"method", "GET", "target", ""}, "Path: enter the path and the query of a request"},
		{"/operator/try", []string{"method", "GET", "target", "/", "key", "key_1"}, "Key ID: no key has this ID."},
		{"/operator/try", []string{"method", "GET", "target", "/", "account", "eve@example.com"}, "Account: not one account has this e-mail, label or ID."},
	} {
		before := w.entries(ada.ID)
		a := p.post(c.page, c.fields...)
		a.says(t, c.says)
		if a.status != http.StatusUnprocessableEntity || w.entries(ada.ID) != before {
			t.Errorf("%s %q: got %d and %d new entries", c.page, c.fields, a.status, w.entries(ada.ID)-before)
		}
	}
}

// Try and the audit log take a label, an id, and the e-mail to sign in, also after
// the label has changed. Try says its steps in words.
func TestNamesOfAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	w.add("bob@example.com", "free")
	if _, err := w.gate.Client.PutAccount(t.Context(), ada.ID, api.AccountChange{Label: new("Ada's shop")}); err != nil {
		t.Fatal(err)
	}
	p, _ := w.operator()
	for _, name := range []string{ada.ID, "Ada's shop", "ada@example.com", " ADA@example.com "} {
		a := p.post("/operator/try", "method", "GET", "target", "/api/convert/EUR/1/USD", "account", name)
		a.says(t, "Admitted", "by "+strings.TrimSpace(name), "Plan and permissions passed:", "Limits passed:", "Service passed:")
		if strings.Contains(a.body, "<strong>entitlement") || a.value("account") != name {
			t.Errorf("%s: names a step of the gate, or forgot the account: %s", name, a.words())
		}
		p.get("/operator/audit?"+url.Values{"account": {name}}.Encode()).has(t, http.StatusOK, "Ada&#39;s shop")
	}
}

// The gate's refusals of any code reach no page in their own words.
func TestNoTextOfTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	person := w.person().signIn("ada@example.com")
	key := person.makeKey("shop backend")
	p, _ := w.operator()
	at := accountPage(ada.ID)
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusConflict} {
		w.gate.Fail(&gatetest.Fault{
			Hits:    func(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPatch },
			Refusal: apierror.New(status, "invalid_request", "The request is not valid: body.calls: expected number >= 1."),
		})
		for _, a := range []answer{
			p.post(at+"/plan", "plan", "business", "reason", "r"),
			p.post(at+"/limit", "endpoint", "convert", "calls", "5000", "period", "day", "until", "2099-12-31", "reason", "r"),
			person.post("/settings/keys/"+key+"/edit", "name", "other", "ability", "convert", "life", "unchanged"),
		} {
			a.says(t, "The form is invalid", "Nothing was changed.")
			if strings.Contains(a.body, "body.calls") {
				t.Errorf("shows the words of the gate: %s", a.words())
			}
		}
		w.gate.Fail(nil)
	}
}

// An operator who disables the own account, or closes it, learns what that ends.
func TestOperatorEndsOwnRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, olga := w.operator()
	at := accountPage(olga.ID) + "/disable"
	asked := p.post(at, "reason", "leaving")
	asked.says(t, "This is your own account", "another operator")
	if asked.status != http.StatusUnprocessableEntity || !p.signedIn() {
		t.Fatalf("got %d, and signed in: %v", asked.status, p.signedIn())
	}
	p.get("/settings/account").says(t, "You are an operator: you lose the operator's pages too.")
	a := p.post(at, "reason", "leaving", "sure", asked.value("sure"))
	if e := w.last(olga.ID, 1)[0]; a.location != accountPage(olga.ID)+"?done=disable" || e.Reason != "leaving" {
		t.Fatalf("got %d %q and the entry %+v", a.status, a.location, e)
	}
	if b := p.get(a.location); b.status != http.StatusSeeOther || !strings.HasPrefix(b.location, "/login?ended=1") || p.signedIn() {
		t.Errorf("got %d %q", b.status, b.location)
	}
}
