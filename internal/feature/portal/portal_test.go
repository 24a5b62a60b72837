package portal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/portal"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

const portalOf = "/tollgate/accounts/acc_1/portal"

// verifier verifies the links of a gate as the web pages of localhost do.
func verifier(t *testing.T, g *controltest.Gate) *assertion.Verifier {
	t.Helper()
	key, err := assertion.NewKey(controltest.Secret)
	if err != nil {
		t.Fatal(err)
	}
	accepts, err := assertion.Hosts(controltest.Site.String())
	if err != nil {
		t.Fatal(err)
	}
	return assertion.NewVerifier(accepts, g.Now, key)
}

// TestPortal: a link leads to the web pages and opens them for its account. The
// audit log says who made it and why. Neither the audit log nor the log of the
// gate has the link.
func TestPortal(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	var log bytes.Buffer
	c := client.InProcess(feature.Handler(gate, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	ctx := client.WithReason(client.WithActor(t.Context(), "acc_operator"), "lost password")
	if _, err := c.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("free")}); err != nil {
		t.Fatal(err)
	}
	link, err := c.Portal(ctx, "acc_1")
	if err != nil || !link.ExpiresAt.Equal(controltest.Start.Add(5*time.Minute)) {
		t.Fatalf("got %+v, %v", link, err)
	}
	u, err := url.Parse(link.URL)
	if err != nil || u.Scheme != "http" || u.Host != "localhost:8080" || u.Path != "/portal" || len(u.Query()) != 1 || u.Fragment != "" {
		t.Errorf("the link is %s, %v", link.URL, err)
	}
	text := u.Query().Get("link")
	if claims, err := verifier(t, gate).Verify(text, assertion.Portal); err != nil || claims.Account != "acc_1" || claims.Audience != "http://localhost:8080/portal" {
		t.Errorf("the link has %+v, %v", claims, err)
	}
	gate.Break(errors.New("the disk is gone"))
	if link, err := c.Portal(ctx, "acc_1"); err == nil || link.URL != "" {
		t.Errorf("without a store: got %+v, %v", link, err)
	}
	gate.Break(nil)
	page, err := c.Audit(ctx, api.AuditQuery{Account: "acc_1", Order: "desc", Limit: 1})
	if err != nil || len(page.Audit) != 1 {
		t.Fatal(page, err)
	}
	if e := page.Audit[0]; e.Action != "portal.create" || e.Actor != (api.Actor{Kind: "person", ID: "acc_operator"}) || e.Reason != "lost password" || e.Target != "" {
		t.Errorf("the entry is %+v", e)
	}
	all, err := json.Marshal([]any{page, gate.Published(), log.String()})
	if err != nil || log.Len() == 0 || bytes.Contains(all, []byte(text[:20])) || bytes.Contains(all, []byte(text[len(text)-20:])) {
		t.Errorf("the link is in the audit log, an event or the log, or there is no log: %v", err)
	}
}

func TestPortalRefusals(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	g.Refused(t, http.StatusNotFound, "not_found", "POST", portalOf, "")
	g.Refused(t, http.StatusBadRequest, "invalid_account", "POST", "/tollgate/accounts/a!/portal", "")
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"plan":"free","disabled":true}`)
	g.Refused(t, http.StatusForbidden, "account_disabled", "POST", portalOf, "")
	if n := g.Entries(t); n != 1 {
		t.Errorf("the audit log has %d entries, want one of the account", n)
	}
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"disabled":false}`)
	g.Must(t, http.StatusCreated, "POST", portalOf, "")
	g.Must(t, http.StatusNoContent, "DELETE", "/tollgate/accounts/acc_1", "")
	g.Refused(t, http.StatusNotFound, "not_found", "POST", portalOf, "")
	r := httptest.NewRequest("GET", portalOf, nil)
	w := httptest.NewRecorder()
	g.InProcess().ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed { // a link is made by what no other site can send
		t.Errorf("GET: got %d", w.Code)
	}
	_, err := portal.Link(nil, nil, "acc_1", controltest.Start)
	if err == nil || !strings.Contains(err.Error(), "set the option site") {
		t.Errorf("without a site: got %v", err)
	}
}

// TestPortalOfIdentity: an account that the gate made of a user of another
// handler gets links too.
func TestPortalOfIdentity(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	config := controltest.Config()
	config.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}", Plan: "starter", Prefix: "staff."}
	gate.Configure(t, config)
	if err := admin.Enrol(t.Context(), gate, "staff.ada", "ada", "starter"); err != nil {
		t.Fatal(err)
	}
	link, err := client.InProcess(gate.InProcess()).Portal(t.Context(), "staff.ada")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(link.URL, "link=")
	if claims, err := verifier(t, gate).Verify(text, assertion.Portal); err != nil || claims.Account != "staff.ada" {
		t.Errorf("got %+v, %v", claims, err)
	}
}

// TestNotes: upstream reports changes that the gate does not make, of accounts
// that the gate knows. It cannot pretend others.
func TestNotes(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	const path = "/tollgate/accounts/acc_1/audit"
	g.Refused(t, http.StatusNotFound, "not_found", "POST", path, `{"action":"operator.grant"}`)
	g.Account(t, "acc_1", "free")
	for _, body := range []string{`{"action":"key.revoke"}`, `{"action":""}`, `{}`, `{"action":"operator.grant","actor":"eve"}`} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "POST", path, body)
	}
	before := len(g.Published())
	c := client.InProcess(g.InProcess())
	actions := []string{api.OperatorGrant, api.OperatorRevoke, api.ResetCreate}
	for _, action := range actions {
		ctx := client.WithReason(client.WithActor(t.Context(), "acc_operator"), "because of "+action)
		if err := c.Note(ctx, "acc_1", action); err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.Audit(t.Context(), api.AuditQuery{Actor: "acc_operator"})
	if err != nil || len(page.Audit) != len(actions) {
		t.Fatal(page, err)
	}
	for i, e := range page.Audit {
		if e.Action != actions[i] || e.Account != "acc_1" || e.Reason != "because of "+actions[i] || string(e.Before) != "null" || string(e.After) != "null" {
			t.Errorf("got %+v", e)
		}
	}
	if made := g.Published()[before:]; len(made) != 0 {
		t.Errorf("a note made the events %+v", made)
	}
}
