package account_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

const (
	password = "correct horse battery staple"
	other    = "another horse altogether"
)

var now = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// world is a service over a real database and a real control API.
type world struct {
	*account.Service
	gate  *gatetest.Gate
	store *database.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store := accounttest.Open(t)
	gate := gatetest.Start(t)
	return &world{service(store, gate), gate, store}
}

func service(store account.Store, gate *gatetest.Gate) *account.Service {
	return serviceWith(store, gate, accounttest.Hasher(), func() time.Time { return now })
}

func serviceWith(store account.Store, gate *gatetest.Gate, hasher *account.Hasher, clock func() time.Time) *account.Service {
	return account.NewService(store, gate.Client, hasher, clock, slog.New(slog.DiscardHandler))
}

func (w *world) add(t *testing.T, email account.Email, plan string) account.Account {
	t.Helper()
	a, err := w.Add(t.Context(), email, password, plan)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// logins returns how many live login tokens an account has at the gate.
func (w *world) logins(t *testing.T, id string) int {
	t.Helper()
	return w.keys(t, id, "login")
}

func (w *world) keys(t *testing.T, id, kind string) int {
	t.Helper()
	keys, err := w.gate.Client.Keys(t.Context(), id, client.KeyFilter{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(keys, func(k api.Key) bool { return k.RevokedAt != nil }))
}

// atGate returns the ids that the gate knows.
func (w *world) atGate(t *testing.T) []string {
	t.Helper()
	page, err := w.gate.Client.Accounts(t.Context(), api.AccountQuery{})
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, a := range page.Accounts {
		ids = append(ids, a.Account)
	}
	return ids
}

func (w *world) stored(t *testing.T) int {
	t.Helper()
	all, err := w.store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func code(err error) string {
	var refusal *apierror.Error
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add(t, "ada@example.com", "starter")
	before := w.atGate(t)

	_, err := w.Add(t.Context(), "ada@example.com", password, "business")
	if !errors.Is(err, account.ErrEmailTaken) {
		t.Errorf("address that is taken: got %v", err)
	}
	_, err = w.Add(t.Context(), "bob@example.com", "short", "starter")
	if !errors.Is(err, account.ErrPassword) {
		t.Errorf("short password: got %v", err)
	}
	_, err = w.Add(t.Context(), "bob@example.com", password, "platinum")
	if code(err) != "unknown_plan" || errors.Is(err, account.ErrGate) {
		t.Errorf("unknown plan: got %v", err)
	}
	if got, err := w.Find(t.Context(), "ada@example.com"); err != nil || got.Account != ada {
		t.Errorf("got %+v, %v; want %+v", got, err, ada)
	}
	if got := w.atGate(t); !slices.Equal(got, before) || w.stored(t) != 1 {
		t.Errorf("the gate knows %v, want %v; %d stored, want 1", got, before, w.stored(t))
	}
}

func TestSetPlanAndDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	ctx := t.Context()
	if err := errors.Join(w.Set(ctx, a.ID, api.AccountChange{Plan: new("business")}), w.Set(ctx, a.ID, api.AccountChange{Disabled: new(true)})); err != nil {
		t.Fatal(err)
	}
	got, err := w.gate.Client.Account(ctx, a.ID)
	if err != nil || got.Plan != "business" || !got.Disabled {
		t.Errorf("got %+v, %v; want business, disabled", got, err)
	}
	if err := w.Set(ctx, a.ID, api.AccountChange{Plan: new("platinum")}); code(err) != "unknown_plan" {
		t.Errorf("unknown plan: got %v", err)
	}
	before := w.atGate(t)
	for name, err := range map[string]error{
		"SetPlan":     w.Set(ctx, "acc_none", api.AccountChange{Plan: new("starter")}),
		"SetDisabled": w.Set(ctx, "acc_none", api.AccountChange{Disabled: new(true)}),
		"Delete":      w.Delete(ctx, "acc_none"),
	} {
		if !errors.Is(err, account.ErrNotFound) {
			t.Errorf("%s of an unknown account: got %v", name, err)
		}
	}
	if got := w.atGate(t); !slices.Equal(got, before) {
		t.Errorf("the gate knows %v, want %v", got, before)
	}
}

func TestSetPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a := w.add(t, "ada@example.com", "starter")
	for range 2 {
		if _, err := w.Login(ctx, "ada@example.com", password); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.gate.Client.CreateKey(ctx, a.ID, api.KeyRequest{Name: "ci"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ChangePassword(ctx, "acc_none", password, other); !errors.Is(err, account.ErrOvertaken) {
		t.Errorf("unknown account: got %v", err)
	}
	if err := w.SetPassword(ctx, "acc_none", other); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("unknown account, by the operator: got %v", err)
	}
	who, err := w.ChangePassword(ctx, a.ID, password, other)
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := w.Identify(ctx, a.ID); err != nil || stored != who || who.Version != 2 {
		t.Errorf("got %+v, want version 2 as stored: %+v, %v", who, stored, err)
	}
	if _, err := w.ChangePassword(ctx, a.ID, password, password); !errors.Is(err, account.ErrCredentials) {
		t.Errorf("old password: got %v", err)
	}
	if logins, keys := w.logins(t, a.ID), w.keys(t, a.ID, ""); logins != 0 || keys != 1 {
		t.Errorf("%d logins and %d keys live, want 0 and 1", logins, keys)
	}
	if _, err := w.Login(ctx, "ada@example.com", password); !errors.Is(err, account.ErrCredentials) {
		t.Errorf("old password: got %v", err)
	}
	if _, err := w.Login(ctx, "ada@example.com", other); err != nil {
		t.Errorf("new password: got %v", err)
	}
	_, short := w.ChangePassword(ctx, a.ID, other, "short")
	for name, err := range map[string]error{"person": short, "operator": w.SetPassword(ctx, a.ID, "short")} {
		if !errors.Is(err, account.ErrPassword) {
			t.Errorf("short password, %s: got %v", name, err)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	cleo := w.add(t, "cleo@example.com", "business")
	ada := w.add(t, "ada@example.com", "starter")
	bob := w.add(t, "bob@example.com", "starter")
	if err := errors.Join(w.Set(ctx, bob.ID, api.AccountChange{Disabled: new(true)}), w.SetOperator(ctx, bob.ID, true), w.gate.Client.DeleteAccount(ctx, cleo.ID)); err != nil {
		t.Fatal(err)
	}
	got, err := w.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []account.Standing{{ada, false, "starter", false}, {bob, true, "starter", true}, {cleo, false, "free", false}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The gate lists its accounts in pages. All of them count.
func TestListPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = client.PageSize + 3
	var lines strings.Builder
	for i := range n {
		a := account.Account{ID: fmt.Sprintf("acc_%04d", i), Email: account.Email(fmt.Sprintf("u%04d@example.com", i))}
		if err := w.store.Add(t.Context(), a, ""); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "{\"account\":%q,\"plan\":\"starter\"}\n", a.ID)
	}
	err := w.gate.Client.ImportAccounts(t.Context(), strings.NewReader(lines.String()), func(api.LineResult) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	all, err := w.List(t.Context())
	if err != nil || len(all) != n {
		t.Fatalf("got %d, %v; want %d", len(all), err, n)
	}
	for i, a := range all {
		if want := account.Email(fmt.Sprintf("u%04d@example.com", i)); a.Email != want || a.Plan != "starter" {
			t.Fatalf("got %q on plan %s, want %q on starter", a.Email, a.Plan, want)
		}
	}
}

// TestLabels: each change sets the e-mail as the label, also of an account
// that has none.
func TestLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := account.Email("a@" + strings.Repeat(strings.Repeat("x", 60)+".", 4) + "example")
	for _, email := range []account.Email{"ada@example.com", long} {
		a := w.add(t, email, "starter")
		want := string(email[:min(len(email), api.MaxLabel)])
		if got, err := w.gate.Client.Account(t.Context(), a.ID); err != nil || got.Label != want {
			t.Errorf("a new account: got %+v, %v, want the label %s", got, err, want)
		}
		for name, change := range map[string]func() error{
			"plan":    func() error { return w.Set(t.Context(), a.ID, api.AccountChange{Plan: new("business")}) },
			"disable": func() error { return w.Set(t.Context(), a.ID, api.AccountChange{Disabled: new(true)}) },
			"enable":  func() error { return w.Set(t.Context(), a.ID, api.AccountChange{Disabled: new(false)}) },
		} {
			if _, err := w.gate.Client.PutAccount(t.Context(), a.ID, api.AccountChange{Label: new("")}); err != nil {
				t.Fatal(err)
			}
			if err := change(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, err := w.gate.Client.Account(t.Context(), a.ID); err != nil || got.Label != want {
				t.Errorf("%s: got %+v, %v, want the label %s", name, got, err, want)
			}
		}
	}
}

// TestClosedAccountLeavesNoEmail: after a person closes the account, the gate's
// log of changes has the id of the account, and nowhere the e-mail.
func TestClosedAccountLeavesNoEmail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	if err := w.Set(t.Context(), a.ID, api.AccountChange{Plan: new("business")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context(), a.ID, password); err != nil {
		t.Fatal(err)
	}
	page, err := w.gate.Client.Audit(t.Context(), api.AuditQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Audit {
		if text := fmt.Sprintf("%+v %s %s", e, e.Before, e.After); strings.Contains(text, "ada@") || e.Account != a.ID {
			t.Errorf("an entry has %s", text)
		}
	}
	if len(page.Audit) < 3 {
		t.Errorf("got %d entries", len(page.Audit))
	}
}
