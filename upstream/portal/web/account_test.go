package web_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// Sign-up is refused on a plan that the gate does not have.
func TestSignUpPlan(t *testing.T) {
	t.Parallel()
	unknown, log := newLoggedWorld(t, func(c *web.Config) { c.SignUp = "gold" })
	unknown.person().get("/signup").has(t, http.StatusServiceUnavailable, "You cannot sign up at the moment")
	unknown.person().post("/signup", "email", "bob@example.com", "password", password).
		has(t, http.StatusServiceUnavailable, "You cannot sign up at the moment", "No account was created")
	if _, err := unknown.accounts.Find(t.Context(), "bob@example.com"); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("the account is there: %v", err)
	}
	if text := log.text(); !strings.Contains(text, "gold") || strings.Contains(text, "bob@") {
		t.Errorf("the log must name the plan, and no e-mail: %q", text)
	}
}

// A person who signs up on a plan without access reads so before and after, and
// what gives access. No page is an error.
func TestSignUpWithoutAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) {
		c.SignUp, c.Brand.Contact = "free", web.Contact{URL: "mailto:help@example.com", Text: "help@example.com"}
	})
	const needs, contact = "With the plan <strong>starter</strong> or higher you can create keys.", `<a href="mailto:help@example.com">Contact us</a> to change your plan.`
	ada := w.person()
	ada.get("/signup").has(t, http.StatusOK, "on the plan <strong>free</strong>", "This plan has no access to the API yet.", needs, contact)
	ada.post("/signup", "email", "ada@example.com", "password", "short").has(t, http.StatusUnprocessableEntity, "This plan has no access to the API yet.")
	got := ada.post("/signup", "email", "ada@example.com", "password", password)
	first := ada.get(got.location)
	first.has(t, http.StatusOK, "Your account is ready.")
	if strings.Contains(first.body, `href="/settings/keys/new"`) {
		t.Error("the page offers a key that the gate refuses")
	}
	for _, target := range []string{got.location, "/settings/keys/new", "/usage"} {
		ada.get(target).has(t, http.StatusOK, "Your plan, free, has no access to the API yet", needs, contact)
	}
	ada.get("/settings/account").has(t, http.StatusOK, "This plan has no access to the API yet.", needs, contact)
	ada.get("/settings/plan").has(t, http.StatusOK, "This plan has no access to the API yet.", needs)
	a, err := w.accounts.Find(t.Context(), "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.accounts.Set(t.Context(), a.ID, api.AccountChange{Plan: new("business")}); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/settings/keys", "/usage", "/settings/account", "/settings/plan"} {
		if got := ada.get(target); got.status != http.StatusOK || strings.Contains(got.body, "has no access") {
			t.Errorf("%s on the plan business: got %d %s", target, got.status, got.body)
		}
	}
}

