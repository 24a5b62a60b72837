package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestAudit makes each change once and compares the audit log and the events.
// A new operation that changes something must be in it.
func TestAudit(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	gate.AcceptForeign(t)
	config := controltest.Config()
	config.ForeignKeys, config.Plans[2].MoreLimits = true, []policy.LimitConfig{{Endpoint: "convert", Period: "total", Limit: 50}}
	gate.Configure(t, config)
	handler := feature.Handler(gate, slog.New(slog.DiscardHandler))
	c, ctx := client.InProcess(handler), t.Context()
	var tokens []string
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	issued := func(key api.IssuedKey, err error) api.IssuedKey {
		t.Helper()
		check(err)
		tokens = append(tokens, key.Token)
		return key
	}
	_, err := c.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("starter")})
	check(err)
	_, err = c.PutAccount(client.WithActor(ctx, "acc_person"), "acc_1", api.AccountChange{Plan: new("business")})
	check(err)
	key := issued(c.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "ci"}))
	_, err = c.ChangeKey(ctx, "acc_1", key.ID, api.KeyChange{Name: api.To("cd")})
	check(err)
	next := issued(c.RotateKey(ctx, "acc_1", key.ID, api.Rotation{}))
	check(c.RevokeKey(ctx, "acc_1", next.ID))
	issued(c.CreateKey(ctx, "acc_1", api.KeyRequest{Kind: "login"}))
	check(c.EndLogins(ctx, "acc_1"))
	_, err = c.SetLimit(ctx, "acc_1", "convert", "day", api.OverrideRequest{Limit: new(int64(5))})
	check(err)
	check(c.ClearLimit(ctx, "acc_1", "convert", "day"))
	call := store.Call{Account: "acc_1", Endpoint: "convert", Day: gate.Policy().Calendar.At(gate.Now()).Day, Cost: 12}
	_, err = gate.Opened().Take(ctx, call, nil, nil)
	check(err)
	for range 2 {
		_, err = c.Credit(ctx, "acc_1", api.CreditRequest{Endpoint: "convert", Calls: 2, Reason: "outage", ID: "credit_1"})
		check(err)
	}
	for range 2 {
		_, err = c.TopUp(ctx, "acc_1", api.TopUpRequest{Endpoint: "convert", Calls: 3, ID: "invoice_1"})
		check(err)
	}
	check(c.ResetUsage(ctx, "acc_1", "convert", "gift"))
	link, err := c.Portal(ctx, "acc_1")
	check(err)
	tokens = append(tokens, link.URL[len("http://localhost:8080/portal?link="):])
	check(c.Note(ctx, "acc_1", api.OperatorGrant))
	check(c.DeleteAccount(ctx, "acc_1"))
	created := func(r api.LineResult) error {
		if r.Status != http.StatusCreated {
			t.Errorf("importing: got %+v", r)
		}
		return nil
	}
	check(c.ImportAccounts(ctx, strings.NewReader(`{"account":"acc_1","plan":"starter"}`), created))
	check(c.ImportKeys(ctx, strings.NewReader(controltest.KeyLine("acc_1", controltest.ForeignToken(1), "")), false, created))

	log, err := client.All(func(after string) ([]api.AuditEntry, *string, error) {
		page, err := c.Audit(ctx, api.AuditQuery{Account: "acc_1", Since: "2126-11-20", After: after, Limit: 5})
		return page.Audit, page.Next, err
	})
	check(err)
	var got []string
	for _, e := range log {
		got = append(got, e.Action)
	}
	newest, err := c.Audit(ctx, api.AuditQuery{Account: "acc_1", Since: "2126-11-20", Order: "desc", Limit: 100})
	check(err)
	slices.Reverse(newest.Audit)
	if diff := cmp.Diff(log, newest.Audit); diff != "" {
		t.Errorf("the newest first (-want +got):\n%s", diff)
	}
	// A login is not a change.
	const actions = "account.create account.set key.create key.set key.rotate key.revoke login.end limit.set limit.clear usage.credit usage.topup usage.reset portal.create operator.grant account.delete account.create key.create"
	if strings.Join(got, " ") != actions {
		t.Fatalf("got %v, want %s", got, actions)
	}
	for i, e := range log {
		who := api.Actor{Kind: "application"}
		if i == 1 {
			who = api.Actor{Kind: "person", ID: "acc_person"}
		}
		if e.Actor != who || e.Account != "acc_1" {
			t.Errorf("%s: got %+v, want the actor %+v", e.Action, e, who)
		}
	}
	var before api.Account
	check(json.Unmarshal(log[1].Before, &before))
	if before.Plan != "starter" || !strings.Contains(string(log[1].After), `"plan":"business"`) {
		t.Errorf("got before %s and after %s", log[1].Before, log[1].After)
	}
	for i, want := range map[int]string{
		9:  `{"id":"credit_1","account":"acc_1","endpoint":"convert","day":"2126-11-20","calls":2,"called":12,"credited":2,"reason":"outage"}`,
		10: `{"id":"invoice_1","account":"acc_1","endpoint":"convert","calls":3}`,
		11: `{"account":"acc_1","endpoint":"convert","day":"2126-11-20","calls":10,"called":12,"credited":10,"reason":"gift"}`,
		12: `null`,
		13: `null`,
		14: `{"month":"2126-11","usage":[{"endpoint":"convert","calls":12,"credited":12}]}`,
	} {
		if got := string(log[i].After); got != want {
			t.Errorf("%s: got after %s, want %s", log[i].Action, got, want)
		}
	}
	events := gate.Published()
	var types []string
	for _, e := range events {
		types = append(types, strings.TrimPrefix(e.Type, "tollgate."))
	}
	if got, want := strings.Join(types, " "), "account_changed account_changed key_created key_rotated key_revoked account_changed account_changed key_created"; got != want {
		t.Errorf("got events %s, want %s", got, want)
	}
	if usage, _ := json.Marshal(events[5].Data["usage"]); string(usage) != `[{"endpoint":"convert","calls":12,"credited":12}]` {
		t.Errorf("the event of the deletion has the usage %s", usage)
	}
	if events[5].Data["deleted"] != true || events[0].Data["deleted"] != nil {
		t.Errorf("got the deletion %+v and the creation %+v", events[5], events[0])
	}
	if e := events[2]; e.Type != event.KeyCreated || e.Data["key"] != key.ID || e.Data["name"] != "ci" {
		t.Errorf("got event %+v", e)
	}
	text, err := json.Marshal([]any{log, events})
	check(err)
	for _, token := range tokens {
		if bytes.Contains(text, []byte(token)) {
			t.Error("a token is in the audit log or in an event")
		}
	}
	checkOperations(t, handler, strings.Fields(actions))
}

