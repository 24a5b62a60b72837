package gate_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// TestAllocations holds an admitted call to the one allocation that it is
// itself.
func TestAllocations(t *testing.T) {
	l := ledger.New(nil)
	l.PutAccount("acc_1", "starter", false)
	tok := newToken(t)
	l.PutToken(&ledger.Token{Hash: tok.Hash(), Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert"})
	g := newGate(t, memory{ledger: l}, policy.Limit(policy.MaxLimit))
	c := newCaller([]string{"Bearer " + tok.Reveal()})
	if got := testing.AllocsPerRun(1000, func() { c.call(t, g) }); got > 1 {
		t.Errorf("got %v allocations, want 1", got)
	}
}
