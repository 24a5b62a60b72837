package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/web"
)

// named are the names of the keys in a list, in its order.
func named(body string) []string {
	names := []string{}
	for _, found := range regexp.MustCompile(`<th scope="row"><a href="/settings/keys/[^"]+">([^<]+)</a>`).FindAllStringSubmatch(body, -1) {
		names = append(names, found[1])
	}
	return names
}

// A list of more than ten keys has a search and can be sorted. Its links keep
// the search, the order and the revoked keys.
func TestFindKeys(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for i := range 10 {
		w.issue(a.ID, fmt.Sprintf("Job %d", i))
	}
	if got := ada.get("/settings/keys"); strings.Contains(got.body, `role="search"`) || strings.Contains(got.body, "sort=") {
		t.Error("a list of ten keys has a search")
	}
	for i := range 25 {
		request := api.KeyRequest{Name: fmt.Sprintf("shop %02d", i), TTL: fmt.Sprintf("%dd", 40-i)}
		if _, err := w.gate.Client.CreateKey(t.Context(), a.ID, request); err != nil {
			t.Fatal(err)
		}
	}
	ada.post(w.issue(a.ID, "aaa")+"/revoke").has(t, http.StatusSeeOther)

	first := ada.get("/settings/keys")
	first.has(t, http.StatusOK, `role="search"`, `aria-sort="descending"><a href="/settings/keys?sort=created">Created`, `href="/settings/keys?sort=name">Key`)
	for target, want := range map[string][]string{
		"?sort=name":            {"Job 0", "Job 1", "Job 2"},
		"?sort=-name":           {"shop 24", "shop 23", "shop 22"},
		"?sort=expiry":          {"shop 24", "shop 23", "shop 22"},
		"?sort=created":         {w.keys(a.ID)[0], w.keys(a.ID)[1], w.keys(a.ID)[2]},
		"?sort=nothing":         named(first.body)[:3],
		"?sort=name&revoked=1":  {"aaa", "Job 0", "Job 1"},
		"?q=SHOP+0&sort=name":   {"shop 00", "shop 01", "shop 02"},
		"?sort=name&page=2":     {"shop 20", "shop 21", "shop 22"},
		"?q=shop&page=2":        named(ada.get("/settings/keys?q=shop").body)[:3],
		"?q=+job+3+&sort=-name": {"Job 3"},
	} {
		got := ada.get("/settings/keys" + target)
		got.has(t, http.StatusOK)
		if names := named(got.body); !slices.Equal(names[:min(3, len(names))], want) {
			t.Errorf("%s: got %v, want %v first", target, names, want)
		}
	}
	ada.get("/settings/keys?q=shop&sort=name&revoked=1").has(t, http.StatusOK, `value="shop"`, `<option value="name" selected>`,
		`name="revoked" value="1"`, "25 keys match “shop”.", `href="/settings/keys?q=shop&amp;sort=name">Hide revoked keys`,
		`aria-sort="ascending"><a href="/settings/keys?q=shop&amp;revoked=1&amp;sort=-name">Key`, `href="/settings/keys?revoked=1&amp;sort=name">Show all keys`)
	ada.get("/settings/keys?sort=name&revoked=1").has(t, http.StatusOK, `href="/settings/keys?page=2&amp;revoked=1&amp;sort=name">Next page`)
	hint := regexp.MustCompile(`<code>tgk_…(....)</code>`).FindStringSubmatch(first.body)[1]
	ada.get("/settings/keys?q="+url.QueryEscape("…"+hint)).has(t, http.StatusOK, "tgk_…"+hint)
	none := ada.get("/settings/keys?q=" + url.QueryEscape(`<b>"x`))
	none.has(t, http.StatusOK, "0 keys match “&lt;b&gt;&#34;x”.", `value="&lt;b&gt;&#34;x"`)
	if strings.Contains(none.body, "No keys yet") || strings.Contains(none.body, "<table") {
		t.Errorf("a search without a result shows %s", none.body)
	}
	log.wantNone(t)
}

