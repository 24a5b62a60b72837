package login_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/login/logintest"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
)

func newShared(cells login.Cells) *login.Shared {
	return login.NewShared(cells, time.Minute, outage.New(slog.New(slog.DiscardHandler), slog.LevelError, "test"))
}

// gates are limiters that share cells, with a clock that the test moves. The
// clocks of the gates are wrong.
type gates struct {
	testing.TB
	cells  *logintest.Cells
	gates  []*login.Shared
	next   atomic.Int64
	log    bytes.Buffer
	now    time.Time
	limits login.Limits
}

func newGates(t testing.TB, limits login.Limits) *gates {
	g := &gates{TB: t, cells: new(logintest.Cells), now: start, limits: limits}
	outages := outage.New(slog.New(slog.NewTextHandler(&g.log, nil)), slog.LevelError, "limiting logins")
	for range 3 {
		g.gates = append(g.gates, login.NewShared(g.cells, time.Minute, outages))
	}
	g.cells.SetClock(start)
	return g
}

func (g *gates) pass(d time.Duration) {
	g.now = g.now.Add(d)
	g.cells.SetClock(g.now)
}

// try makes an attempt at the next gate.
func (g *gates) try(address, email string) (login.Attempt, time.Duration) {
	g.Helper()
	gate := g.gates[int(g.next.Add(1))%len(g.gates)]
	wrong := g.now.Add(-24 * time.Hour)
	attempt, wait, err := gate.Reserve(g.Context(), wrong, g.limits, login.ClientOf(address), login.AccountOf(email))
	if err != nil {
		g.Errorf("Reserve(%q, %q): %v", address, email, err)
	}
	return attempt, wait
}

func (g *gates) admit(address, email string) login.Attempt {
	g.Helper()
	attempt, wait := g.try(address, email)
	if attempt == nil {
		g.Fatalf("%s at %s: refused for %v, want admitted", address, email, wait)
	}
	return attempt
}

func (g *gates) refuse(address, email string, want time.Duration) {
	g.Helper()
	attempt, wait := g.try(address, email)
	if attempt != nil || wait != want {
		g.Fatalf("%s at %s: got admitted %t, wait %v; want refused for %v", address, email, attempt != nil, wait, want)
	}
}

func (g *gates) fail(address, email string, times int) {
	g.Helper()
	for range times {
		g.admit(address, email).Failed()
	}
}

func (g *gates) succeed(address, email string) {
	g.Helper()
	if err := g.admit(address, email).Succeeded(g.Context(), g.now.AddDate(1, 0, 0)); err != nil {
		g.Fatalf("Succeeded: %v", err)
	}
}

// Threat: guesses are sent to all gates at once. Expected: exactly the
// allowance gets through.
func TestSharedParallelGuesses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		client func(int) string
		want   int64
	}{
		{"from a client", func(int) string { return "192.0.2.1" }, 5},
		{"at an account", func(i int) string { return fmt.Sprint("192.0.2.", i) }, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGates(t, login.Limits{})
			var through atomic.Int64
			var group sync.WaitGroup
			for i := range 50 {
				group.Go(func() {
					if attempt, _ := g.try(test.client(i), "victim@example.com"); attempt != nil {
						through.Add(1)
						attempt.Failed()
					}
				})
			}
			group.Wait()
			if got := through.Load(); got != test.want {
				t.Errorf("got %d guesses through, want %d", got, test.want)
			}
		})
	}
}

func TestSharedRefusedAttemptsChangeNothing(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	g.fail("192.0.2.1", "a", 5)
	g.fail("192.0.2.2", "a", 5)
	before := fmt.Sprint(g.cells.Values())
	_, swaps := g.cells.Calls()
	for range 20 {
		g.refuse("192.0.2.1", "b", time.Minute)
		g.refuse("192.0.2.3", "a", 30*time.Second)
	}
	if got := fmt.Sprint(g.cells.Values()); got != before {
		t.Errorf("got cells %s, want %s", got, before)
	}
	if _, got := g.cells.Calls(); got != swaps {
		t.Errorf("got %d swaps for refused attempts, want none", got-swaps)
	}
}

// between runs a function before the next change of an account, as if other
// gates changed it after this one has read it.
type between struct {
	*logintest.Cells
	run atomic.Pointer[func()]
}

