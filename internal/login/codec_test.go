package login_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

// samples returns a row of each class.
func samples(t testing.TB) []login.Row {
	b, d := newDurableBench(t, loose)
	b.succeed("192.0.2.1", "known")
	b.fail("192.0.2.1", "known", 3)
	b.fail("192.0.2.1", "free", 3)
	b.fail("192.0.2.1", "waiting", 10)
	if len(d.rows) != 4 {
		t.Fatalf("got %d sample rows, want 4", len(d.rows))
	}
	return slices.Collect(maps.Values(d.rows))
}

// Rows start with the class, the size (4 bytes) and the expiry (8 bytes).
const rowHeader = 1 + 4 + 8

func clockOf(now time.Time) func() time.Time { return func() time.Time { return now } }

func TestRestoreRefusesCorruptRows(t *testing.T) {
	t.Parallel()
	for _, good := range samples(t) {
		kind := fmt.Sprintf("class %d", good.Value[0])
		for _, test := range []struct {
			name   string
			damage func(row *login.Row)
		}{
			{"no key", func(row *login.Row) { row.Key = nil }},
			{"short key", func(row *login.Row) { row.Key = row.Key[:len(row.Key)-1] }},
			{"long key", func(row *login.Row) { row.Key = append(row.Key, 0) }},
			{"unknown kind", func(row *login.Row) { row.Key[0] = 'x' }},
			{"no value", func(row *login.Row) { row.Value = nil }},
			{"cut header", func(row *login.Row) { row.Value = row.Value[:rowHeader-1] }},
			{"no cell", func(row *login.Row) { row.Value = row.Value[:rowHeader] }},
			{"version only", func(row *login.Row) { row.Value = row.Value[:rowHeader+1] }},
			{"newer version", func(row *login.Row) { row.Value[rowHeader]++ }},
			{"unknown class", func(row *login.Row) { row.Value[0] = 5 }},
			{"huge size", func(row *login.Row) { row.Value[3] = 1 }},
			{"expiry far off", func(row *login.Row) { row.Value[rowHeader-1] = 0x7f }},
			{"negative expiry", func(row *login.Row) { row.Value[rowHeader-1] = 0xff }},
			{"instant far off", func(row *login.Row) { row.Value[rowHeader+10], row.Value[rowHeader+22] = 0x7f, 0x7f }},
			{"more items", func(row *login.Row) { row.Value[rowHeader+1]++ }},
			{"cut", func(row *login.Row) { row.Value = row.Value[:len(row.Value)-1] }},
			{"trailing data", func(row *login.Row) { row.Value = append(row.Value, 0) }},
			{"too long", func(row *login.Row) { row.Value = append(row.Value, make([]byte, 43<<10/22*22)...) }},
		} {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				row := login.Row{Key: bytes.Clone(good.Key), Value: bytes.Clone(good.Value)}
				test.damage(&row)
				if err := login.NewMemory(clockOf(start), newDisk(row)).Restore(t.Context()); !errors.Is(err, login.ErrCorrupt) {
					t.Errorf("got %v, want %v", err, login.ErrCorrupt)
				}
			})
		}
	}
}

func TestRestoreReportsReadError(t *testing.T) {
	t.Parallel()
	gone := errors.New("store gone")
	d := newDisk()
	d.fail(gone)
	if err := login.NewMemory(clockOf(start), d).Restore(t.Context()); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
}

// The journal has more rows than fit, as after evictions that were not
// saved. The account that must wait and the newest of the others stay.
func TestRestoreEvictsOverCapacity(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, loose)
	for i := range 2000 {
		b.fail(fmt.Sprintf("10.0.%d.%d", i>>8, i&255), fmt.Sprint("a", i), 1)
		b.pass(1)
	}
	b.fail("192.0.2.1", "victim", 10)
	for i := range 5 {
		b.fail("192.0.2.1", fmt.Sprint("recent", i), 9)
	}
	const bytes = 32 << 10 // about 140 cells
	b.use(login.NewSmallMemory(b.clock, d, bytes))
	if err := b.memory.Restore(b.Context()); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	clients, failing, _ := b.memory.Len()
	if got := b.memory.Used(); got > bytes || clients > 160 || failing > 160 {
		t.Errorf("got %d bytes, %d clients and %d accounts, want at most %d, 160 and 160", got, clients, failing, bytes)
	}
	b.refuse("192.0.2.1", "victim", 30*time.Second)
	for i := range 5 {
		b.fail("192.0.2.2", fmt.Sprint("recent", i), 1)
		b.refuse("192.0.2.2", fmt.Sprint("recent", i), 30*time.Second)
	}
	if got := len(d.rows); got > 320+16 {
		t.Errorf("got %d rows on disk, want those that were evicted removed", got)
	}
}

// FuzzRestore: rows that Restore accepts are safe to use, and are saved as
// they were read.
func FuzzRestore(f *testing.F) {
	for _, row := range samples(f) {
		f.Add(row.Key, row.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		d := newDisk(login.Row{Key: key, Value: value})
		b := &bench{TB: t, now: start}
		b.use(login.NewMemory(b.clock, d))
		if err := b.memory.Restore(t.Context()); err != nil {
			if !errors.Is(err, login.ErrCorrupt) {
				t.Fatalf("got %v, want %v", err, login.ErrCorrupt)
			}
			return
		}
		for gotKey, got := range b.memory.Dump() {
			if gotKey != string(key) || got != string(value) {
				t.Fatalf("got row %x %x, want %x %x", gotKey, got, key, value)
			}
		}
		attempt, wait := b.try("192.0.2.1", "known")
		if attempt == nil {
			b.pass(wait)
			attempt = b.admit("192.0.2.1", "known")
		}
		if err := attempt.Succeeded(t.Context()); err != nil {
			t.Fatalf("Succeeded: %v", err)
		}
		if err := login.NewMemory(b.clock, d).Restore(t.Context()); err != nil {
			t.Fatalf("restoring what was saved: %v", err)
		}
	})
}
