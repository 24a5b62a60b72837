package login_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/login/logintest"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

func TestAddressesAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckAddresses(t, func(*rapid.T) logintest.Setup {
		disk, now := newDisk(), time.Time{}
		clock := func() time.Time { return now }
		memory := login.NewMemory(clock, disk)
		return logintest.Setup{
			Next:     func() *login.Limiter { return login.New(memory) },
			SetClock: func(to time.Time) { now = to },
			Restart: func() error {
				if err := memory.Close(); err != nil {
					return err
				}
				memory = login.NewMemory(clock, disk)
				return memory.Restore(context.Background())
			},
		}
	})
}

// Calls go to one of three gates.
func TestSharedAddressesAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckAddresses(t, func(t *rapid.T) logintest.Setup {
		cells := &logintest.Clock{Cells: login.NewMemory(time.Now, nil)}
		gates := []*login.Limiter{newShared(cells), newShared(cells), newShared(cells)}
		return logintest.Setup{
			Next:      func() *login.Limiter { return rapid.SampledFrom(gates).Draw(t, "gate") },
			SetClock:  cells.SetClock,
			StepsBack: true,
		}
	})
}

// daily returns a call of an address with a limit a day.
func daily(address string, limit int64) *login.AddressCall {
	return &login.AddressCall{
		Client: login.ClientOf(address), Calendar: calendar.In(time.UTC), Cost: 1,
		Limits: []store.Limit{{Endpoint: store.All, Period: store.Day, Max: limit, OfAddress: true}},
	}
}

// come tells whether a call of an address is admitted.
func come(t testing.TB, l *login.Limiter, c *login.AddressCall) bool {
	t.Helper()
	admitted, err := l.Take(t.Context(), c, make([]store.Room, len(c.Limits)), false)
	if err != nil {
		t.Errorf("Take: %v", err)
	}
	return admitted
}

// TestAddressIsExact: 64 connections of an address call at several gates at once.
// It has exactly its limit.
func TestAddressIsExact(t *testing.T) {
	t.Parallel()
	eachLimiter(t, login.Limits{}, func(t *testing.T, b *bench) {
		var admitted, next atomic.Int64
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() {
				for range 10 {
					if come(t, b.limiters[next.Add(1)%int64(len(b.limiters))], daily("2001:db8::1", 300)) {
						admitted.Add(1)
					}
				}
			})
		}
		group.Wait()
		if got := admitted.Load(); got != 300 {
			t.Errorf("admitted %d calls, want 300", got)
		}
	})
}

// TestAddressesAreSavedBehind: calls do not wait for the journal. It has the counts
// a minute later, and when the memory is closed; a crash before loses them. A
// journal that fails gets them later.
func TestAddressesAreSavedBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, saves := newDisk(), atomic.Int64{}
		d.saving = func([]login.Row) { saves.Add(1) }
		memory := login.NewMemory(time.Now, d)
		gate := login.New(memory)
		left := func() int64 {
			restored := login.NewMemory(time.Now, d)
			if err := restored.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			rooms := make([]store.Room, 1)
			if _, err := login.New(restored).Take(t.Context(), daily("192.0.2.1", 1000), rooms, true); err != nil {
				t.Fatal(err)
			}
			return rooms[0].Remaining
		}
		for range 100 {
			come(t, gate, daily("192.0.2.1", 1000))
		}
		if got := left(); got != 1000 || saves.Load() != 0 {
			t.Errorf("before a minute: %d saves, and room for %d after a crash, want 0 and 1000", saves.Load(), got)
		}
		d.fail(errors.New("disk full"))
		time.Sleep(time.Minute)
		synctest.Wait()
		d.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := left(); got != 900 || saves.Load() != 2 {
			t.Errorf("after two minutes: %d saves, and room for %d after a crash, want 2 and 900", saves.Load(), got)
		}
		time.Sleep(time.Hour)
		come(t, gate, daily("192.0.2.1", 1000))
		second := daily("192.0.2.2", 1)
		second.Limits[0].Period = store.Second
		come(t, gate, second)
		if err := memory.Close(); err != nil {
			t.Fatal(err)
		}
		if got := left(); got != 899 || saves.Load() != 3 || len(d.rows) != 2 {
			t.Errorf("after the stop: %d saves of %d rows, and room for %d, want 3, 2 and 899", saves.Load(), len(d.rows), got)
		}
		if err := memory.Close(); err != nil || saves.Load() != 3 {
			t.Errorf("closed twice: %v, %d saves", err, saves.Load())
		}
	})
}