// checkOperations checks that each operation of the OpenAPI document that
// changes something has an action that the test has seen.
func checkOperations(t *testing.T, handler http.Handler, seen []string) {
	t.Helper()
	actions := map[string]string{
		"put-account": "account.set", "delete-account": "account.delete", "create-key": "key.create", "change-key": "key.set",
		"revoke-key": "key.revoke", "rotate-key": "key.rotate", "end-logins": "login.end", "put-limit": "limit.set",
		"delete-limit": "limit.clear", "reset-usage": "usage.reset", "credit-usage": "usage.credit", "top-up-usage": "usage.topup",
		"import-accounts": "account.create", "import-keys": "key.create",
		"create-portal-link": "portal.create", "add-note": "operator.grant",
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/tollgate/openapi.json", nil))
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil || len(document.Paths) == 0 {
		t.Fatalf("reading the OpenAPI document: %v", err)
	}
	for path, operations := range document.Paths {
		for method, operation := range operations {
			if method == "get" || slices.Contains([]string{"introspect", "take", "settle-call", "look-up-account", "find-key"}, operation.OperationID) { // they change nothing, or count calls
				continue
			}
			if action := actions[operation.OperationID]; !strings.Contains(" "+strings.Join(seen, " ")+" ", " "+action+" ") {
				t.Errorf("%s %s (%s) has no audit entry in this test", method, path, operation.OperationID)
			}
		}
	}
}

// TestActors: an admin with a name stays an admin, and names are checked.
func TestActors(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	handler := feature.Handler(gate, slog.New(slog.DiscardHandler))
	admin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, admin.AsAdmin(r)) })
	for name, c := range map[string]struct {
		handler http.Handler
		actors  []string
		status  int
		want    api.Actor
	}{
		"application": {handler, nil, 200, api.Actor{Kind: "application"}},
		"person":      {handler, []string{"acc_7"}, 200, api.Actor{Kind: "person", ID: "acc_7"}},
		"admin":       {admin, nil, 200, api.Actor{Kind: "admin"}},
		"operator":    {admin, []string{"Jörg"}, 200, api.Actor{Kind: "admin", ID: "Jörg"}},
		"longest":     {handler, []string{strings.Repeat("ä", 200)}, 200, api.Actor{Kind: "person", ID: strings.Repeat("ä", 200)}},
		"empty":       {handler, []string{""}, 400, api.Actor{}},
		"twice":       {handler, []string{"a", "b"}, 400, api.Actor{}},
		"long":        {handler, []string{strings.Repeat("a", 201)}, 400, api.Actor{}},
		"control":     {handler, []string{"a\tb"}, 400, api.Actor{}},
		"invalid":     {handler, []string{"\xff"}, 400, api.Actor{}},
	} {
		r := httptest.NewRequest(http.MethodPut, "/tollgate/accounts/"+name, strings.NewReader(`{"plan":"starter"}`))
		r.Header["Tollgate-Actor"] = c.actors
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		page, err := client.InProcess(handler).Audit(t.Context(), api.AuditQuery{Account: name})
		if (err == nil) != (c.status == 200) || w.Code != c.status || len(page.Audit) != map[int]int{200: 1}[c.status] || len(page.Audit) == 1 && page.Audit[0].Actor != c.want {
			t.Errorf("%s: got %d and %+v, %v", name, w.Code, page.Audit, err)
		}
	}
}

