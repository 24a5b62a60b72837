package login_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

// disk is a journal in memory that survives restarts.
type disk struct {
	mu   sync.Mutex
	rows map[string]login.Row
	err  error
	// saving, if set, is called by Save before it writes.
	saving func([]login.Row)
}

func newDisk(rows ...login.Row) *disk {
	d := &disk{rows: make(map[string]login.Row)}
	for _, row := range rows {
		d.rows[string(row.Key)] = row
	}
	return d
}

func (d *disk) Save(ctx context.Context, rows []login.Row) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.saving != nil {
		d.saving(rows)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	for _, row := range rows {
		if row.Value == nil {
			delete(d.rows, string(row.Key))
		} else {
			d.rows[string(row.Key)] = row
		}
	}
	return nil
}

func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *disk) LoadAttempts(_ context.Context, fn func(key, value []byte) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, row := range d.rows {
		if err := fn(row.Key, row.Value); err != nil {
			return err
		}
	}
	return d.err
}

func newDurableBench(t testing.TB, limits login.Limits) (*bench, *disk) {
	b, d := newBench(t, limits), newDisk()
	b.use(login.NewMemory(b.clock, d))
	return b, d
}

func (b *bench) restart(d *disk) {
	b.Helper()
	b.use(login.NewMemory(b.clock, d))
	if err := b.memory.Restore(b.Context()); err != nil {
		b.Fatalf("Restore: %v", err)
	}
}

func TestStateSurvivesRestart(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, login.Limits{})
	b.succeed("192.0.2.1", "a")
	b.fail("192.0.2.2", "a", 5)
	b.fail("192.0.2.3", "a", 4)
	b.admit("192.0.2.4", "a") // pending when the process ends
	b.restart(d)
	b.refuse("192.0.2.2", "a", time.Minute)
	b.refuse("192.0.2.5", "a", 30*time.Second)
	b.fail("192.0.2.1", "a", 1)
	b.pass(31 * 24 * time.Hour)
	b.restart(d)
	if clients, failures, known := b.memory.Len(); clients+failures+known != 0 {
		t.Errorf("got %d, %d and %d rows after a month, want none", clients, failures, known)
	}
}

func TestRestartWithClockSetBack(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, login.Limits{})
	b.fail("192.0.2.1", "a", 5)
	b.pass(-365 * 24 * time.Hour)
	b.restart(d)
	b.refuse("192.0.2.1", "a", time.Minute)
	b.pass(time.Minute)
	b.admit("192.0.2.1", "a")
	for _, row := range d.rows {
		if left := row.ExpiresAt.Sub(b.now); left < 0 || left > 12*time.Hour {
			t.Errorf("row of kind %q expires in %v", row.Key[0], left)
		}
	}
}

func TestFailedSaveCountsNothing(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, login.Limits{})
	b.fail("192.0.2.1", "a", 4)
	full := errors.New("disk full")
	d.fail(full)
	client, account := login.ClientOf("192.0.2.1"), login.AccountOf("a")
	for range 20 {
		attempt, _, err := b.limiters[0].Reserve(t.Context(), b.limits, client, account)
		if attempt != nil || !errors.Is(err, full) {
			t.Fatalf("got %v, %v, want no attempt and %v", attempt, err, full)
		}
	}
	d.fail(nil)
	b.fail("192.0.2.1", "a", 1)
	b.refuse("192.0.2.1", "a", time.Minute)
	b.fail("192.0.2.2", "a", 5)
	b.refuse("192.0.2.3", "a", 30*time.Second)
}

func TestFailedSaveOfOutcome(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, loose)
	b.fail("192.0.2.1", "a", 8)
	right, gone := b.admit("192.0.2.2", "a"), b.admit("192.0.2.2", "a")
	full := errors.New("disk full")
	d.fail(full)
	if err := right.Succeeded(t.Context()); !errors.Is(err, full) {
		t.Errorf("Succeeded: got %v, want %v", err, full)
	}
	if err := gone.Abandoned(t.Context()); !errors.Is(err, full) {
		t.Errorf("Abandoned: got %v, want %v", err, full)
	}
	d.fail(nil)
	b.fail("192.0.2.3", "a", 2)
	b.refuse("192.0.2.3", "a", 30*time.Second)
	b.admit("192.0.2.2", "a")
}

// A canceled request does not cancel the save of its batch.
func TestSaveOutlivesTheRequest(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, loose)
	attempt := b.admit("192.0.2.1", "a")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := attempt.Abandoned(done); err != nil {
		t.Fatalf("Abandoned: %v", err)
	}
	b.restart(d)
	if _, failures, _ := b.memory.Len(); failures != 0 {
		t.Errorf("got %d accounts with failures, want none", failures)
	}
}

// Rows change while a batch with older ones is saved. The newest are on disk
// in the end.
func TestSavesDoNotOvertake(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, loose)
	var busy sync.Mutex
	d.saving = func(rows []login.Row) {
		if !busy.TryLock() {
			t.Error("two saves at a time")
			return
		}
		defer busy.Unlock()
		keys := make(map[string]bool)
		for _, row := range rows {
			if keys[string(row.Key)] {
				t.Error("a key occurs twice in one save")
			}
			keys[string(row.Key)] = true
		}
		// Let other goroutines change rows and wait for this save.
		for range rand.IntN(200) {
			select {
			case <-t.Context().Done():
			default:
			}
		}
	}
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			client := login.ClientOf(fmt.Sprint("192.0.2.", worker%4))
			for i := range 60 {
				account := login.AccountOf(fmt.Sprint((worker + i) % 3))
				attempt, _, err := b.limiters[0].Reserve(context.Background(), b.limits, client, account)
				if err != nil {
					t.Errorf("Reserve: %v", err)
				}
				if attempt == nil {
					continue
				}
				switch (worker + i) % 4 {
				case 0:
					err = attempt.Succeeded(context.Background())
				case 1:
					attempt.Failed()
				default:
					err = attempt.Abandoned(context.Background())
				}
				if err != nil {
					t.Errorf("settling: %v", err)
				}
			}
		})
	}
	group.Wait()
	d.saving = nil
	want := b.memory.Dump()
	b.restart(d)
	got := b.memory.Dump()
	if len(got) != len(want) {
		t.Errorf("got %d rows after restart, want %d", len(got), len(want))
	}
	for key, row := range want {
		if got[key] != row {
			t.Errorf("row %x: got %x after restart, want %x", key, got[key], row)
		}
	}
}

func TestJournalPanicBlocksNoAttempt(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, loose)
	d.saving = func([]login.Row) { panic("journal") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("got no panic, want the journal's")
			}
		}()
		b.admit("192.0.2.1", "a")
	}()
	d.saving = nil
	b.admit("192.0.2.1", "a")
}
