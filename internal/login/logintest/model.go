package logintest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// tolerance is how far a clock may be behind the times of a cell.
const tolerance = time.Minute

// Setup is what CheckModel checks.
type Setup struct {
	// Next returns the limiter of the next attempt.
	Next func() *login.Limiter
	// SetClock sets the clock of the cells.
	SetClock func(now time.Time)
	// Restart loads the cells again, so that attempts in flight count as
	// failed. Nil for no restarts.
	Restart func() error
	// StepsBack sets the clock back. The cells must not expire.
	StepsBack bool
}

// model is the naive limiter: the rules of the package comment over lists.
type model struct {
	limits   login.Limits
	clients  [3][]record
	accounts [2][]record
}

// record is something that counts in the cell of a client or account.
type record struct {
	kind   kind
	client int
	at     time.Time
}

type kind int

const (
	attempt    kind = iota // of a client
	success                // in the second log of a client
	failure                // of an unknown client
	ownFailure             // of a known client
	known                  // the latest success of a known client
)

// attempted is an attempt in flight.
type attempted struct {
	client, account     int
	clientAt, accountAt time.Time
	kind                kind // of its failure
	strict              bool // does not move
	real                *login.Attempt
}

// view is a cell at one moment.
type view struct {
	records []record
	instant time.Time
	moved   bool
}

// look moves records to the past if the clock was set back.
func look(records []record, now time.Time) view {
	v := view{records: slices.Clone(records), instant: now}
	for _, r := range records {
		if r.at.After(v.instant) {
			v.instant = r.at
		}
	}
	if back := v.instant.Sub(now); back > tolerance {
		v.instant, v.moved = now, true
		for i := range v.records {
			v.records[i].at = v.records[i].at.Add(-back)
		}
	}
	return v
}

func (v *view) delete(which func(record) bool) { v.records = slices.DeleteFunc(v.records, which) }

func (v *view) add(k kind, client int) { v.records = append(v.records, record{k, client, v.instant}) }

// of returns the records of a kind, of one client or of all.
func (v *view) of(k kind, client int) (of []record) {
	for _, r := range v.records {
		if r.kind == k && (r.client == client || client < 0) {
			of = append(of, r)
		}
	}
	return of
}

func (m *model) client(client int, now time.Time) view {
	v := look(m.clients[client], now)
	v.delete(func(r record) bool { return !r.at.Add(m.limits.Window).After(v.instant) })
	return v
}

// account returns the account for a client, and the kind of its failures and
// whose failures count together.
func (m *model) account(account, client int, now time.Time) (v view, k kind, whose int) {
	v = look(m.accounts[account], now)
	var unknown []int
	v.delete(func(r record) bool {
		ended := r.kind == known && !r.at.Add(m.limits.KnownFor).After(v.instant)
		if ended {
			unknown = append(unknown, r.client)
		}
		return ended
	})
	v.delete(func(r record) bool { return r.kind == ownFailure && slices.Contains(unknown, r.client) })
	m.forget(&v, failure, -1)
	k, whose = failure, -1
	if len(v.of(known, client)) > 0 {
		k, whose = ownFailure, client
		m.forget(&v, k, whose)
	}
	return v, k, whose
}

// forget deletes failures before the last gap of Forget, and keeps four more
// than the longest wait needs.
func (m *model) forget(v *view, k kind, whose int) {
	keep := m.limits.Free + 4
	for wait := m.limits.FirstWait; wait < m.limits.MaxWait; wait *= 2 {
		keep++
	}
	next, gap := v.instant, false
	for i, r := range slices.Backward(v.records) {
		if r.kind != k || whose >= 0 && r.client != whose {
			continue
		}
		gap = gap || !r.at.Add(m.limits.Forget).After(next)
		next = r.at
		if keep--; gap || keep < 0 {
			v.records = slices.Delete(v.records, i, i+1)
		}
	}
}

// clientOpens and accountOpens are when the model admits.
func (m *model) clientOpens(v view) time.Time {
	if log := v.of(attempt, -1); len(log) >= m.limits.PerClient {
		return log[len(log)-m.limits.PerClient].at.Add(m.limits.Window)
	}
	return time.Time{}
}

func (m *model) accountOpens(v view, k kind, whose int) time.Time {
	failed := v.of(k, whose)
	if len(failed) < m.limits.Free {
		return time.Time{}
	}
	wait := m.limits.FirstWait
	for i := m.limits.Free; i < len(failed) && wait < m.limits.MaxWait; i++ {
		wait *= 2
	}
	return failed[len(failed)-1].at.Add(min(wait, m.limits.MaxWait))
}

// reserve returns the wait, or counts the attempt.
func (m *model) reserve(a *attempted, now time.Time) (wait time.Duration) {
	client := m.client(a.client, now)
	account, k, whose := m.account(a.account, a.client, now)
	refuse := func(v view, opens time.Time, stored *[]record) {
		if !opens.After(v.instant) {
			return
		}
		wait = max(wait, opens.Sub(now))
		if v.moved {
			*stored = v.records
		}
	}
	refuse(client, m.clientOpens(client), &m.clients[a.client])
	refuse(account, m.accountOpens(account, k, whose), &m.accounts[a.account])
	if wait > 0 {
		return wait
	}
	client.add(attempt, a.client)
	account.add(k, a.client)
	m.forget(&account, k, whose)
	a.clientAt, a.accountAt, a.kind = client.instant, account.instant, k
	m.clients[a.client], m.accounts[a.account] = client.records, account.records
	return 0
}

