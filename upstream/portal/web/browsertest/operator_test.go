package browsertest_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// office is the pages over a real gate and database, with an operator and a
// customer who has a key and calls.
type office struct {
	*testing.T
	page     *browsertest.Page
	gate     *gatetest.Gate
	address  string
	customer string
	// scripts is true if axe-core can run.
	scripts bool
}

func openOffice(t *testing.T, options ...browsertest.Option) *office {
	t.Helper()
	o := &office{T: t, gate: gatetest.Start(t), scripts: options == nil}
	logger := slog.New(slog.DiscardHandler)
	database := accounttest.Open(t)
	accounts := account.NewService(database, o.gate.Client, accounttest.Hasher(), time.Now, logger)
	var pages http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { pages.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	o.address = server.URL
	site, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	pages, err = web.New(web.Config{
		Accounts: accounts, Sessions: database, Gate: o.gate.Client, Now: time.Now, Logger: logger,
		Site: web.Site{Address: site, Timezone: "UTC", NoRates: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	olga, err := accounts.Add(t.Context(), email, password, "free")
	if err == nil {
		err = accounts.SetOperator(t.Context(), olga.ID, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	customer, err := accounts.Add(t.Context(), "customer@example.com", password, "starter")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.gate.Client.CreateKey(t.Context(), customer.ID, api.KeyRequest{Name: "shop backend"}); err != nil {
		t.Fatal(err)
	}
	o.customer = customer.ID
	control := o.gate.Control
	today := control.Policy().Calendar.At(control.Now()).Day
	call := store.Call{Account: o.customer, Endpoint: "convert", Day: today, At: control.Now(), Cost: 960}
	if ok, err := control.Opened().Take(t.Context(), call, nil, nil); !ok || err != nil {
		t.Fatalf("taking calls: %v, %v", ok, err)
	}
	o.page = browsertest.Start(t).Person(options...)
	return o
}

// judge fails the test for what axe-core finds, and unless the page has some
// words.
func (o *office) judge(words ...string) {
	o.Helper()
	if o.scripts {
		for _, found := range o.page.Violations() {
			o.Errorf("%s: %s", o.page.Path(), found)
		}
	}
	for _, word := range words {
		if !o.page.Shows(word) {
			o.Errorf("%s lacks %q: %s", o.page.Path(), word, o.page.Text("main"))
		}
	}
}

// act opens the form of an action by its link, fills it in and sends it. The
// newest entry of the audit log has the action and the reason.
func (o *office) act(link, action string, fields map[string]string, shows string) {
	o.Helper()
	o.page.Go(o.address + "/operator/accounts/" + o.customer)
	o.page.Press(`main a[href*="` + link + `"]`)
	o.judge()
	for name, value := range fields {
		browsertest.Evaluate[string](o.page, `document.querySelector("#`+name+`").value = "`+value+`"`)
	}
	o.page.Type("#reason", "ticket for "+link)
	status := o.page.Press("main form .actions button")
	if o.page.Shows("press the button again") { // it asks
		o.judge()
		status = o.page.Press("main form .actions button")
	}
	if status != http.StatusOK {
		o.Fatalf("%s: got %d: %s", link, status, o.page.Text("main"))
	}
	o.judge(shows)
	log, err := o.gate.Client.Audit(o.Context(), api.AuditQuery{Account: o.customer, Order: "desc", Limit: 1})
	if err != nil || log.Audit[0].Action != action || log.Audit[0].Reason != "ticket for "+link {
		o.Errorf("%s: got the entry %+v, %v", link, log.Audit, err)
	}
}

// An operator looks at all pages and makes every change, with JavaScript and
// without. axe-core, which needs it, finds nothing.
func TestOperatorPages(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]browsertest.Option{"with JavaScript": nil, "without, on a phone": {browsertest.NoScript, browsertest.Phone}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openOffice(t, options...)
			p := o.page
			p.Go(o.address + "/operator")
			p.Type("#email", email)
			p.Type("#password", password)
			if p.Press("main button"); p.Path() != "/operator" {
				t.Fatalf("at %s, want Today", p.Path())
			}
			p.Await("main", "Nearest to a limit") // it reloads itself until the numbers are there
			o.judge("customer@example.com", "96 %", "Accounts: 2", "The gate admits calls.")
			p.Press(`nav a[href="/operator/accounts"]`)
			p.Type("#search", "CUSTOMER@")
			p.Press("main form button")
			o.judge("customer@example.com")
			p.Press("tbody a")
			o.judge("shop backend", "960 of 1,000 used")
			o.actions()
			p.Go(o.address + "/operator/accounts/" + o.customer)
			p.Press(`main a[href^="/operator/try?"]`)
			p.Type("#target", "/api/convert/EUR/1/USD")
			p.Press("main form button")
			o.judge("Admitted", "50,000", "Plan and permissions")
			p.Press(`nav a[href="/operator/audit"]`)
			p.Type("#account", o.customer)
			p.Press("main form button")
			o.judge("key.revoke", "ticket for /revoke")
		})
	}
}

// actions makes every change.
func (o *office) actions() {
	o.Helper()
	for _, wrong := range []string{"", "   "} { // the browser refuses the first, the server the second
		o.page.Go(o.address + "/operator/accounts/" + o.customer + "/disable")
		o.page.Type("#reason", wrong+" ")
		if o.page.Press("main form .actions button"); !strings.HasSuffix(o.page.Path(), "/disable") {
			o.Errorf("without a reason: at %s", o.page.Path())
		}
	}
	o.judge("Give a reason")
	o.act("/plan", api.AccountSet, map[string]string{"plan": "business"}, "The plan is changed.")
	o.act("/limit", api.LimitSet, map[string]string{"endpoint": "convert", "calls": "50000", "until": "2099-12-31"}, "50,000 a day until 31 Dec 2099")
	o.act("/clear", api.LimitClear, nil, "The override is cleared.")
	o.act("/limit", api.LimitSet, map[string]string{"endpoint": "convert", "calls": "50000", "until": "2099-12-31"}, "50,000 a day until 31 Dec 2099")
	o.act("/credit", api.UsageCredit, map[string]string{"endpoint": "convert", "calls": "60"}, "900 of 50,000 used")
	o.act("/reset", api.ResetCreate, nil, "/reset/")
	o.act("/link", api.PortalCreate, nil, "/portal?link=")
	o.act("/disable", api.AccountSet, nil, "Disabled")
	o.act("/enable", api.AccountSet, nil, "Active")
	o.act("/revoke", api.KeyRevoke, nil, "No keys.")
}