// Threat: very many addresses call, so that those of others, or login attempts,
// are forgotten. Expected: memory and journal are bounded, the oldest addresses
// leave, and no cell of logins does.
func TestFloodOfAddresses(t *testing.T) {
	t.Parallel()
	const bytes = 64 << 10
	b, d := newDurableBench(t, loose)
	b.use(login.NewSmallMemory(b.clock, d, bytes))
	b.succeed("192.0.2.1", "victim")
	b.fail("192.0.2.2", "victim", 10)
	clients, failing, known := b.memory.Len()
	gate := b.limiters[0]
	come(t, gate, daily("192.0.2.3", 1))
	for i := range 5000 {
		come(t, gate, daily(fmt.Sprintf("10.%d.%d.1", i>>8, i&255), 1))
		if i == 4800 {
			come(t, gate, daily("192.0.2.4", 1))
		}
	}
	if come(t, gate, daily("192.0.2.4", 1)) || !come(t, gate, daily("192.0.2.3", 1)) {
		t.Error("want the oldest addresses forgotten, and no others")
	}
	if c, f, k := b.memory.Len(); c != clients || f != failing || k != known || b.memory.Used() > bytes {
		t.Errorf("got %d, %d and %d cells of logins in %d bytes, want %d, %d and %d", c, f, k, b.memory.Used(), clients, failing, known)
	}
	if waiting := b.memory.Waiting(); waiting > 2*bytes/200 {
		t.Errorf("%d keys wait for the journal", waiting)
	}
	if err := b.memory.Close(); err != nil || len(d.rows) > bytes/200+5 {
		t.Errorf("got %d rows in the journal, %v", len(d.rows), err)
	}
}

// Threat: an attacker changes addresses within what a customer gets, or their
// spelling. Expected: it is one address.
func TestAddressesOfOneClient(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201"},
		{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", "2001:0db8:0:0:1::", "2001:db8::1%eth0"},
		{"", "@", "/run/site.sock", "192.0.2.1, 192.0.2.2"},
	} {
		gate := newBench(t, login.Limits{}).limiters[0]
		for i, address := range same {
			if got := come(t, gate, daily(address, 1)); got != (i == 0) {
				t.Errorf("%q after %q: admitted %t", address, same[0], got)
			}
		}
		if !come(t, gate, daily("2001:db8:0:1::1", 1)) || !come(t, gate, daily("192.0.2.2", 1)) {
			t.Errorf("%q: another address is refused", same[0])
		}
	}
}

// A damaged cell is not taken for an empty one, and a row of it stops the start.
func TestDamagedCellsOfAddresses(t *testing.T) {
	t.Parallel()
	d := newDisk()
	memory := login.NewMemory(clockOf(start), d)
	come(t, login.New(memory), daily("192.0.2.1", 1))
	if err := memory.Close(); err != nil || len(d.rows) != 1 {
		t.Fatalf("got %d rows, %v", len(d.rows), err)
	}
	for _, row := range d.rows {
		for name, damage := range map[string]func([]byte) []byte{
			"version": func(v []byte) []byte { v[rowHeader]++; return v }, "cut": func(v []byte) []byte { return v[:len(v)-1] },
			"more": func(v []byte) []byte { return append(v, 0) }, "negative": func(v []byte) []byte { v[len(v)-1] = 0xff; return v },
		} {
			damaged := login.Row{Key: row.Key, Value: damage(bytes.Clone(row.Value))}
			if err := login.NewMemory(clockOf(start), newDisk(damaged)).Restore(t.Context()); !errors.Is(err, login.ErrCorrupt) {
				t.Errorf("%s: got %v, want %v", name, err, login.ErrCorrupt)
			}
		}
	}
}

// slowCells answers changes when the test says so.
type slowCells struct {
	login.Cells

	swapping chan struct{}
	answers  chan struct{}
}

func (s slowCells) Swap(ctx context.Context, key login.CellKey, old login.Cell, change login.Change) (login.Cell, bool, error) {
	s.swapping <- struct{}{}
	<-s.answers
	return s.Cells.Swap(ctx, key, old, change)
}

// TestSlowServer: while a call of an address waits for the server, another one of it
// gives up in time, and one of another address does not wait.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	cells := slowCells{login.NewMemory(time.Now, nil), make(chan struct{}, 3), make(chan struct{})}
	limiter := login.NewShared(cells, 50*time.Millisecond, outage.New(slog.New(slog.DiscardHandler), slog.LevelError, "asking"))
	ends := make(chan error, 2)
	call := func(address string) error {
		_, err := limiter.Take(t.Context(), daily(address, 5), make([]store.Room, 1), false)
		return err
	}
	go func() { ends <- call("192.0.2.1") }()
	<-cells.swapping
	if err := call("192.0.2.1"); !errors.Is(err, login.ErrContended) {
		t.Errorf("the second call of the address: got %v, want %v", err, login.ErrContended)
	}
	go func() { ends <- call("192.0.2.2") }()
	<-cells.swapping
	close(cells.answers)
	if err := errors.Join(<-ends, <-ends); err != nil {
		t.Error(err)
	}
}

// While the cells of a server do not answer, calls fail: the spare limiter of
// logins does not admit them.
func TestSharedAddressesOutage(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	gone := errors.New("connection refused")
	g.cells.Fail(gone)
	if admitted, err := g.limiters[0].Take(t.Context(), daily("192.0.2.1", 1), make([]store.Room, 1), false); admitted || !errors.Is(err, gone) {
		t.Errorf("got %t, %v", admitted, err)
	}
	g.cells.Fail(nil)
	if !come(t, g.limiters[1], daily("192.0.2.1", 1)) || come(t, g.limiters[2], daily("192.0.2.1", 1)) {
		t.Error("want one call admitted after the outage")
	}
}
