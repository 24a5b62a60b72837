package login

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// accountState is what counts at an account for one client at one moment: the
// rule per account as a value, without a store.
type accountState struct {
	moment
	limits   Limits
	client   fingerprint
	failures failures // of unknown clients
	known    []knownClient
	own      *knownClient // the client in known, or nil
}

// newAccountState reads the cell of an account.
func newAccountState(limits Limits, client fingerprint, cell Cell) (*accountState, error) {
	a := &accountState{limits: limits, client: client}
	if len(cell.Value) > 0 {
		r := readCell(cell.Value)
		for a.failures = r.failures(); len(r.rest) > 0; {
			a.known = append(a.known, r.knownClient())
		}
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	if a.moment = place(cell.Now, a.latest()); a.setBack() {
		a.failures.moveBack(a.moment)
		for i := range a.known {
			a.moveBack(&a.known[i].login)
			a.known[i].failures.moveBack(a.moment)
		}
	}
	a.failures = a.failures.remembered(a.instant, limits.Forget)
	a.known = slices.DeleteFunc(a.known, func(one knownClient) bool {
		return one.login+int64(limits.KnownFor) <= a.instant
	})
	if i := slices.IndexFunc(a.known, func(one knownClient) bool { return one.client == client }); i >= 0 {
		a.own = &a.known[i]
		a.own.failures = a.own.failures.remembered(a.instant, limits.Forget)
	}
	return a, nil
}

func (a *accountState) latest() int64 {
	latest := a.failures.last()
	for _, one := range a.known {
		latest = max(latest, one.login, one.failures.last())
	}
	return latest
}

func (a *accountState) wait() time.Duration {
	counted := a.failures
	if a.own != nil {
		counted = a.own.failures
	}
	return a.until(counted.last() + int64(a.limits.wait(len(counted))))
}

// add adds a failure, and drops the oldest that no wait needs.
func (a *accountState) add() mark {
	counted := &a.failures
	if a.own != nil {
		counted = &a.own.failures
	}
	*counted = append(*counted, failure{a.instant, a.client})
	*counted = (*counted)[max(0, len(*counted)-a.limits.mostFailures()):]
	return mark{a.instant, a.own != nil}
}

// release deletes the failure that add added, if it is still there: a success
// may have cleared it. Failures of a client at the same instant are alike:
// release deletes one.
func (a *accountState) release(m mark) {
	failed := failure{m.at, a.client}
	switch {
	case !m.known:
		a.failures = without(a.failures, failed)
	case a.own != nil:
		a.own.failures = without(a.own.failures, failed)
	}
}

// succeed clears the client's failures and makes it known. The client whose
// login is oldest makes room.
func (a *accountState) succeed(mark) {
	a.failures = slices.DeleteFunc(a.failures, func(one failure) bool { return one.client == a.client })
	a.known = slices.DeleteFunc(a.known, func(one knownClient) bool { return one.client == a.client })
	if len(a.known) >= maxKnown {
		oldest := slices.MinFunc(a.known, func(a, b knownClient) int { return cmp.Compare(a.login, b.login) })
		a.known = slices.DeleteFunc(a.known, func(one knownClient) bool { return one.client == oldest.client })
	}
	a.known = append(a.known, knownClient{client: a.client, login: a.instant})
	a.own = &a.known[len(a.known)-1]
}

// change encodes the account. If there are known clients, its size has room for
// all failures, so that failures never evict known clients.
func (a *accountState) change() Change {
	change := Change{Class: FreeClass, Expires: time.Unix(0, a.failures.last()+int64(a.limits.Forget))}
	if len(a.failures) >= a.limits.Free {
		change.Class = WaitingClass
	}
	for _, one := range a.known {
		most := a.limits.mostFailures()
		change.Class, change.Size = KnownClass, 3+failureSize*most+len(a.known)*(knownClientSize+8*most)
		if expires := time.Unix(0, one.login+int64(a.limits.KnownFor)); expires.After(change.Expires) {
			change.Expires = expires
		}
	}
	if len(a.failures) > 0 || len(a.known) > 0 {
		change.Value = a.encode()
	}
	return change
}

// encode returns the version, the failures, and the known clients.
func (a *accountState) encode() []byte {
	size := 3 + failureSize*len(a.failures)
	for _, one := range a.known {
		size += knownClientSize + 8*len(one.failures)
	}
	value := append(slices.Grow([]byte(nil), size), cellVersion)
	value = binary.LittleEndian.AppendUint16(value, uint16(len(a.failures)))
	for _, one := range a.failures {
		value = binary.LittleEndian.AppendUint64(value, uint64(one.at))
		value = append(value, one.client[:]...)
	}
	for _, one := range a.known {
		value = append(value, one.client[:]...)
		value = binary.LittleEndian.AppendUint64(value, uint64(one.login))
		value = binary.LittleEndian.AppendUint16(value, uint16(len(one.failures)))
		for _, failed := range one.failures {
			value = binary.LittleEndian.AppendUint64(value, uint64(failed.at))
		}
	}
	return value
}

// failure is a failed or in-flight attempt at an account.
type failure struct {
	at     int64
	client fingerprint
}

const failureSize = 8 + len(fingerprint{})

// failures are an account's failures, oldest first.
type failures []failure

func (r *reader) failures() failures {
	f := make(failures, r.length(failureSize))
	var before int64
	for i := range f {
		before = r.instant(before)
		f[i] = failure{before, fingerprint(r.next(len(fingerprint{})))}
	}
	return f
}

func (f failures) moveBack(m moment) {
	for i := range f {
		m.moveBack(&f[i].at)
	}
}

func (f failures) last() int64 {
	if len(f) == 0 {
		return 0
	}
	return f[len(f)-1].at
}

// remembered returns the failures after the last gap of forget or longer.
// The gap may lie within the list, where an attempt was released.
func (f failures) remembered(instant int64, forget time.Duration) failures {
	next := instant
	for i, one := range slices.Backward(f) {
		if one.at+int64(forget) <= next {
			return f[i+1:]
		}
		next = one.at
	}
	return f
}

// maxKnown is how many known clients an account has. Phones often change
// their addresses, but only a success adds a client.
const maxKnown = 16

// knownClient is a client that logged in to an account.
type knownClient struct {
	client   fingerprint
	login    int64    // instant of the latest success
	failures failures // of this client, since then
}

const knownClientSize = len(fingerprint{}) + 8 + 2

func (r *reader) knownClient() knownClient {
	one := knownClient{client: fingerprint(r.next(len(fingerprint{}))), login: r.instant(0)}
	failed := r.times()
	one.failures = make(failures, len(failed))
	for i, at := range failed {
		one.failures[i] = failure{at, one.client}
	}
	return one
}
