package web_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// TestDeclaredPages: what the configuration file declares has no buttons, and its
// forms say why they change nothing.
func TestDeclaredPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	page := w.issue(ada.ID, "ci")
	key := page[strings.LastIndex(page, "/")+1:]
	g := w.gate.Control
	errs := g.Opened().Declare(t.Context(), g.Now(), []string{ada.ID}, func(_ int, a *book.Account) error {
		a.Declared, a.Keys[0].Declared = true, true
		return nil
	})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	person, at := w.person().signIn("ada@example.com"), accountPage(ada.ID)
	operator, _ := w.operator()
	for _, shown := range []answer{person.get(page), person.get("/settings/keys"), operator.get(at)} {
		shown.has(t, http.StatusOK, "eclared")
		for _, link := range []string{page + "/edit", page + "/rotate", page + "/revoke", at + "/plan", at + "/disable", at + "/revoke"} {
			if strings.Contains(shown.body, link) {
				t.Errorf("has %s", link)
			}
		}
	}
	const advice = "This is declared in the configuration file"
	person.post(page+"/edit", "name", "x", "scope", "all", "life", "0").has(t, http.StatusConflict, advice)
	person.post(page+"/rotate", "overlap", "24").has(t, http.StatusConflict, advice)
	person.post(page+"/revoke").has(t, http.StatusConflict, advice)
	person.post("/settings/account", "current", password).has(t, http.StatusConflict, advice)
	person.get("/settings/account").has(t, http.StatusOK, "ada@example.com")
	operator.post(at+"/plan", "plan", "business", "reason", "x").has(t, http.StatusConflict, advice)
	operator.post(at+"/disable", "reason", "x").has(t, http.StatusConflict, advice)
	operator.post(at+"/revoke", "target", key, "reason", "x").has(t, http.StatusConflict, advice)
	if got := w.keys(ada.ID); len(got) != 1 {
		t.Errorf("the keys are %v", got)
	}
}

// TestInviteToDeclared: a person gets a password for a declared account, which keeps
// the label of the file.
func TestInviteToDeclared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gate.Control
	errs := g.Opened().Declare(t.Context(), g.Now(), []string{"acme"}, func(_ int, a *book.Account) error {
		a.Exists, a.Declared, a.Plan, a.Label = true, true, "starter", "Acme Ltd"
		return nil
	})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	_, token, err := w.accounts.Invite(t.Context(), "ann@acme.example", "acme", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.accounts.ResetPassword(t.Context(), token, password); err != nil {
		t.Fatal(err)
	}
	if a, err := g.Opened().Account(t.Context(), "acme"); err != nil || a.Label != "Acme Ltd" {
		t.Errorf("got %+v, %v", a, err)
	}
	w.person().signIn("ann@acme.example").get("/settings/account").has(t, http.StatusOK, "ann@acme.example")
	var refused *apierror.Error
	if err := w.accounts.Set(t.Context(), "acme", api.AccountChange{Plan: new("business")}); !errors.As(err, &refused) || refused.Code != "declared" {
		t.Errorf("got %v", err)
	}
}
