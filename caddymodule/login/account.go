package login

import "slices"

// accountState is what counts at an account for one client at one instant:
// the rule per account as a value, without a store. changed says what the
// methods changed.
type accountState struct {
	limits   Limits
	client   fingerprint
	failures failures // of unknown clients
	known    knownClients
	own      *knownClient // the client in known, or nil
	changed  struct{ failures, known bool }
}

// newAccountState returns the state at an instant. It takes over both lists.
func newAccountState(
	limits Limits, client fingerprint, failed failures, known knownClients, instant int64,
) *accountState {
	a := &accountState{limits: limits, client: client}
	a.failures = failed.remembered(instant, limits.Forget)
	a.known = slices.DeleteFunc(known, func(known knownClient) bool {
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
		a.changed.known = true
		return
	}
	a.failures = append(a.failures.newest(keep), failed)
	a.changed.failures = true
}

// release deletes the failure that fail added, if it is still there: a
// success may have cleared it. known says whether the client was known then.
// Failures of a client at the same instant are alike: release deletes one.
func (a *accountState) release(at int64, known bool) {
	failed := failure{at, a.client}
	switch {
	case !known:
		a.failures = without(a.failures, failed)
		a.changed.failures = true
	case a.own != nil:
		a.own.failures = without(a.own.failures, failed)
		a.changed.known = true
	}
}

// succeed clears the client's failures and makes it known.
func (a *accountState) succeed(at int64) {
	a.failures = a.failures.withoutClient(a.client)
	a.known = a.known.add(a.client, at)
	a.changed.failures, a.changed.known = true, true
}

// failuresExpire is the instant from which the failures count no more.
func (a *accountState) failuresExpire() int64 {
	return a.failures.last() + int64(a.limits.Forget)
}

// knownExpire is the instant from which no client is known.
func (a *accountState) knownExpire() int64 {
	return a.known.lastLogin() + int64(a.limits.KnownFor)
}
