package redisstore

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/caddy-tollgate/tollgate/internal/heaptest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// The threat: clients with keys fill the memory of a gate.

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
			cache := newGrants()
			for n := range tenth {
				own := &store.Restriction{CountsAs: id(n)}
				for i := range store.MaxKeyLimits {
					own.Limits = append(own.Limits, store.Limit{Endpoint: fmt.Sprint("endpoint_", i), Max: 1})
				}
				for i := range store.MaxAddresses {
					own.Addresses = append(own.Addresses, netip.PrefixFrom(netip.AddrFrom16([16]byte{15: byte(i)}), 128))
				}
				grant := store.Grant{Account: id(n), Key: id(n), KeyName: strings.Repeat("ü", 64), Restriction: own}
				cache.put(id(n), &granted{keys: map[token.Hash]store.Grant{hashOf(n): grant}})
			}
			return cache
		}},
		"counts": {15 << 20, func() any {
			s := &Store{}
			s.seen, _ = lru.New[seenKey, *seen](maxSeen)
			for n := range maxSeen / 10 {
				seen := s.seenOf(seenKey{account: id(n), key: id(n)})
				for i := range 5 { // endpoints
					endpoint := fmt.Sprint("endpoint_", i)
					seen.note(1, "2026-11", "25", 1, &[callCounters]string{"25:" + endpoint, endpoint, "25:*", "*"}, [callCounters]int64{1, 1, 1, 1})
				}
			}
			return s
		}},
	} {
		heaptest.Holds(t, name, c.most, c.fill)
	}
}

// TestGrantsAreCounted: the cache has room for grants, whatever accounts they
// are of. It forgets those that were used first.
func TestGrantsAreCounted(t *testing.T) {
	t.Parallel()
	const keys = store.MaxLiveKeys
	cache := newGrants()
	id := func(n int) string { return fmt.Sprint("acc_", n) }
	for n := range maxGrants/keys + 10 {
		g := &granted{keys: map[token.Hash]store.Grant{}}
		for k := range keys {
			g.keys[sha256.Sum256(fmt.Append(nil, n, k))] = store.Grant{}
		}
		for range 2 { // the second replaces the first
			cache.put(id(n), g)
		}
		if cache.get(id(0)) == nil {
			t.Fatalf("the account that was used last is forgotten, of %d", n)
		}
	}
	if cache.size != maxGrants || cache.list.Len() != maxGrants/keys {
		t.Errorf("%d grants of %d accounts, want %d", cache.size, cache.list.Len(), maxGrants)
	}
	if cache.get(id(1)) != nil {
		t.Error("the account that was used first is not forgotten")
	}
	cache.put(id(0), nil)
	if got := cache.size; got != maxGrants-keys {
		t.Errorf("%d grants after one account was removed, want %d", got, maxGrants-keys)
	}
}
