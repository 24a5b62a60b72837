package login_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/login/logintest"
)

// between runs a function before the next change of an account, as if other
// gates changed it after this one has read it.
type between struct {
	*logintest.Cells
	run atomic.Pointer[func()]
}

func (b *between) Swap(ctx context.Context, key login.CellKey, old login.Cell, change login.Change) (login.Cell, bool, error) {
	if key.Kind == login.AccountCell {
		if run := b.run.Swap(nil); run != nil {
			(*run)()
		}
	}
	return b.Cells.Swap(ctx, key, old, change)
}

// The account refuses an attempt after the client's place is taken. The
// client gets the place back.
func TestSharedGivesThePlaceBack(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	cells := &between{Cells: g.cells}
	gate := newShared(cells)
	run := func() { g.fail("192.0.2.2", "a", 5); g.fail("192.0.2.3", "a", 5) }
	cells.run.Store(&run)
	attempt, wait, err := gate.Reserve(t.Context(), g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
	if attempt != nil || wait != 30*time.Second || err != nil {
		t.Fatalf("got %v, %v, %v, want refused for 30s", attempt, wait, err)
	}
	g.fail("192.0.2.1", "b", 5)
	g.refuse("192.0.2.1", "b", time.Minute)
}

// A change that loses against another attempt is decided again.
func TestSharedDecidesAgain(t *testing.T) {
	t.Parallel()
	g := newGates(t, loose)
	cells := &between{Cells: g.cells}
	gate := newShared(cells)
	run := func() { g.fail("192.0.2.2", "a", 9) }
	cells.run.Store(&run)
	attempt, _, err := gate.Reserve(t.Context(), g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
	if attempt == nil || err != nil {
		t.Fatalf("got %v, %v, want admitted", attempt, err)
	}
	g.refuse("192.0.2.3", "a", 30*time.Second)
	g.pass(30 * time.Second)
	again := func() { g.fail("192.0.2.4", "a", 1) }
	cells.run.Store(&again)
	if err := attempt.Succeeded(t.Context()); err != nil {
		t.Fatalf("Succeeded: %v", err)
	}
	g.admit("192.0.2.1", "a")
	g.refuse("192.0.2.3", "a", 30*time.Second)
}

// recorded has the deadlines of the requests of a gate.
type recorded struct {
	*logintest.Cells
	deadlines []time.Time
}

func (r *recorded) Read(ctx context.Context, keys ...login.CellKey) ([]login.Cell, error) {
	r.record(ctx)
	return r.Cells.Read(ctx, keys...)
}

func (r *recorded) Swap(ctx context.Context, key login.CellKey, old login.Cell, change login.Change) (login.Cell, bool, error) {
	r.record(ctx)
	return r.Cells.Swap(ctx, key, old, change)
}

func (r *recorded) record(ctx context.Context) {
	deadline, _ := ctx.Deadline()
	r.deadlines = append(r.deadlines, deadline)
}

// No request goes on after the gate has given up.
func TestSharedRequestsEndWithTheTimeout(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	cells, began := &recorded{Cells: g.cells}, time.Now()
	attempt, _, err := newShared(cells).Reserve(t.Context(), g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
	if attempt == nil || err != nil {
		t.Fatalf("got %v, %v, want admitted", attempt, err)
	}
	if err := attempt.Succeeded(t.Context()); err != nil {
		t.Fatalf("Succeeded: %v", err)
	}
	if len(cells.deadlines) != 6 { // two reads of both cells, and four changes
		t.Errorf("got %d requests, want 6", len(cells.deadlines))
	}
	for _, deadline := range cells.deadlines {
		if deadline.Before(began) || deadline.After(time.Now().Add(time.Minute)) {
			t.Errorf("got a request until %v, want at most the timeout of a minute", deadline)
		}
	}
}

// While the cells do not answer, each gate decides alone.
func TestSharedOutage(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	g.fail("192.0.2.1", "a", 5)
	before := g.admit("192.0.2.2", "a")
	g.cells.Fail(errors.New("connection refused"))
	g.fail("192.0.2.1", "a", 5*len(g.limiters))
	g.refuse("192.0.2.1", "a", time.Minute)
	during := g.admit("192.0.2.2", "a")
	if err := before.Succeeded(t.Context()); err == nil {
		t.Error("Succeeded during the outage: got no error")
	}
	if got := strings.Count(g.log.String(), "limiting logins"); got != 1 {
		t.Errorf("got %d lines, want one:\n%s", got, &g.log)
	}
	g.cells.Fail(nil)
	_, swaps := g.cells.Calls()
	if err := during.Succeeded(t.Context()); err != nil {
		t.Fatalf("Succeeded: %v", err)
	}
	if _, got := g.cells.Calls(); got != swaps {
		t.Error("the outcome of an attempt of the outage went to the cells")
	}
	// The six attempts before the outage count, those of the outage do not.
	g.refuse("192.0.2.1", "a", time.Minute)
	g.fail("192.0.2.2", "a", 4)
	g.refuse("192.0.2.3", "a", 30*time.Second)
}

// A caller that disconnects is no outage.
func TestSharedInvalidCalls(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	client, account := login.ClientOf("192.0.2.1"), login.AccountOf("a")
	ctx, cancel := context.WithCancel(t.Context())
	gone := &leaving{g.cells, cancel}
	attempt, _, err := newShared(gone).Reserve(ctx, g.limits, client, account)
	if attempt != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("context canceled during the call: got %v, %v, want %v", attempt, err, context.Canceled)
	}
	if _, _, err := g.limiters[0].Reserve(ctx, g.limits, client, account); !errors.Is(err, context.Canceled) {
		t.Errorf("done context: got %v, want %v", err, context.Canceled)
	}
	bad := login.Limits{PerClient: -1}
	if _, _, err := g.limiters[0].Reserve(t.Context(), bad, client, account); !errors.Is(err, login.ErrLimits) {
		t.Errorf("bad limits: got %v, want %v", err, login.ErrLimits)
	}
	if got := len(g.cells.Values()); got != 0 || g.log.Len() != 0 {
		t.Errorf("got %d cells and the log %q, want none", got, &g.log)
	}
}

// leaving cancels the caller's context at the first read.
type leaving struct {
	*logintest.Cells
	cancel context.CancelFunc
}

func (l *leaving) Read(ctx context.Context, keys ...login.CellKey) ([]login.Cell, error) {
	l.cancel()
	return l.Cells.Read(ctx, keys...)
}
