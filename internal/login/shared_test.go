package login_test

import (
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

// Each read and each change is a request to the server.
func TestSharedRequestsOfALogin(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{PerClient: 2})
	for _, test := range []struct {
		name         string
		attempt      func()
		reads, swaps int
	}{
		{"success", func() { g.succeed("192.0.2.1", "a") }, 4, 4},
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
