package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// put creates accounts at the gate: shop-0000 and so on.
func (w *world) put(n int) {
	w.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("shop-%04d", i)
	}
	_, errs := w.gate.Control.Opened().ChangeAccounts(context.Background(), ids, func(i int, a *store.Account, _ bool) error {
		a.Plan, a.Label, a.Disabled = []string{"starter", "business"}[i%2], fmt.Sprintf("person%d@example.org", i), i%10 == 0
		return nil
	})
	for _, err := range errs {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

var rowLinks = regexp.MustCompile(`<th scope="row"><a href="/operator/accounts/([^"]+)"`)

// next returns the link to the next page, empty on the last one.
func next(a answer) string {
	link := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(a.body)
	if link == nil {
		return ""
	}
	return strings.ReplaceAll(link[1], "&amp;", "&")
}

// rows returns the accounts of a list, over all of its pages.
func (p *person) rows(target string) (ids []string, pages int) {
	p.t.Helper()
	for target != "" {
		a := p.get(target)
		a.has(p.t, http.StatusOK)
		found := rowLinks.FindAllStringSubmatch(a.body, -1)
		if len(found) > 50 {
			p.t.Errorf("%d rows on a page", len(found))
		}
		for _, row := range found {
			ids = append(ids, row[1])
		}
		target, pages = next(a), pages+1
	}
	return ids, pages
}

func TestOperatorFindsAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(120)
	p, _ := w.operator()
	issued, err := w.gate.Client.CreateKey(t.Context(), "shop-0031", api.KeyRequest{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]int{
		"/operator/accounts":                                            121,
		"/operator/accounts?plan=starter":                               60,
		"/operator/accounts?state=disabled":                             12,
		"/operator/accounts?state=active&plan=free":                     1,
		"/operator/accounts?search=+PERSON7%40":                         1,
		"/operator/accounts?search=shop-003":                            10,
		"/operator/accounts?search=" + issued.Hint[len(issued.Hint)-4:]: 1,
		"/operator/accounts?search=%22%3E%3Cscript%3E":                  0,
	} {
		ids, pages := p.rows(target)
		if len(ids) != want || pages < (want+49)/50 {
			t.Errorf("%s: got %d accounts on %d pages, want %d", target, len(ids), pages, want)
		}
	}
	if body := p.get("/operator/accounts?search=%22%3E%3Cscript%3E").body; strings.Contains(body, `"><script>`) {
		t.Error("the search is not escaped")
	}
	for _, wrong := range []string{"/operator/accounts?plan=" + strings.Repeat("x", 65), "/operator/accounts?after=" + strings.Repeat("x", 65)} {
		p.get(wrong).has(t, http.StatusBadRequest)
	}
}

// A search of more accounts than the gate examines at once goes on by a link.
func TestOperatorSearchesFurther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(10_050)
	p, _ := w.operator()
	const last = "/operator/accounts?search=person10049%40"
	a := p.get(last)
	a.has(t, http.StatusOK, "Not all accounts are searched yet", "Search further")
	if ids, pages := p.rows(last); len(ids) != 1 || pages < 2 {
		t.Errorf("got %v on %d pages", ids, pages)
	}
}

func TestOperatorAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(2)
	p, olga := w.operator()
	for i := range 120 {
		ctx := client.WithReason(client.WithActor(t.Context(), []string{"cron", "<b>ada"}[i%2]), fmt.Sprintf("step %d", i))
		if _, err := w.gate.Client.PutAccount(ctx, "shop-0000", api.AccountChange{Plan: new([]string{"business", "starter"}[i%2])}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(target string) (entries, pages int) {
		for ; target != ""; pages++ {
			a := p.get(target)
			a.has(t, http.StatusOK)
			entries, target = entries+strings.Count(a.body, `<p class="why">`), next(a)
		}
		return entries, pages
	}
	today := w.last("shop-0000", 1)[0].At // the gate's zone is UTC
	for query, want := range map[string]int{
		"account=shop-0000": 120, "actor=cron": 60, "account=shop-0000&actor=%3Cb%3Eada": 60, "account=shop-0001": 0, "actor=" + olga.ID: 0,
		"account=shop-0000&from=" + today.AddDate(0, 0, -1).Format("2006-01-02") + "&to=" + today.Format("2006-01-02"): 120,
		"account=shop-0000&from=" + today.AddDate(0, 0, 2).Format("2006-01-02"):                                        0,
		"account=shop-0000&from=" + today.AddDate(0, 0, -2).Format("2006-01-02"):                                       120,
		"account=shop-0000&to=" + today.AddDate(0, 0, -2).Format("2006-01-02"):                                         0,
	} {
		if got, pages := count("/operator/audit?" + query); got != want || pages < (want+49)/50 {
			t.Errorf("%s: got %d entries on %d pages, want %d", query, got, pages, want)
		}
	}
	first := p.get("/operator/audit?account=shop-0000")
	first.has(t, http.StatusOK, "step 119", "<del><bdi>business</bdi></del> <ins><bdi>starter</bdi></ins>", "&lt;b&gt;ada")
	if strings.Contains(first.body, "step 60") || strings.Contains(first.body, "<b>") {
		t.Error("not newest first, or not escaped")
	}
	p.get("/operator/audit?from=tomorrow").has(t, http.StatusBadRequest)
	for _, unknown := range []string{"account=shop-0009", "actor=stranger", "account=nobody@example.com"} {
		a := p.get("/operator/audit?" + unknown)
		if a.has(t, http.StatusNotFound, `role="alert"`, "No account has this id or label"); strings.Contains(a.body, "No changes.") {
			t.Errorf("%s: no changes", unknown)
		}
	}
	ctx, shop := client.WithActor(t.Context(), olga.ID), []api.Limit{{Endpoint: "convert", Period: "day", Limit: 5}}
	at := w.gate.Control.Now().Add(90 * 24 * time.Hour)
	_, err := w.gate.Client.PutAccount(ctx, "shop-0001", api.AccountChange{Label: new("shop@example.com"), Plan: new("starter")})
	if err == nil {
		_, err = w.gate.Client.CreateKey(ctx, "shop-0001", api.KeyRequest{Name: "till", Limits: shop, ExpiresAt: &at})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"account=shop@example.com", "actor=" + string(olga.Email), "account=shop-0001"} {
		a := p.get("/operator/audit?" + query)
		a.has(t, http.StatusOK, ">shop-0001</a> <bdi>shop@example.com</bdi>", "<bdi>"+olga.ID+"</bdi></a> <bdi>"+string(olga.Email)+"</bdi>", "<bdi>convert 5 a day</bdi>", at.UTC().Format("2 Jan 2006, 15:04:05 MST"))
		if strings.Contains(a.body, "{&#34;") || strings.Contains(a.body, "[&#34;") {
			t.Errorf("%s: has JSON", query)
		}
	}
	if w.person().enter(w.portalPath("shop-0001")).makeKey("on a visit"); !strings.Contains(p.get("/operator/audit?account=shop-0001").body, "in a visit by a sign-in link") {
		t.Error("does not tell the change of a portal visit")
	}
}

func TestOperatorTriesARequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(2)
	ctx := t.Context()
	ada := w.add("ada@example.com", "starter")
	key, err := w.gate.Client.CreateKey(ctx, ada.ID, api.KeyRequest{Name: "ci", Limits: []api.Limit{{Endpoint: "convert", Period: "day", Limit: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"shop-0000", "shop-0001"} {
		if _, err := w.gate.Client.PutAccount(ctx, id, api.AccountChange{Label: new("Twice")}); err != nil {
			t.Fatal(err)
		}
	}
	w.call(ada.ID, "convert", 1000)
	p, _ := w.operator()
	p.get("/operator/try?target=/evil&account="+ada.ID).has(t, http.StatusOK, `value="`+ada.ID+`"`, `placeholder="/path?query" value=""`)
	for _, test := range []struct {
		target, account, key string
		status               int
		shows                string
	}{
		{"/api/convert/EUR/1/USD", "Ada@Example.com", "", 200, "1,000 used. Resets"},
		{"https://api.example.com/api/convert/EUR/1/USD?x=1", ada.ID, "", 200, "<h2 id=\"answer\">429 <code>quota_exceeded</code>"},
		{"/api/convert/EUR/1/USD", "", key.ID, 200, "with key " + key.ID},
		{"/api/convert/EUR/1/USD", "shop-0001", "", 200, ">Passes</span>"},
		{"/api/rates/EUR", ada.ID, "", 200, "<code>not_entitled</code>"},
		{"/api/convert/EUR/1/USD", "", "", 200, "401 <code>"},
		{"/api/%2e%2e/<script>", "", "", 200, "&lt;script&gt;"},
		{"/api/ convert", ada.ID, "", 422, `role="alert"`},
		{"/api/convert/EUR/1/USD", "Twice", "", 422, "not one account"},
		{"/api/convert/EUR/1/USD", "nobody@example.com", "", 422, "not one account"},
		{"/api/convert/EUR/1/USD", "", "key_unknown", 422, "no key has this ID"},
		{"/api/convert/EUR/1/USD", "shop-0001", key.ID, 422, "no key has this ID"},
	} {
		a := p.post("/operator/try", "method", "GET", "target", test.target, "account", test.account, "key", test.key)
		a.has(t, test.status, test.shows)
		if strings.Contains(a.body, "<script>") {
			t.Errorf("%s: not escaped", test.target)
		}
	}
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodGet, "/explain"), Refusal: api.ErrNotFound})
	p.post("/operator/try", "method", "GET", "target", "/", "account", ada.ID).has(t, 422, "Account: the gate does not know it, ")
	w.gate.Fail(nil)
	// It counts nothing.
	usage, err := w.gate.Client.Usage(ctx, ada.ID, 0)
	if err != nil || usage.Endpoints[0].Used != 1000 {
		t.Errorf("got %+v, %v", usage, err)
	}
	if err := w.gate.Client.DeleteAccount(ctx, ada.ID); err != nil {
		t.Fatal(err)
	}
	p.post("/operator/try", "method", "GET", "target", "/", "account", "ada@example.com").has(t, 422, "Account: the gate does not know it, ")
}

