package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// issue makes a key at the gate and returns the path of its page.
func (w *world) issue(account, name string) string {
	w.t.Helper()
	key, err := w.gate.Client.CreateKey(w.t.Context(), account, api.KeyRequest{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return "/settings/keys/" + key.ID
}

// A key that was rotated has a successor, and needs no other. Its pages
// lead there instead of offering what the gate refuses.
func TestRotateTwice(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	a := w.add("ada@example.com", "starter")
	page := w.issue(a.ID, "ci")
	ada := w.person().signIn("ada@example.com")
	ada.get(page).has(t, http.StatusOK, page+"/rotate")
	ada.post(page+"/rotate", "overlap", "24").has(t, http.StatusOK, "ci has a new token")

	old := ada.get(page)
	old.has(t, http.StatusOK, "Replaced by", "a newer key with the same name", page+"/revoke")
	if strings.Contains(old.body, page+"/rotate") {
		t.Error("the page of the old key offers to rotate it")
	}
	links := regexp.MustCompile(`Replaced by <a href="([^"]+)">tgk_…`).FindStringSubmatch(old.body)
	if links == nil || links[1] == page {
		t.Fatalf("the links to the newer key are %q", links)
	}
	newer := links[1]
	ada.get("/settings/keys").has(t, http.StatusOK, links[0])
	for _, again := range []answer{ada.get(page + "/rotate"), ada.post(page+"/rotate", "overlap", "24")} {
		again.has(t, again.status, "A newer key replaces this one", newer)
		if strings.Contains(again.body, "<fieldset>") || token.MatchString(again.body) {
			t.Error("offers to rotate it again")
		}
	}
	if got := ada.post(page+"/rotate", "overlap", "0").status; got != http.StatusUnprocessableEntity {
		t.Errorf("got %d, want 422", got)
	}
	if got := w.keys(a.ID); !slices.Equal(got, []string{"ci", "ci"}) {
		t.Errorf("keys are %v, want the old one and the new one", got)
	}
	// The successor has none, and once it is revoked the old one may be
	// rotated again.
	ada.get(newer).has(t, http.StatusOK, newer+"/rotate")
	ada.post(newer + "/revoke")
	ada.get(page).has(t, http.StatusOK, page+"/rotate")
	log.wantNone(t)
}

// A plan that was taken away shows what it would take to rotate a key.
func TestRotateWithoutPlan(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	a := w.add("ada@example.com", "starter")
	page := w.issue(a.ID, "ci")
	ada := w.person().signIn("ada@example.com")
	free := func() {
		if err := w.accounts.Set(t.Context(), a.ID, api.AccountChange{Plan: new("free")}); err != nil {
			t.Error(err)
		}
	}
	// While the form is under way, and before it is.
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodPost, "/rotate"), Hook: free})
	ada.post(page+"/rotate", "overlap", "24").has(t, http.StatusUnprocessableEntity, "Your plan has no access to the API")
	w.gate.Fail(nil)
	ada.post(page+"/rotate", "overlap", "24").has(t, http.StatusUnprocessableEntity, "Your plan, free, has no access", "<strong>starter</strong>")
	ada.get(page+"/rotate").has(t, http.StatusOK, "Your plan, free, has no access", "<strong>starter</strong>")
	// What needs no plan goes on.
	ada.post(page+"/revoke").has(t, http.StatusSeeOther)
	log.wantNone(t)
}

// Ids that no key has, those included that no gate takes for one.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for _, id := range []string{"nothing", "a%2Fb", "%2e%2e", "%00"} {
		page := "/settings/keys/" + id
		ada.get(page).has(t, http.StatusNotFound, "Page not found")
		ada.get(page+"/rotate").has(t, http.StatusNotFound, "Page not found")
		ada.post(page+"/rotate", "overlap", "24").has(t, http.StatusNotFound, "Page not found")
		ada.post(page+"/revoke").has(t, http.StatusNotFound, "Page not found")
	}
	log.wantNone(t)
}

// An account that is disabled while a form is under way is signed out.
func TestDisabledDuringForm(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	a := w.add("ada@example.com", "starter")
	page := w.issue(a.ID, "ci")
	ada := w.person().signIn("ada@example.com")
	stolen := ada.cookie()
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodPost, "/rotate"), Hook: func() {
		if err := w.accounts.Set(t.Context(), a.ID, api.AccountChange{Disabled: new(true)}); err != nil {
			t.Error(err)
		}
	}})
	if got := ada.post(page+"/rotate", "overlap", "0"); got.location != "/login?ended=1&next="+url.QueryEscape(page+"/rotate") || w.thief(stolen) {
		t.Errorf("got %d to %q", got.status, got.location)
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
	if err := w.accounts.Set(t.Context(), a.ID, api.AccountChange{Plan: new("starter")}); err != nil {
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
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour) // noon: midnight must not come between the pages
	w.clock.advance(time.Until(now))
	ada := w.person().signIn("ada@example.com")
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
