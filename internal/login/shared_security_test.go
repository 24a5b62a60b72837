package login_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/login/logintest"
)

// busy loses each change.
type busy struct{ *logintest.Cells }

func (b busy) Swap(_ context.Context, _ login.CellKey, old login.Cell, _ login.Change) (login.Cell, bool, error) {
	return old, false, nil
}

// Threat: so many attempts come at once that changes are always lost.
// Expected: no attempt gets the allowance of an outage.
func TestSharedContentionIsNoOutage(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	attempt, wait, err := newShared(busy{g.cells}).Reserve(
		t.Context(), g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
	if attempt != nil || wait != time.Second || err != nil {
		t.Errorf("got %v, %v, %v, want refused for a second", attempt, wait, err)
	}
	attempt, wait, err = login.New(busy{g.cells}).Reserve(t.Context(), g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
	if attempt != nil || wait != time.Second || err != nil {
		t.Errorf("without an outage: got %v, %v, %v, want refused for a second", attempt, wait, err)
	}
}

// failing loses a change, and then does not answer.
type failing struct {
	*logintest.Cells
	lost bool
}

func (f *failing) Swap(_ context.Context, _ login.CellKey, old login.Cell, _ login.Change) (login.Cell, bool, error) {
	if f.lost {
		return login.Cell{}, false, errors.New("connection reset")
	}
	f.lost = true
	return old, false, nil
}

// Threat: the server fails under so many attempts. Expected: an attempt that
// lost against another one does not get the allowance of an outage.
func TestSharedOutageAfterContention(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	attempt, wait, err := newShared(&failing{Cells: g.cells}).Reserve(
		t.Context(), g.limits, login.ClientOf("192.0.2.1"), login.AccountOf("a"))
	if attempt != nil || wait != time.Second || err != nil {
		t.Errorf("got %v, %v, %v, want refused for a second", attempt, wait, err)
	}
}

// put replaces the value of a cell.
func (b *bench) put(key login.CellKey, old, value []byte) {
	b.Helper()
	change := login.Change{Value: value, Expires: b.clock().AddDate(1, 0, 0)}
	if _, swapped, err := b.cells.Swap(b.Context(), key, login.Cell{Value: old}, change); !swapped || err != nil {
		b.Fatalf("replacing a cell: got %t, %v", swapped, err)
	}
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
					g.put(key, value, test.damage(bytes.Clone(value)))
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

// Threat: an attacker reads the keys. Expected: neither e-mails nor addresses.
func TestSharedKeysAreHashes(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	g.succeed("192.0.2.1", "jane@example.com")
	g.fail("192.0.2.1", "jane@example.com", 1)
	for key, value := range g.cells.Values() {
		text := string(key.ID[:]) + string(value)
		if strings.Contains(text, "jane") || strings.Contains(text, "192.0") ||
			strings.Contains(text, "\xc0\x00\x02\x01") {
			t.Errorf("got the cell %q %q, want hashes", key.ID, value)
		}
	}
}