func TestOperatorToday(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) { c.Rates = func() int { return 2 } })
	w.put(3)
	ada := w.add("ada@example.com", "starter")
	p, _ := w.operator()
	w.call(ada.ID, "convert", 950)
	day := w.gate.Control.Policy().Calendar.At(w.gate.Control.Now()).Day
	if err := w.gate.Control.Opened().AddRefused(t.Context(), []store.Refused{{Day: day, Account: ada.ID, Endpoint: "convert", Code: "quota_exceeded", Calls: 1234}}); err != nil {
		t.Fatal(err)
	}
	for target, title := range map[string]string{"/operator": "Calls in 30 days", "/operator?days=7": "Calls in 7 days"} {
		var a answer
		for a = p.get(target); a.header.Get("Refresh") != ""; a = p.get(target) { // being added up
			a.has(t, http.StatusOK, "adds up the numbers")
		}
		a.has(t, http.StatusOK, title, "Accounts: 5 (1 disabled)", "95 %", "<strong>1,234</strong>", "<span>quota_exceeded 1,234</span>", "The gate admits calls.", "2 publications", "Tell the person who runs the server: <q>Run the command rates refresh of upstream: ",
			"950 admitted", ": 1,234\"", `href="`+accountPage(ada.ID)+`"`)
		if strings.Contains(a.body, "backup") {
			t.Errorf("wants a backup of a new store: %s", a.body)
		}
	}
	p.get(accountPage(ada.ID)).has(t, http.StatusOK, "<code>quota_exceeded</code> convert<strong>1,234</strong>")
	// It waits neither for the numbers nor for the plans.
	done := make(chan struct{})
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodGet, "/summary"), Hook: func() { <-done }})
	waiting := p.get("/operator")
	close(done)
	waiting.has(t, http.StatusOK, "adds up the numbers", "The gate admits calls.")
	if waiting.header.Get("Refresh") == "" {
		t.Error("does not reload")
	}
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodGet, "/plans")})
	p.get("/operator").has(t, http.StatusOK, "adds up the numbers", "The gate admits calls.")
	// Without the gate, the page says so.
	w.gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
	away := p.get("/operator")
	away.has(t, http.StatusOK, "The gate does not answer these pages.", "Tell the person who runs the server: ", "no numbers of calls", "Needs care")
	if strings.Contains(away.body, "adds up") || away.header.Get("Refresh") == "" {
		t.Errorf("says that a gate which does not answer works, or does not reload: %s", away.body)
	}
	p.get("/operator/accounts").has(t, http.StatusServiceUnavailable)
	w.gate.Fail(nil)
	w.gate.Control.Break(errors.New("the disk is full"))
	p.get("/operator").has(t, http.StatusOK, "The gate refuses calls: ", "TollgateStoreDown", "Needs care")
	w.gate.Control.Break(nil)
	// The readiness needs no secret: with a wrong one, it says that the gate works.
	w.gate.Fail(&gatetest.Fault{
		Hits:    func(r *http.Request) bool { return !strings.HasSuffix(r.URL.Path, "/health/ready") },
		Refusal: apierror.New(http.StatusUnauthorized, "unauthorized", "The secret is wrong."),
	})
	if wrong := p.get("/operator"); !strings.Contains(wrong.body, "The gate refuses the secret of these pages") || strings.Contains(wrong.body, "adds up") {
		t.Errorf("with a wrong secret: got %s", wrong.body)
	}
}
