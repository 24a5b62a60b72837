package login

import (
	"slices"
	"sync"
	"time"
)

// accountShard holds a part of the accounts. Failures and known clients are
// separate tables, so that no flood of failures evicts known clients.
type accountShard struct {
	mu       sync.Mutex
	failures table
	known    table
}

// accountState is what counts at an account for one client at one instant.
type accountState struct {
	shard    *accountShard
	limits   Limits
	account  hash
	client   fingerprint
	failures failures // of unknown clients
	known    knownClients
	own      *knownClient // the client in known, or nil
}

// state reads an account. The caller holds the lock of the shard until it
// has used the result.
func (s *accountShard) state(limits Limits, account hash, client fingerprint, instant int64) *accountState {
	a := &accountState{shard: s, limits: limits, account: account, client: client}
	a.failures = readFailures(s.failures.get(account)).remembered(instant, limits.Forget)
	// The body is complete: appendTo wrote it or decode checked it.
	a.known, _ = readKnownClients(s.known.get(account))
	a.known = slices.DeleteFunc(a.known, func(known knownClient) bool {
		return known.login+int64(limits.KnownFor) <= instant
	})
	if a.own = a.known.find(client); a.own != nil {
		a.own.failures = a.own.failures.remembered(instant, limits.Forget)
	}
	return a
}

// opens is the instant from which the rule admits the client.
func (a *accountState) opens() int64 {
	counted := a.failures
	if a.own != nil {
		counted = a.own.failures
	}
	return counted.last() + int64(a.limits.wait(len(counted)))
}

// spare is how many failures are kept beyond those that the longest wait
// needs. An account with the longest wait can have spare+1 attempts in
// flight and all of them abandoned, without a shorter wait as the result.
const spare = 4

// fail adds a failure, and drops the oldest that no wait needs.
func (a *accountState) fail(at int64) {
	keep, failed := a.limits.failuresToMaxWait()+spare-1, failure{at, a.client}
	if a.own != nil {
		a.own.failures = append(a.own.failures.newest(keep), failed)
		a.saveKnown()
		return
	}
	a.failures = append(a.failures.newest(keep), failed)
	a.saveFailures()
}

// release deletes the failure that fail added, if it is still there: a
// success may have cleared it. known says whether the client was known then.
func (a *accountState) release(at int64, known bool) {
	failed := failure{at, a.client}
	switch {
	case !known:
		a.failures = without(a.failures, failed)
		a.saveFailures()
	case a.own != nil:
		a.own.failures = without(a.own.failures, failed)
		a.saveKnown()
	}
}

// succeed clears the client's failures and makes it known.
func (a *accountState) succeed(at int64) {
	a.failures = a.failures.withoutClient(a.client)
	a.saveFailures()
	a.known = a.known.add(a.client, at)
	a.saveKnown()
}

func (a *accountState) saveFailures() {
	order := evictFirst
	if len(a.failures) >= a.limits.Free {
		order = evictLast
	}
	expires := a.failures.last() + int64(a.limits.Forget)
	a.shard.failures.put(a.account, a.failures.appendTo(nil), expires, order)
}

func (a *accountState) saveKnown() {
	expires := a.known.lastLogin() + int64(a.limits.KnownFor)
	a.shard.known.put(a.account, a.known.appendTo(nil), expires, evictFirst)
}

// clientShard holds a part of the clients.
type clientShard struct {
	mu       sync.Mutex
	attempts table
}

// within returns a client's attempts within the window. The caller holds the
// lock of the shard.
func (s *clientShard) within(window time.Duration, client Client, instant int64) times {
	return readTimes(s.attempts.get(clientRow(client).id)).after(instant - int64(window))
}

func (s *clientShard) save(client Client, attempts times, window time.Duration) {
	expires := attempts.last() + int64(window)
	s.attempts.put(clientRow(client).id, attempts.appendTo(nil), expires, evictFirst)
}