// exported is an export as a program reads it.
type exported struct {
	Account struct{ ID, Email, Plan string }
	Keys    []struct{ Name, Hint string }
	Logins  []struct{ Kind string } `json:"login_tokens"`
	Usage   struct {
		Timezone string
		Days     []struct{ Day string }
	}
	Calls    []any `json:"recent_calls"`
	Sessions []struct {
		Agent   string `json:"user_agent"`
		Current bool
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	w.add("bob@example.com", "starter")
	login, err := w.accounts.Login(t.Context(), "ada@example.com", password)
	if err != nil {
		t.Fatal(err)
	}
	ada, bob := w.person().signIn("ada@example.com"), w.person().signIn("bob@example.com")
	bob.makeKey("bobs")
	token := token.FindString(ada.post("/settings/keys/new", "name", "ci", "ability", "convert", "life", "90").body)
	ada.get("/settings/account").has(t, http.StatusOK, "ada@example.com", "starter", a.ID, "Export data", "You cannot undo this")
	w.person().get("/settings/account/export").has(t, http.StatusSeeOther)
	got := ada.get("/settings/account/export")
	if got.header.Get("Content-Type") != "application/json; charset=utf-8" || got.header.Get("Cache-Control") != "no-store" ||
		got.header.Get("Content-Disposition") != `attachment; filename="account.json"` {
		t.Errorf("got %d %v", got.status, got.header)
	}
	var data exported
	if err := json.Unmarshal([]byte(got.body), &data); err != nil {
		t.Fatal(err)
	}
	if data.Account.ID != a.ID || data.Account.Email != "ada@example.com" || data.Account.Plan != "starter" {
		t.Errorf("the account is %+v", data.Account)
	}
	if len(data.Keys) != 1 || data.Keys[0].Name != "ci" || len(data.Logins) != 1 || len(data.Usage.Days) != 90 ||
		data.Usage.Timezone != "UTC" || len(data.Sessions) != 1 || !data.Sessions[0].Current || data.Calls == nil {
		t.Errorf("got %s", got.body)
	}
	for _, secret := range []string{token, login.Secret, "bob", "argon2", strings.TrimPrefix(ada.cookie(), "tollgate=")} {
		if strings.Contains(got.body, secret) {
			t.Errorf("the export has %q", secret)
		}
	}
	if err := w.gate.Client.DeleteAccount(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	ada.get("/settings/account/export").has(t, http.StatusOK, `"keys": []`, `"days": []`, `"plan": "free"`)
	w.gate.Stop()
	ada.get("/settings/account/export").has(t, http.StatusServiceUnavailable, "The gate does not answer")
}

func TestCloseAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada, phone := w.person().signIn("ada@example.com"), w.person().signIn("ada@example.com")
	ada.makeKey("ci")
	ada.post("/settings/account", "current", other).has(t, http.StatusUnauthorized, "This is not your current password", "aria-invalid")

	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodDelete, a.ID)})
	ada.post("/settings/account", "current", password).has(t, http.StatusServiceUnavailable, "The gate does not answer")
	w.gate.Fail(nil)
	if got := w.keys(a.ID); !slices.Equal(got, []string{"ci"}) || !ada.signedIn() {
		t.Errorf("without the gate something was deleted: the keys are %v", got)
	}

	got := ada.post("/settings/account", "current", password)
	if got.location != "/?done=closed" {
		t.Fatalf("got %d to %q: %s", got.status, got.location, got.body)
	}
	ada.get(got.location).has(t, http.StatusOK, "Your account is closed.", "Sign in")
	if ada.signedIn() || phone.signedIn() {
		t.Error("a session of the closed account goes on")
	}
	if _, err := w.gate.Client.Account(t.Context(), a.ID); err == nil {
		t.Error("the gate still has the account")
	}
	w.person().post("/login", "email", "ada@example.com", "password", password).has(t, http.StatusUnauthorized)
	audit, err := w.gate.Client.Audit(t.Context(), api.AuditQuery{Account: a.ID})
	if err != nil {
		t.Fatal(err)
	}
	last := audit.Audit[len(audit.Audit)-1]
	if last.Action != "account.delete" || last.Actor.Kind != "person" || last.Actor.ID != a.ID {
		t.Errorf("the last change is %+v, want account.delete by the person", last)
	}
}

// Threat: a stranger at an open browser guesses the password with this form,
// alone or together with the change of the password.
func TestClosingIsNoGuessing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for range 3 {
		ada.post("/settings/account", "current", "a wrong guess").has(t, http.StatusUnauthorized)
	}
	for range 2 {
		ada.post("/settings/password", "current", "a wrong guess", "password", other).has(t, http.StatusUnauthorized)
	}
	if got := ada.post("/settings/account", "current", password); got.status != http.StatusSeeOther || !strings.HasPrefix(got.location, "/login") {
		t.Errorf("the sixth try: got %d to %q", got.status, got.location)
	}
	if _, err := w.accounts.Identify(t.Context(), a.ID); err != nil {
		t.Errorf("the account: %v", err)
	}
}
