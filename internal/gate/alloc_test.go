package gate_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
)

// TestAllocations: an admitted call allocates itself, and the map of the headers
// for the service.
func TestAllocations(t *testing.T) {
	l := ledger.New(nil)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	tok := newToken(t)
	l.PutToken(&ledger.Token{Hash: tok.Hash(), Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert"})
	g := newGate(t, memory{ledger: l}, 1_000_000)
	c := newCaller([]string{"Bearer " + tok.Reveal()})
	c.request.Body = io.NopCloser(http.NoBody) // wrapped, as by Caddy
	if got := testing.AllocsPerRun(1000, func() { c.call(t, g) }); got > 3 {
		t.Errorf("got %v allocations, want 3", got)
	}
}

// TestRefusalAllocations: a refusal allocates its headers, and the call if
// there is one. Refused clients often repeat their requests.
func TestRefusalAllocations(t *testing.T) {
	for limit, want := range map[policy.Limit]struct {
		status int
		most   float64
	}{0: {http.StatusTooManyRequests, 2}, 1: {http.StatusUnauthorized, 1}} {
		g, bearer := refusing(t, limit)
		c := newCaller([]string{bearer})
		got := testing.AllocsPerRun(10000, func() {
			c.prepare()
			if err := g.Serve(c.writer, c.request, noop{}); err != nil || c.writer.status != want.status {
				t.Fatalf("got %d, %v, want %d", c.writer.status, err, want.status)
			}
		})
		if got > want.most {
			t.Errorf("%d: got %v allocations, want %v", want.status, got, want.most)
		}
	}
}
