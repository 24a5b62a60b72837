package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

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