// TestAuditHasNoLabels: the e-mail of an account, which is its label, is in no
// entry: entries are kept when the account is deleted. A change of the label
// has an entry all the same.
func TestAuditHasNoLabels(t *testing.T) {
	t.Parallel()
	c, ctx := client.InProcess(feature.Handler(controltest.New(t), slog.New(slog.DiscardHandler))), t.Context()
	for _, change := range []api.AccountChange{
		{Plan: new("starter"), Label: new("ada@example.com")}, {Label: new("grace@example.com")}, {Label: new("grace@example.com")},
		{Plan: new("business")}, {Label: new("")},
	} {
		if _, err := c.PutAccount(ctx, "acc_1", change); err != nil {
			t.Fatal(err)
		}
	}
	lines := `{"account":"acc_2","plan":"starter","label":"bob@example.com"}` + "\n" + `{"account":"acc_2","label":"eve@example.com"}`
	if err := c.ImportAccounts(ctx, strings.NewReader(lines), func(api.LineResult) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteAccount(ctx, "acc_2"); err != nil {
		t.Fatal(err)
	}
	page, err := c.Audit(ctx, api.AuditQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range page.Audit {
		if text := string(e.Before) + string(e.After); strings.Contains(text, "example.com") {
			t.Errorf("%s has %s", e.Action, text)
		}
		var after struct {
			LabelChanged bool `json:"label_changed"`
		}
		if e.After != nil {
			if err := json.Unmarshal(e.After, &after); err != nil {
				t.Fatal(err)
			}
		}
		got = append(got, fmt.Sprint(e.Account, " ", e.Action, " ", after.LabelChanged))
	}
	want := []string{
		"acc_1 account.create true", "acc_1 account.set true", "acc_1 account.set false", "acc_1 account.set true",
		"acc_2 account.create true", "acc_2 account.set true", "acc_2 account.delete false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