// A key can have all endpoints of the plan, or some. The pages name the
// endpoints that it may not call.
func TestPermissions(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	a := w.add("ada@example.com", "business")
	ada := w.person().signIn("ada@example.com")
	ada.get("/settings/keys/new").has(t, http.StatusOK, `name="scope" value="all" checked`, "All endpoints of my plan")
	// The scope decides, whatever is checked.
	ada.post("/settings/keys/new", "name", "ci", "scope", "all", "ability", "rates", "life", "90").has(t, http.StatusOK, "Permissions: all endpoints.")
	key := w.only(a.ID)
	if !slices.Equal(slices.Sorted(slices.Values(key.Abilities)), []string{"convert", "rates"}) {
		t.Errorf("the key has %v, want all of the plan", key.Abilities)
	}
	page := "/settings/keys/" + key.ID
	ada.get("/settings/keys").has(t, http.StatusOK, "<td>All endpoints")
	if got := ada.get(page); strings.Contains(got.body, "No access to") || !strings.Contains(got.body, "All endpoints") {
		t.Errorf("the page of a key with all endpoints: %s", got.body)
	}
	ada.get(page+"/edit").has(t, http.StatusOK, `name="scope" value="all" checked`)

	ada.post(page+"/edit", "name", "ci", "scope", "some", "ability", "convert", "life", "unchanged").has(t, http.StatusSeeOther)
	ada.get("/settings/keys").has(t, http.StatusOK, "<td>convert")
	ada.get(page).has(t, http.StatusOK, "No access to", "rates <code>GET /api/rates/{base}</code>")
	ada.get(page+"/edit").has(t, http.StatusOK, `name="scope" value="some" checked`, `value="convert" checked`, `value="rates">`)
	ada.post("/settings/keys/new", "name", "none", "scope", "some", "life", "90").has(t, 422, "Choose at least one endpoint.", `value="some" checked`)

	// Without the endpoint rates in the plan, the key has all endpoints.
	if err := w.accounts.SetPlan(t.Context(), a.ID, "starter"); err != nil {
		t.Fatal(err)
	}
	ada.get("/settings/keys").has(t, http.StatusOK, "<td>All endpoints")
	log.wantNone(t)
}

// A key can expire at the end of a day. The choices have their dates.
func TestExpiry(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	now := time.Now().UTC()
	ada.get("/settings/keys/new").has(t, http.StatusOK, "<legend>Expiry</legend>", "90 days <small>("+now.AddDate(0, 0, 90).Format("2 Jan 2006")+")</small>",
		`type="date" min="`+now.Format(time.DateOnly))
	for until, says := range map[string]string{
		"":           "Enter a date such as ",
		"soon":       "Enter a date such as ",
		"2027-02-30": "Enter a date such as ",
		"2020-01-01": "The date is in the past.",
		"9999-01-01": "The date must be within 100 years.",
	} {
		ada.post("/settings/keys/new", "name", "ci", "scope", "all", "life", "date", "until", until).
			has(t, 422, `id="mistake">`+says, `value="`+until+`"`, `value="date" checked`)
	}
	if got := w.keys(a.ID); len(got) != 0 {
		t.Fatalf("mistakes made the keys %v", got)
	}
	day := now.AddDate(0, 0, 200)
	ada.post("/settings/keys/new", "name", "ci", "scope", "all", "life", "date", "until", day.Format(time.DateOnly)).
		has(t, http.StatusOK, "It expires <time", day.Format("2 Jan 2006"))
	key := w.only(a.ID)
	if key.ExpiresAt == nil || key.ExpiresAt.UTC().Format(time.DateTime) != day.Format(time.DateOnly)+" 23:59:59" {
		t.Errorf("it expires at %v, want the end of %s", key.ExpiresAt, day.Format(time.DateOnly))
	}
	today := now.Format(time.DateOnly)
	page := "/settings/keys/" + key.ID
	ada.post(page+"/edit", "name", "ci", "scope", "all", "life", "date", "until", day.AddDate(0, 0, 1).Format(time.DateOnly)).has(t, http.StatusSeeOther)
	if got := w.only(a.ID).ExpiresAt; !got.Equal(key.ExpiresAt.AddDate(0, 0, 1)) {
		t.Errorf("it now expires at %v, want a day later", got)
	}
	ada.post(page+"/edit", "name", "ci", "scope", "all", "life", "date", "until", "2020-01-01").has(t, 422, "The date is in the past.", `min="`+today)
	w.clock.advance(300 * 24 * time.Hour)
	ada = w.person().signIn("ada@example.com")
	ada.get(page).has(t, http.StatusOK, "<dt>Expired</dt>", day.AddDate(0, 0, 1).Format("2 Jan 2006")+"</time>")
	log.wantNone(t)
}

// A plan free with a quota offers keys like any other plan.
func TestFreePlanWithQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) { c.Gate = generous(t) })
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	ada.get("/settings/keys").has(t, http.StatusOK, "No keys yet", `href="/settings/keys/new"`)
	form := ada.get("/settings/keys/new")
	form.has(t, http.StatusOK, "All endpoints of my plan", `name="ability" value="convert"`, `name="ability" value="rates"`)
	if strings.Contains(form.body, "has no access") || strings.Contains(form.body, `value="history"`) {
		t.Errorf("the form shows an offer, or an endpoint of no plan: %s", form.body)
	}
}
