package account_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/account/gatetest"
)

const (
	password = "correct horse battery staple"
	other    = "another horse altogether"
)

// cheap is the least that argon2id can cost.
var cheap = account.Cost{MemoryKiB: 8, Passes: 1, Lanes: 1}

var now = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// world is a service over a real database and a real control API.
type world struct {
	*account.Service
	gate  *gatetest.Gate
	store *database.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := database.OpenFile(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	gate := gatetest.Start(t)
	return &world{service(store, gate, cheap), gate, store}
}

func service(store account.Store, gate *gatetest.Gate, cost account.Cost) *account.Service {
	return account.NewService(store, gate.Client, account.NewHasher(cost, 4),
		func() time.Time { return now }, slog.New(slog.DiscardHandler))
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
	keys, err := w.gate.Client.Keys(t.Context(), id, control.KeyFilter{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(keys, func(k control.Key) bool { return k.RevokedAt != nil }))
}

// atGate returns the ids that the gate knows.
func (w *world) atGate(t *testing.T) []string {
	t.Helper()
	page, err := w.gate.Client.Accounts(t.Context(), "", 0)
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
	all, err := w.store.List(t.Context(), "", 100)
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

func TestAdd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	if !a.CreatedAt.Equal(now) || !a.UpdatedAt.Equal(now) {
		t.Errorf("got times %v and %v, want %v", a.CreatedAt, a.UpdatedAt, now)
	}
	got, err := w.gate.Client.Account(t.Context(), a.ID)
	if err != nil || got.Plan != "starter" || got.Disabled {
		t.Errorf("at the gate: got %+v, %v; want plan starter", got, err)
	}
	for name, find := range map[string]func() (account.Account, error){
		"Find": func() (account.Account, error) { return w.Find(t.Context(), "ada@example.com") },
		"Get":  func() (account.Account, error) { return w.Get(t.Context(), a.ID) },
	} {
		if got, err := find(); err != nil || got != a {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, a)
		}
	}
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(t, "ada@example.com", "starter")
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
	if got := w.atGate(t); !slices.Equal(got, before) || w.stored(t) != 1 {
		t.Errorf("the gate knows %v, want %v; %d stored, want 1", got, before, w.stored(t))
	}
}

// When the gate cannot be reached, no change is made, and all say why.
func TestGateDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	w.gate.Stop()

	ctx := t.Context()
	_, add := w.Add(ctx, "bob@example.com", password, "starter")
	_, login := w.Login(ctx, "ada@example.com", password)
	_, stranger := w.Login(ctx, "eve@example.com", password)
	var list error
	for _, err := range w.List(ctx) {
		list = err
	}
	for name, err := range map[string]error{
		"Add":             add,
		"Login":           login,
		"Login, stranger": stranger,
		"List":            list,
		"SetPlan":         w.SetPlan(ctx, a.ID, "business"),
		"SetDisabled":     w.SetDisabled(ctx, a.ID, true),
		"SetPassword":     w.SetPassword(ctx, a.ID, other),
		"Delete":          w.Delete(ctx, a.ID),
	} {
		if !errors.Is(err, account.ErrGate) {
			t.Errorf("%s: got %v, want ErrGate", name, err)
		}
	}
	c, err := w.store.ByID(ctx, a.ID)
	if err != nil || c.Version != 1 || w.stored(t) != 1 {
		t.Errorf("got %+v, %v, %d stored; want the one account unchanged", c.Account, err, w.stored(t))
	}
}

// A secret that the gate does not accept is a failure of the gate's, not
// an answer about the account.
func TestGateRefusesTheSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stranger := gatetest.Start(t)
	stranger.Client = stranger.WithSecret(t, "another-secret-of-32-characters!")
	_, err := service(w.store, stranger, cheap).Login(t.Context(), "ada@example.com", password)
	if !errors.Is(err, account.ErrGate) {
		t.Errorf("got %v, want ErrGate", err)
	}
}

// The gate made the account and its answer was lost: the upstream stores
// nothing, so the gate must forget it again.
func TestAddWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodPut, ""), Late: true})
	_, err := w.Add(t.Context(), "ada@example.com", password, "starter")
	if !errors.Is(err, account.ErrGate) {
		t.Errorf("got %v, want ErrGate", err)
	}
	if got := w.atGate(t); len(got) != 0 || w.stored(t) != 0 {
		t.Errorf("the gate knows %v, %d stored; want none", got, w.stored(t))
	}
	w.gate.Fail(nil)
	w.add(t, "ada@example.com", "starter")
}