func (b *between) Swap(ctx context.Context, key login.CellKey, change login.Change) (login.Cell, bool, error) {
	if key.Kind == login.AccountCell {
		if run := b.run.Swap(nil); run != nil {
			(*run)()
		}
	}
	return b.Cells.Swap(ctx, key, change)
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
	attempt, wait, err := gate.Reserve(t.Context(), g.now, g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
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
	attempt, _, err := gate.Reserve(t.Context(), g.now, g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
	if attempt == nil || err != nil {
		t.Fatalf("got %v, %v, want admitted", attempt, err)
	}
	g.refuse("192.0.2.3", "a", 30*time.Second)
	g.pass(30 * time.Second)
	again := func() { g.fail("192.0.2.4", "a", 1) }
	cells.run.Store(&again)
	if err := attempt.Succeeded(t.Context(), g.now); err != nil {
		t.Fatalf("Succeeded: %v", err)
	}
	g.admit("192.0.2.1", "a")
	g.refuse("192.0.2.3", "a", 30*time.Second)
}

// busy loses each change.
type busy struct{ *logintest.Cells }

func (b busy) Swap(ctx context.Context, key login.CellKey, _ login.Change) (login.Cell, bool, error) {
	cell, err := b.Read(ctx, key)
	return cell, false, err
}

// Threat: so many attempts come at once that changes are always lost.
// Expected: no attempt gets the allowance of an outage.
func TestSharedContentionIsNoOutage(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	attempt, wait, err := newShared(busy{g.cells}).Reserve(
		t.Context(), g.now, g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
	if attempt != nil || wait != time.Second || err != nil {
		t.Errorf("got %v, %v, %v, want refused for a second", attempt, wait, err)
	}
}

// Each read and each change is a request to the server.
func TestSharedRequestsOfALogin(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{PerClient: 3})
	for _, test := range []struct {
		name         string
		attempt      func()
		reads, swaps int
	}{
		{"success", func() { g.succeed("192.0.2.1", "a") }, 3, 3},
		{"failure", func() { g.fail("192.0.2.1", "a", 1) }, 2, 2},
		{"without an account", func() { g.fail("192.0.2.1", "", 1) }, 1, 1},
		{"refused", func() { g.refuse("192.0.2.1", "a", time.Minute) }, 2, 0},
	} {
		reads, swaps := g.cells.Calls()
		test.attempt()
		gotReads, gotSwaps := g.cells.Calls()
		if gotReads -= reads; gotReads != test.reads {
			t.Errorf("%s: got %d reads, want %d", test.name, gotReads, test.reads)
		}
		if gotSwaps -= swaps; gotSwaps != test.swaps {
			t.Errorf("%s: got %d changes, want %d", test.name, gotSwaps, test.swaps)
		}
	}
}

// recorded has the changes that a gate asked for.
type recorded struct {
	*logintest.Cells
	changes []login.Change
}

func (r *recorded) Swap(ctx context.Context, key login.CellKey, change login.Change) (login.Cell, bool, error) {
	r.changes = append(r.changes, change)
	return r.Cells.Swap(ctx, key, change)
}

// No change is made at the server after the gate has given up.
func TestSharedChangesEndWithTheTimeout(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	cells := &recorded{Cells: g.cells}
	attempt, _, err := newShared(cells).Reserve(
		t.Context(), g.now, g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
	if attempt == nil || err != nil {
		t.Fatalf("got %v, %v, want admitted", attempt, err)
	}
	if err := attempt.Succeeded(t.Context(), g.now); err != nil {
		t.Fatalf("Succeeded: %v", err)
	}
	if len(cells.changes) != 3 {
		t.Errorf("got %d changes, want 3", len(cells.changes))
	}
	for _, change := range cells.changes {
		if left := change.Until.Sub(g.now); left <= 0 || left > time.Minute {
			t.Errorf("got a change until %v after now, want at most the timeout of a minute", left)
		}
	}
}

// Known clients and successes are those of all gates.
func TestSharedKnownClient(t *testing.T) {
	t.Parallel()
	g := newGates(t, loose)
	g.fail("192.0.2.1", "a", 5)
	g.succeed("192.0.2.1", "a")
	g.fail("192.0.2.9", "a", 10)
	g.refuse("192.0.2.9", "a", 30*time.Second)
	g.fail("192.0.2.1", "a", 9)
	g.succeed("192.0.2.1", "a")
	g.refuse("192.0.2.9", "a", 30*time.Second)
	g.pass(30*24*time.Hour - 1)
	g.fail("192.0.2.9", "a", 10)
	g.admit("192.0.2.1", "a")
	g.pass(1)
	g.refuse("192.0.2.1", "a", 30*time.Second-1)
}

func TestSharedFirstOutcomeDecides(t *testing.T) {
	t.Parallel()
	g := newGates(t, loose)
	g.fail("192.0.2.1", "a", 9)
	attempt := g.admit("192.0.2.1", "a")
	attempt.Failed()
	if err := errors.Join(attempt.Succeeded(t.Context(), g.now), attempt.Abandoned(t.Context())); err != nil {
		t.Fatalf("second outcome: %v", err)
	}
	g.refuse("192.0.2.1", "a", 30*time.Second)
	g.pass(30 * time.Second)
	attempt = g.admit("192.0.2.1", "a")
	for range 3 {
		if err := attempt.Abandoned(t.Context()); err != nil {
			t.Fatalf("Abandoned: %v", err)
		}
	}
	g.fail("192.0.2.1", "a", 1)
	g.refuse("192.0.2.1", "a", time.Minute)
}

func TestSharedWithoutAccount(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	g.succeed("192.0.2.1", " ")
	g.fail("192.0.2.1", "", 4)
	g.refuse("192.0.2.1", "", time.Minute)
	if got := len(g.cells.Values()); got != 1 {
		t.Errorf("got %d cells, want one", got)
	}
}

// While the cells do not answer, each gate decides alone.
func TestSharedOutage(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	g.fail("192.0.2.1", "a", 5)
	before := g.admit("192.0.2.2", "a")
	g.cells.Fail(errors.New("connection refused"))
	g.fail("192.0.2.1", "a", 5*len(g.gates))
	g.refuse("192.0.2.1", "a", time.Minute)
	during := g.admit("192.0.2.2", "a")
	if err := before.Succeeded(t.Context(), g.now); err == nil {
		t.Error("Succeeded during the outage: got no error")
	}
	if got := strings.Count(g.log.String(), "limiting logins"); got != 1 {
		t.Errorf("got %d lines, want one:\n%s", got, &g.log)
	}
	g.cells.Fail(nil)
	_, swaps := g.cells.Calls()
	if err := during.Succeeded(t.Context(), g.now); err != nil {
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

// A caller that goes away is no outage.
func TestSharedInvalidCalls(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	client, account := login.ClientOf("192.0.2.1"), login.AccountOf("a")
	ctx, cancel := context.WithCancel(t.Context())
	gone := &leaving{g.cells, cancel}
	attempt, _, err := newShared(gone).Reserve(ctx, g.now, g.limits, client, account)
	if attempt != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("context canceled during the call: got %v, %v, want %v", attempt, err, context.Canceled)
	}
	if _, _, err := g.gates[0].Reserve(ctx, g.now, g.limits, client, account); !errors.Is(err, context.Canceled) {
		t.Errorf("done context: got %v, want %v", err, context.Canceled)
	}
	bad := login.Limits{PerClient: -1}
	if _, _, err := g.gates[0].Reserve(t.Context(), g.now, bad, client, account); !errors.Is(err, login.ErrLimits) {
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

func (l *leaving) Read(ctx context.Context, key login.CellKey) (login.Cell, error) {
	l.cancel()
	return l.Cells.Read(ctx, key)
}

// A damaged cell does not stop logins, and is not taken for an empty one.
func TestSharedCorruptCell(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		kind   login.CellKind
		damage func(value []byte) []byte
	}{
		{"client, version", login.ClientCell, func(v []byte) []byte { v[0]++; return v }},
		{"client, cut", login.ClientCell, func(v []byte) []byte { return v[:len(v)-1] }},
		{"client, too long", login.ClientCell, func(v []byte) []byte { return append(v, bytes.Repeat(v[1:9], 1000)...) }},
		{"account, version", login.AccountCell, func(v []byte) []byte { v[0]++; return v }},
		{"account, header only", login.AccountCell, func(v []byte) []byte { return v[:2] }},
		{"account, more failures", login.AccountCell, func(v []byte) []byte { v[1]++; return v }},
		{"account, cut", login.AccountCell, func(v []byte) []byte { return v[:len(v)-1] }},
		{"account, trailing data", login.AccountCell, func(v []byte) []byte { return append(v, 0) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGates(t, login.Limits{})
			g.succeed("192.0.2.1", "a")
			g.fail("192.0.2.1", "a", 4)
			for key, value := range g.cells.Values() {
				if key.Kind == test.kind {
					g.cells.Put(key, test.damage(value))
				}
			}
			before := fmt.Sprint(g.cells.Values())
			g.admit("192.0.2.1", "a").Failed()
			if got := fmt.Sprint(g.cells.Values()); got != before {
				t.Errorf("got cells %s, want %s", got, before)
			}
			if !strings.Contains(g.log.String(), login.ErrCorrupt.Error()) {
				t.Errorf("got the log %q, want %q in it", &g.log, login.ErrCorrupt)
			}
		})
	}
}

// However often the server's clock is set back, no real minute has more than
// five attempts, and a client that waits a minute and the tolerance is
// admitted.
func TestSharedClockSetBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cells := new(logintest.Cells)
		gates := []*login.Shared{newShared(cells), newShared(cells)}
		checkClockSetBack(t, func(t *rapid.T, now time.Time) bool {
			cells.SetClock(now)
			attempt, _, err := rapid.SampledFrom(gates).Draw(t, "gate").Reserve(
				context.Background(), start, login.Limits{}, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
			if err != nil {
				t.Fatalf("Reserve: %v", err)
			}
			if attempt != nil {
				if err := attempt.Succeeded(context.Background(), start); err != nil {
					t.Fatalf("Succeeded: %v", err)
				}
			}
			return attempt != nil
		})
	})
}

// The server's clock is set back a little. Waits are as much longer, so that
// a client that waits that long is admitted.
func TestSharedClockSetBackALittle(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	g.fail("192.0.2.1", "a", 5)
	g.fail("192.0.2.2", "a", 5)
	g.pass(-10 * time.Second)
	g.refuse("192.0.2.1", "b", 70*time.Second)
	g.refuse("192.0.2.3", "a", 40*time.Second)
	g.pass(40 * time.Second)
	g.admit("192.0.2.3", "a")
	g.pass(30 * time.Second)
	g.admit("192.0.2.1", "b")
}

// Another server with an earlier clock takes over. The waits of an account go
// on where they were.
func TestSharedClockSetBackAtAnAccount(t *testing.T) {
	t.Parallel()
	g := newGates(t, loose)
	g.succeed("192.0.2.1", "a")
	g.fail("192.0.2.1", "a", 10)
	g.fail("192.0.2.2", "a", 10)
	g.pass(-time.Hour)
	g.refuse("192.0.2.1", "a", 30*time.Second)
	g.pass(10 * time.Second)
	g.refuse("192.0.2.2", "a", 20*time.Second)
	g.refuse("192.0.2.1", "a", 20*time.Second)
	g.pass(20 * time.Second)
	g.fail("192.0.2.1", "a", 1)
	g.fail("192.0.2.2", "a", 1)
	g.refuse("192.0.2.1", "a", time.Minute)
	g.refuse("192.0.2.2", "a", time.Minute)
}

// Threat: somebody reads the keys. Expected: neither e-mails nor addresses.
func TestSharedKeysAreHashes(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	g.succeed("192.0.2.1", "jane@example.com")
	g.fail("192.0.2.1", "jane@example.com", 1)
	for key, value := range g.cells.Values() {
		text := key.ID + string(value)
		if len(key.ID) != 22 || strings.Contains(text, "jane") || strings.Contains(text, "192.0") ||
			strings.Contains(text, "\xc0\x00\x02\x01") {
			t.Errorf("got the cell %q %q, want hashes", key.ID, value)
		}
	}
}

// The largest limits give cells of the size that the interface states.
func TestSharedCellsAreBounded(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	g := newGates(t, login.Limits{
		PerClient: 1000, Window: time.Second, Free: 256, FirstWait: time.Second, MaxWait: day, Forget: 366 * day, KnownFor: 366 * day,
	})
	fail := func(address string) {
		for range 300 {
			attempt, wait := g.try(address, "a")
			if attempt == nil {
				g.pass(wait)
				attempt = g.admit(address, "a")
			}
			attempt.Failed()
		}
	}
	for i := range 17 {
		g.succeed(fmt.Sprint("192.0.2.", i), "a")
	}
	fail("198.51.100.1")
	for i := range 17 {
		fail(fmt.Sprint("192.0.2.", i))
	}
	longest := 0
	for _, value := range g.cells.Values() {
		longest = max(longest, len(value))
	}
	t.Logf("longest cell: %d bytes", longest)
	if longest > 42<<10 {
		t.Errorf("got a cell of %d bytes, want at most 42 KiB", longest)
	}
}
