package login_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// samples returns a row of each kind.
func samples(t testing.TB) []login.Row {
	b, d := newDurableBench(t, loose)
	b.succeed("192.0.2.1", "a")
	b.fail("192.0.2.1", "a", 3)
	b.fail("192.0.2.2", "a", 3)
	var rows []login.Row
	for _, row := range d.rows {
		if row.Key[0] != 'c' || login.Client(row.Key[1:]) == login.ClientOf("192.0.2.1") {
			rows = append(rows, row)
		}
	}
	if len(rows) != 3 {
		t.Fatalf("got %d sample rows, want 3", len(rows))
	}
	return rows
}

func TestRestoreRefusesCorruptRows(t *testing.T) {
	t.Parallel()
	for _, good := range samples(t) {
		kind := string(good.Key[:1])
		for _, test := range []struct {
			name   string
			damage func(row *login.Row)
		}{
			{"no key", func(row *login.Row) { row.Key = nil }},
			{"short key", func(row *login.Row) { row.Key = row.Key[:len(row.Key)-1] }},
			{"long key", func(row *login.Row) { row.Key = append(row.Key, 0) }},
			{"unknown kind", func(row *login.Row) { row.Key[0] = 'x' }},
			{"no value", func(row *login.Row) { row.Value = nil }},
			{"no body", func(row *login.Row) { row.Value = row.Value[:10] }},
			{"newer version", func(row *login.Row) { row.Value[0] = 2 }},
			{"unknown eviction order", func(row *login.Row) { row.Value[1] = 2 }},
			{"expiry far off", func(row *login.Row) { row.Value[9] = 0x7f }},
			{"negative expiry", func(row *login.Row) { row.Value[9] = 0xff }},
			{"cut", func(row *login.Row) { row.Value = row.Value[:len(row.Value)-1] }},
			{"trailing data", func(row *login.Row) { row.Value = append(row.Value, 0) }},
			{"too long", func(row *login.Row) {
				row.Value = append(row.Value, bytes.Repeat(row.Value[10:], 400)...)
			}},
		} {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				row := login.Row{Key: bytes.Clone(good.Key), Value: bytes.Clone(good.Value)}
				test.damage(&row)
				if err := login.NewLocal(newDisk(row)).Restore(t.Context(), start); !errors.Is(err, login.ErrCorrupt) {
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
	if err := login.NewLocal(d).Restore(t.Context(), start); !errors.Is(err, gone) {
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
	b.local = login.NewSmallLocal(d, 160)
	if err := b.local.Restore(b.Context(), b.now); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	if clients, failures, _ := b.local.Rows(); clients > 160 || failures > 160 {
		t.Errorf("got %d clients and %d accounts, want at most 160", clients, failures)
	}
	b.refuse("192.0.2.1", "victim", 30*time.Second)
	for i := range 5 {
		b.fail("192.0.2.2", fmt.Sprint("recent", i), 1)
		b.refuse("192.0.2.2", fmt.Sprint("recent", i), 30*time.Second)
	}
	if got := len(d.rows); got > 320+16 {
		t.Errorf("got %d rows on disk, want those beyond capacity removed", got)
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
		tr := login.NewLocal(d)
		if err := tr.Restore(t.Context(), start); err != nil {
			if !errors.Is(err, login.ErrCorrupt) {
				t.Fatalf("got %v, want %v", err, login.ErrCorrupt)
			}
			return
		}
		for gotKey, got := range tr.Dump() {
			if gotKey != string(key) || got != string(value) {
				t.Fatalf("got row %x %x, want %x %x", gotKey, got, key, value)
			}
		}
		attempt, wait, err := tr.Reserve(t.Context(), start, login.Limits{},
			login.ClientOf("192.0.2.1"), login.AccountOf("a"))
		if err != nil {
			t.Fatalf("Reserve: %v", err)
		}
		if attempt == nil {
			attempt, wait, err = tr.Reserve(t.Context(), start.Add(wait), login.Limits{},
				login.ClientOf("192.0.2.1"), login.AccountOf("a"))
			if attempt == nil || err != nil {
				t.Fatalf("after the wait: got wait %v, %v, want admitted", wait, err)
			}
		}
		if err := attempt.Succeeded(t.Context(), start); err != nil {
			t.Fatalf("Succeeded: %v", err)
		}
		if err := login.NewLocal(d).Restore(t.Context(), start); err != nil {
			t.Fatalf("restoring what was saved: %v", err)
		}
	})
}