// The caller gave up while the gate was asked: nothing is stored, and the
// gate is told so although the caller's time is over.
func TestAddWhenTheCallerLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodPut, ""), Hook: leave})
	if _, err := w.Add(ctx, "ada@example.com", password, "starter"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the caller left", err)
	}
	if got := w.atGate(t); len(got) != 0 || w.stored(t) != 0 {
		t.Errorf("the gate knows %v, %d stored; want none", got, w.stored(t))
	}
}

// badCommit is a database whose commits are reported as failed.
type badCommit struct {
	account.Store
	made bool // although they were made
}

var errCommit = errors.New("connection lost")

func (s badCommit) Add(ctx context.Context, a account.Account, hash string, agree func() error) error {
	err := s.Store.Add(ctx, a, hash, func() error {
		if err := agree(); err != nil || s.made {
			return err
		}
		return errCommit
	})
	return errors.Join(err, errCommit)
}

// slowCommit is a database in which something happens after the gate has
// agreed to a change and before it is committed.
type slowCommit struct {
	account.Store
	meanwhile func()
}

func (s slowCommit) SetPassword(ctx context.Context, id, hash string, at time.Time, agree func() error) error {
	return s.Store.SetPassword(ctx, id, hash, at, s.then(agree))
}

func (s slowCommit) Remove(ctx context.Context, id string, agree func() error) error {
	return s.Store.Remove(ctx, id, s.then(agree))
}

func (s slowCommit) then(agree func() error) func() error {
	return func() error {
		err := agree()
		s.meanwhile()
		return err
	}
}

func TestAddWhenTheCommitFails(t *testing.T) {
	t.Parallel()
	t.Run("not made", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s := service(badCommit{w.store, false}, w.gate, cheap)
		if _, err := s.Add(t.Context(), "ada@example.com", password, "starter"); !errors.Is(err, errCommit) {
			t.Errorf("got %v, want the commit's error", err)
		}
		if got := w.atGate(t); len(got) != 0 || w.stored(t) != 0 {
			t.Errorf("the gate knows %v, %d stored; want none", got, w.stored(t))
		}
	})
	t.Run("made all the same", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s := service(badCommit{w.store, true}, w.gate, cheap)
		a, err := s.Add(t.Context(), "ada@example.com", password, "starter")
		if err != nil {
			t.Fatal(err)
		}
		if got := w.atGate(t); !slices.Equal(got, []string{a.ID}) || w.stored(t) != 1 {
			t.Errorf("the gate knows %v, %d stored; want the one", got, w.stored(t))
		}
	})
}

func TestSetPlanAndDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	ctx := t.Context()
	if err := errors.Join(w.SetPlan(ctx, a.ID, "business"), w.SetDisabled(ctx, a.ID, true)); err != nil {
		t.Fatal(err)
	}
	got, err := w.gate.Client.Account(ctx, a.ID)
	if err != nil || got.Plan != "business" || !got.Disabled {
		t.Errorf("got %+v, %v; want business, disabled", got, err)
	}
	if err := w.SetPlan(ctx, a.ID, "platinum"); code(err) != "unknown_plan" {
		t.Errorf("unknown plan: got %v", err)
	}
	before := w.atGate(t)
	for name, err := range map[string]error{
		"SetPlan":     w.SetPlan(ctx, "acc_none", "starter"),
		"SetDisabled": w.SetDisabled(ctx, "acc_none", true),
		"SetPassword": w.SetPassword(ctx, "acc_none", other),
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
	if _, err := w.gate.Client.CreateKey(ctx, a.ID, control.KeyRequest{Name: "ci"}); err != nil {
		t.Fatal(err)
	}
	if err := w.SetPassword(ctx, a.ID, other); err != nil {
		t.Fatal(err)
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
	if err := w.SetPassword(ctx, a.ID, "short"); !errors.Is(err, account.ErrPassword) {
		t.Errorf("short password: got %v", err)
	}
}

// The gate fails in the middle of the revocations: the old password
// stays, and nobody is told otherwise.
func TestSetPasswordWhenTheGateFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a := w.add(t, "ada@example.com", "starter")
	if _, err := w.Login(ctx, "ada@example.com", password); err != nil {
		t.Fatal(err)
	}
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodDelete, "")})
	if err := w.SetPassword(ctx, a.ID, other); !errors.Is(err, account.ErrGate) {
		t.Errorf("got %v, want ErrGate", err)
	}
	w.gate.Fail(nil)
	if _, err := w.Login(ctx, "ada@example.com", password); err != nil {
		t.Errorf("old password: got %v", err)
	}
}