// abandon deletes a failure. A success may have cleared that of the attempt,
// but not one of the same client at the same instant: these are alike.
func (m *model) abandon(a *attempted, now time.Time) {
	v, _, _ := m.account(a.account, a.client, now)
	if i := slices.Index(v.records, record{a.kind, a.client, a.accountAt}); i >= 0 {
		v.records = slices.Delete(v.records, i, i+1)
	}
	m.accounts[a.account] = v.records
}

func (m *model) succeed(a *attempted, now time.Time) {
	v, _, _ := m.account(a.account, a.client, now)
	v.delete(func(r record) bool { return r.client == a.client })
	v.add(known, a.client)
	m.accounts[a.account] = v.records
	if a.strict {
		return
	}
	v = m.client(a.client, now)
	if i := slices.Index(v.records, record{attempt, a.client, a.clientAt}); i >= 0 && len(v.of(success, -1)) < 4*m.limits.PerClient {
		v.records[i].kind = success
	}
	m.clients[a.client] = v.records
}

// CheckModel checks that limiters agree with a naive model, with late
// outcomes, clocks that jump and restarts. setup returns limiters without
// attempts.
func CheckModel(t *testing.T, setup func(t *rapid.T) Setup) {
	rapid.Check(t, func(t *rapid.T) {
		limits := login.Limits{
			PerClient: rapid.SampledFrom([]int{1, 1, 2, 3, 5, 8}).Draw(t, "per client"),
			Window:    time.Minute,
			Free:      rapid.IntRange(1, 4).Draw(t, "free"),
			FirstWait: 10 * time.Second,
			MaxWait:   rapid.SampledFrom([]time.Duration{10, 35, 80}).Draw(t, "max wait") * time.Second,
			Forget:    10 * time.Minute,
			KnownFor:  30 * time.Minute,
		}
		s := &session{Setup: setup(t), model: &model{limits: limits}, now: start}
		actions := map[string]func(*rapid.T){
			"reserve": s.reserve, "reserve2": s.reserve, "reserve3": s.reserve,
			"fail":    func(t *rapid.T) { s.settle(t).real.Failed() },
			"abandon": s.abandon,
			"succeed": s.succeed,
			"pass": func(t *rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(t, "ns")))
			},
			"pass long": func(t *rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "seconds")) * time.Second)
			},
		}
		if s.StepsBack {
			actions["step back"] = func(t *rapid.T) {
				s.now = s.now.Add(-time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
			}
		}
		if s.Restart != nil {
			actions["restart"] = s.restart
		}
		t.Repeat(actions)
	})
}

// session is one run of limiters beside the model.
type session struct {
	Setup
	model    *model
	now      time.Time
	inFlight []*attempted
}

// settle returns an attempt in flight, whose outcome comes next.
func (s *session) settle(t *rapid.T) *attempted {
	if len(s.inFlight) == 0 {
		t.Skip("nothing in flight")
	}
	s.SetClock(s.now)
	i := rapid.IntRange(0, len(s.inFlight)-1).Draw(t, "in flight")
	a := s.inFlight[i]
	s.inFlight = slices.Delete(s.inFlight, i, i+1)
	return a
}

func (s *session) reserve(t *rapid.T) {
	s.SetClock(s.now)
	a := &attempted{
		client: rapid.IntRange(0, 2).Draw(t, "client"), account: rapid.IntRange(0, 1).Draw(t, "account"),
		strict: rapid.Bool().Draw(t, "strict"),
	}
	want := s.model.reserve(a, s.now)
	limits := s.model.limits
	limits.Strict = a.strict
	var wait time.Duration
	var err error
	a.real, wait, err = s.Next().Reserve(context.Background(), limits,
		login.ClientOf(fmt.Sprint("192.0.2.", a.client)), login.AccountOf(fmt.Sprint(a.account)))
	if err != nil {
		t.Fatalf("Reserve: %v", err)
	}
	if wait != want || (a.real != nil) != (want == 0) {
		t.Fatalf("got admitted %v, wait %v; want wait %v", a.real != nil, wait, want)
	}
	if a.real != nil {
		s.inFlight = append(s.inFlight, a)
	} else if rapid.Bool().Draw(t, "wait just that long") {
		s.now = s.now.Add(wait)
	}
}

func (s *session) abandon(t *rapid.T) {
	a := s.settle(t)
	if err := a.real.Abandoned(context.Background()); err != nil {
		t.Fatalf("Abandoned: %v", err)
	}
	s.model.abandon(a, s.now)
}

func (s *session) succeed(t *rapid.T) {
	a := s.settle(t)
	if err := a.real.Succeeded(context.Background()); err != nil {
		t.Fatalf("Succeeded: %v", err)
	}
	s.model.succeed(a, s.now)
}

func (s *session) restart(t *rapid.T) {
	s.SetClock(s.now)
	s.inFlight = nil
	if err := s.Restart(); err != nil {
		t.Fatalf("Restore: %v", err)
	}
}
