package redisstore

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/heaptest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// The threat: clients with keys fill the memory of a gate, for example with
// long paths while the server is away.

// TestWaitingCallsAreBounded: the calls that wait for the server take the
// memory that docs/guarantees.md says.
func TestWaitingCallsAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ path, calls int }{
		"long paths": {4 << 10, store.MaxLiveKeys}, "long queries": {30, store.MaxLiveKeys}, "many accounts": {4 << 10, 1},
	} {
		heaptest.Holds(t, name, 48<<20, func() any {
			r := &recent{waiting: map[holder]*batch{}}
			for n := range maxWaiting {
				line := strings.Repeat(string(rune('a'+n%26)), 4<<10)
				r.add(store.Record{
					Account: fmt.Sprint("acc_", n/c.calls), Key: fmt.Sprint("key_", n%store.MaxLiveKeys), KeyName: strings.Repeat("ü", 64),
					At: time.Now(), Endpoint: "convert", Method: "GET", Path: line[:c.path],
				})
			}
			return r
		})
	}
}

// TestCachesAreBounded fills a tenth of each cache with the largest that a
// customer can put there.
func TestCachesAreBounded(t *testing.T) {
	const tenth = maxGrants / 10
	id := func(n int) string { return fmt.Sprintf("acc_%060d", n) }
	hashOf := func(n int) token.Hash { return sha256.Sum256([]byte(id(n))) }
	for name, c := range map[string]struct {
		most int64 // of a tenth
		fill func() any
	}{
		"grants": {25 << 20, func() any {
			cache := newCache[token.Hash, cachedGrant](maxGrants)
			for n := range tenth {
				own := &store.Restriction{CountsAs: id(n)}
				for i := range store.MaxKeyLimits {
					own.Limits = append(own.Limits, store.Limit{Endpoint: fmt.Sprint("endpoint_", i), Max: 1})
				}
				for i := range store.MaxAddresses {
					own.Addresses = append(own.Addresses, netip.PrefixFrom(netip.AddrFrom16([16]byte{15: byte(i)}), 128))
				}
				cache.Add(hashOf(n), cachedGrant{Grant: store.Grant{Account: id(n), Key: id(n), KeyName: strings.Repeat("ü", 64), Restriction: own}})
			}
			return cache
		}},
		"counts": {15 << 20, func() any {
			s := &Store{seen: newCache[seenKey, *seen](maxSeen)}
			for n := range maxSeen / 10 {
				seen := s.seenOf(seenKey{id(n), id(n)})
				for i := range 5 { // endpoints
					endpoint := fmt.Sprint("endpoint_", i)
					seen.saw(1, "2026-11", "25", 1, &[counted]string{"25:" + endpoint, endpoint, "25:*", "*"}, [counted]int64{1, 1, 1, 1})
				}
			}
			return s
		}},
	} {
		heaptest.Holds(t, name, c.most, c.fill)
	}
}
