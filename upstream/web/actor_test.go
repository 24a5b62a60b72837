package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/web"
)

// TestActors: the audit log of the gate names the person who changes
// something on a page. What the operator changes has no person.
func TestActors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) { c.SignUp = "free" })
	ada := w.person()
	ada.post("/signup", "email", "ada@example.com", "password", password).has(t, http.StatusSeeOther)
	a, err := w.accounts.Find(t.Context(), "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.accounts.SetPlan(t.Context(), a.ID, "business"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.gate.Client.CreateKey(t.Context(), a.ID, api.KeyRequest{Kind: "login"}); err != nil {
		t.Fatal(err)
	}
	ada.makeKey("ci")
	keys, err := w.gate.Client.Keys(t.Context(), a.ID, client.KeyFilter{})
	if err != nil || len(keys) != 1 {
		t.Fatalf("got %+v, %v", keys, err)
	}
	page := "/settings/keys/" + keys[0].ID
	form := limitForm("198.51.100.0/24", [3]string{"20", "month", "all"})
	form.Set("life", "unchanged")
	ada.do(http.MethodPost, page+"/edit", form)
	ada.post(page+"/rotate", "overlap", "24")
	ada.post(page + "/revoke")
	ada.post("/settings/password", "current", password, "password", other)

	audit, err := w.gate.Client.Audit(t.Context(), client.AuditFilter{Account: a.ID}, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range audit.Audit {
		got = append(got, e.Action+" "+strings.ReplaceAll(e.Actor.Kind+" "+e.Actor.ID, a.ID, "ada"))
	}
	want := []string{
		"account.create person ada", "account.set application ", "key.create person ada", "key.set person ada",
		"key.rotate person ada", "key.revoke person ada", "login.end person ada",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	shown, err := w.gate.Client.Account(t.Context(), a.ID)
	if err != nil || shown.Label != "ada@example.com" {
		t.Errorf("the account: got %+v, %v", shown, err)
	}
}
