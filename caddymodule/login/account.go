package login

import (
	"slices"
	"sync"
	"time"
)

// accountShard holds a part of the accounts. Failures and known clients
// are apart, so that no flood of failures reaches the latter.
type accountShard struct {
	mu       sync.Mutex
	failures table[bucket]
	known    table[bucket]
}

// view is what one attempt sees of its account: what is still remembered
// at an instant.
type view struct {
	of       *accountShard
	limits   Limits
	account  bucket
	by       tag
	failures ledger
	known    circle
	// own is the client's place among the known, nil for a stranger.
	own *acquaintance
}

// view must be called, and its result be used, with the shard locked.
func (s *accountShard) view(limits Limits, account bucket, by tag, instant int64) *view {
	v := &view{of: s, limits: limits, account: account, by: by}
	v.failures = readLedger(nil, s.failures.get(account))
	v.failures = v.failures.remembered(instant, limits.Forget)
	// What the table holds was written by appendTo or checked by decode.
	v.known, _ = readCircle(s.known.get(account))
	v.known = slices.DeleteFunc(v.known, func(known acquaintance) bool {
		return known.since+int64(limits.KnownFor) <= instant
	})
	v.own = v.known.find(by)
	if v.own != nil {
		v.own.failures = v.own.failures.remembered(instant, limits.Forget)
	}
	return v
}

// opens is the instant from which the rule admits the client.
func (v *view) opens() int64 {
	if v.own != nil {
		return v.own.failures.last() + int64(v.limits.wait(len(v.own.failures)))
	}
	return v.failures.last() + int64(v.limits.wait(len(v.failures)))
}

// spare is how many failures are kept beyond those that matter. So many
// attempts and one more may be pending at a time at an account with the
// longest wait, and be taken back, without a shorter wait as the result.
const spare = 4

// fail notes a failure. A success that clears some of a history longer than
// what is kept leaves the rest of what is kept.
func (v *view) fail(at int64) {
	keep := v.limits.memory() + spare - 1
	if v.own != nil {
		v.own.failures = append(last(v.own.failures, keep), at)
		v.storeKnown()
		return
	}
	v.failures = append(last(v.failures, keep), failure{at, v.by})
	v.storeFailures()
}

// last returns the last n of a list, or all if there are fewer.
func last[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// release takes back what fail noted. Nothing happens if it is no longer
// there: a success may have cleared it.
func (v *view) release(at int64, known bool) {
	switch {
	case !known:
		v.failures = v.failures.without(failure{at, v.by})
		v.storeFailures()
	case v.own != nil:
		v.own.failures = v.own.failures.without(at)
		v.storeKnown()
	}
}

// succeed clears the client's failures and makes it known.
func (v *view) succeed(at int64) {
	v.failures = v.failures.withoutAll(v.by)
	v.storeFailures()
	v.known = v.known.welcome(v.by, at)
	v.storeKnown()
}

func (v *view) storeFailures() {
	as := light
	if len(v.failures) >= v.limits.Free {
		as = heavy
	}
	expires := v.failures.last() + int64(v.limits.Forget)
	v.of.failures.put(v.account, v.failures.appendTo(nil), expires, as)
}

func (v *view) storeKnown() {
	expires := v.known.lastSuccess() + int64(v.limits.KnownFor)
	v.of.known.put(v.account, v.known.appendTo(nil), expires, light)
}

// clientShard holds a part of the clients.
type clientShard struct {
	mu       sync.Mutex
	attempts table[Client]
}

// trail must be called with the shard locked.
func (s *clientShard) trail(client Client, window time.Duration, instant int64) trail {
	return readTrail(nil, s.attempts.get(client)).after(instant - int64(window))
}

func (s *clientShard) store(client Client, attempts trail, window time.Duration) {
	expires := attempts.last() + int64(window)
	s.attempts.put(client, attempts.appendTo(nil), expires, light)
}
