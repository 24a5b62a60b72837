package login

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/heaptest"
)

// The threat: an attacker with very many addresses fills the memory with
// attempts and with unknown tokens.

// TestTablesAreBounded fills a 32nd of each table with the largest rows of the
// default limits.
func TestTablesAreBounded(t *testing.T) {
	limits, err := Limits{}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	kept := limits.failuresToMaxWait() + spare
	for name, c := range map[string]struct {
		row  int   // in bytes
		most int64 // of the whole table
	}{
		"clients":                    {8 * limits.PerClient * (1 + successesPerAttempt), 400 << 20},
		"accounts with failures":     {failureSize * kept, 600 << 20},
		"accounts and their clients": {maxKnown * (knownClientSize + 8*kept), 3200 << 20},
		"clients of unknown tokens":  {8 * maxGuesses, 300 << 20},
	} {
		heaptest.Holds(t, name, c.most/32, func() any {
			filled := new(table)
			for n := range uint64(Capacity/32 + 1000) {
				sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, n))
				filled.put(hash(sum[:16]), make([]byte, c.row), 1<<62, evictFirst)
				filled.trim(0, Capacity/32)
			}
			return filled
		})
	}
}

// TestAcceptedTokensAreBounded: twice as many tokens as are remembered, each
// from 16 clients, take at most the bytes that docs/guarantees.md names: 40 MiB
// for 65,536.
func TestAcceptedTokensAreBounded(t *testing.T) {
	const capacity = 1 << 10
	heaptest.Holds(t, "accepted tokens", 600*capacity+2<<20, func() any {
		g := NewGuesses()
		g.capacity = capacity / shards
		for n := range 2 * capacity {
			var token [32]byte
			binary.BigEndian.PutUint32(token[:], uint32(n))
			for client := range byte(maxKnown) {
				g.Accept(time.Unix(1_800_000_000, 0), Client{4, 10, 0, 0, client}, token)
			}
		}
		return g
	})
}