// Threat: somebody who knows the old password logs in at the moment in which it is
// changed, and keeps a token.
func TestLoginOvertakenByNewPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	var once atomic.Bool
	w.gate.Fail(&gatetest.Fault{
		Hits: func(r *http.Request) bool { return r.Method == http.MethodPost && once.CompareAndSwap(false, true) },
		Hook: func() {
			if err := w.SetPassword(t.Context(), a.ID, other); err != nil {
				t.Error(err)
			}
		},
	})
	if _, err := w.Login(t.Context(), "ada@example.com", password); !errors.Is(err, account.ErrCredentials) {
		t.Errorf("got %v, want ErrCredentials", err)
	}
	if got := w.logins(t, a.ID); got != 0 {
		t.Errorf("%d logins live, want 0", got)
	}
}

// The same, with a login that is over before the change is committed.
func TestLoginRightBeforeNewPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	s := service(slowCommit{w.store, func() {
		if _, err := w.Login(t.Context(), "ada@example.com", password); err != nil {
			t.Error(err)
		}
	}}, w.gate, cheap)
	if err := s.SetPassword(t.Context(), a.ID, other); err != nil {
		t.Fatal(err)
	}
	if got := w.logins(t, a.ID); got != 0 {
		t.Errorf("%d logins live, want 0", got)
	}
}

// Somebody gives the account another plan while it is deleted, which
// makes it anew at the gate.
func TestSetPlanWhileDeleting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	s := service(slowCommit{w.store, func() {
		if err := w.SetPlan(t.Context(), a.ID, "business"); err != nil {
			t.Error(err)
		}
	}}, w.gate, cheap)
	if err := s.Delete(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.atGate(t); len(got) != 0 {
		t.Errorf("the gate knows %v, want none", got)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a := w.add(t, "ada@example.com", "starter")
	if err := w.Delete(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.atGate(t); len(got) != 0 || w.stored(t) != 0 {
		t.Errorf("the gate knows %v, %d stored; want none", got, w.stored(t))
	}
	if _, err := w.Login(ctx, "ada@example.com", password); !errors.Is(err, account.ErrCredentials) {
		t.Errorf("login: got %v", err)
	}
	if b := w.add(t, "ada@example.com", "starter"); b.ID == a.ID {
		t.Errorf("the new account has the old one's id %s", b.ID)
	}
}

// The gate forgot the account and its answer was lost: what is left has
// no token, and deleting again completes the work.
func TestDeleteWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a := w.add(t, "ada@example.com", "starter")
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodDelete, ""), Late: true})
	if err := w.Delete(ctx, a.ID); !errors.Is(err, account.ErrGate) {
		t.Errorf("got %v, want ErrGate", err)
	}
	w.gate.Fail(nil)
	if _, err := w.Login(ctx, "ada@example.com", password); !errors.Is(err, account.ErrPlanRequired) {
		t.Errorf("login in between: got %v, want ErrPlanRequired", err)
	}
	if err := w.Delete(ctx, a.ID); err != nil || w.stored(t) != 0 {
		t.Errorf("again: %v, %d stored", err, w.stored(t))
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	cleo := w.add(t, "cleo@example.com", "business")
	ada := w.add(t, "ada@example.com", "starter")
	bob := w.add(t, "bob@example.com", "starter")
	if err := errors.Join(w.SetDisabled(ctx, bob.ID, true), w.gate.Client.DeleteAccount(ctx, cleo.ID)); err != nil {
		t.Fatal(err)
	}
	got := []account.Standing{}
	for a, err := range w.List(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
	}
	want := []account.Standing{{ada, "starter", false}, {bob, "starter", true}, {cleo, "free", false}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A list that is longer than a page is whole.
func TestListPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 1003
	for i := range n {
		a := account.Account{ID: fmt.Sprintf("acc_%d", i), Email: account.Email(fmt.Sprintf("u%04d@example.com", i))}
		if err := w.store.Add(t.Context(), a, "", func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	i := 0
	for a, err := range w.List(t.Context()) {
		if want := account.Email(fmt.Sprintf("u%04d@example.com", i)); err != nil || a.Email != want {
			t.Fatalf("got %q, %v; want %q", a.Email, err, want)
		}
		i++
	}
	if i != n {
		t.Errorf("got %d, want %d", i, n)
	}
}
