package logintest

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// CheckAddresses checks that the limits of addresses agree with a naive model: with
// calls that are undone or settled late, other limits after a reload, and what
// Setup has. A client that waits as long as it must is admitted.
func CheckAddresses(t *testing.T, setup func(t *rapid.T) Setup) {
	zone, err := calendar.New("America/St_Johns") // half an hour off, with changes
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := &addresses{Setup: setup(t), zone: zone, now: start}
		s.draw(t)
		actions := map[string]func(*rapid.T){
			"take": s.take, "take2": s.take, "take3": s.take, "undo": s.undo, "settle": s.settle, "reload": s.reload,
			"pass": func(t *rapid.T) { s.pass(time.Duration(rapid.IntRange(1, int(2*time.Second)).Draw(t, "ns"))) },
			"pass long": func(t *rapid.T) {
				s.pass(time.Duration(rapid.IntRange(1, 40*24*3600).Draw(t, "seconds")) * time.Second)
			},
		}
		if s.StepsBack {
			actions["step back"] = func(t *rapid.T) { s.pass(-time.Duration(rapid.IntRange(1, 100_000).Draw(t, "seconds")) * time.Second) }
		}
		if s.Restart != nil {
			actions["restart"] = func(t *rapid.T) {
				s.SetClock(s.now)
				s.admitted = nil
				if err := s.Restart(); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Repeat(actions)
	})
}

// addresses is one run of limiters beside the model.
type addresses struct {
	Setup
	zone     *calendar.Calendar
	now      time.Time
	limits   []store.Limit
	models   [2]addressModel
	admitted []*addressCall
}

// addressModel is what a client has used, since the latest instant.
type addressModel struct {
	latest time.Time
	used   map[store.Period]*used
}

// used is the exact instant at which a bucket is full, in nanoseconds, or a sum in
// a period of the calendar.
type used struct {
	full  *big.Rat
	first calendar.Day
	cost  int64
}

type addressCall struct {
	login.AddressCall
	client int
	taken  map[store.Period]used
}

func (s *addresses) pass(d time.Duration) { s.now = s.now.Add(d) }

// draw draws limits.
func (s *addresses) draw(t *rapid.T) {
	for period := store.Second; period <= store.Month; period++ {
		if n := rapid.Int64Range(0, 7).Draw(t, period.String()); n > 0 {
			s.limits = append(s.limits, store.Limit{Endpoint: store.All, Period: period, Max: n, OfAddress: true})
		}
	}
}

// reload changes the numbers of calendar limits.
func (s *addresses) reload(t *rapid.T) {
	s.limits = slices.Clone(s.limits)
	for i := range s.limits {
		if l := &s.limits[i]; !l.Period.IsPace() {
			l.Max = rapid.Int64Range(1, 7).Draw(t, l.Period.String())
		}
	}
}

// look returns what a client has used now. moved tells that the clock was set back.
func (s *addresses) look(client int) (m *addressModel, moved bool) {
	before := &s.models[client]
	m = &addressModel{s.now, map[store.Period]*used{}}
	back := new(big.Rat)
	if behind := before.latest.Sub(s.now); behind > tolerance {
		back.SetInt64(int64(behind))
		moved = true
	} else if behind > 0 {
		m.latest = before.latest
	}
	for _, limit := range s.limits {
		u := &used{full: new(big.Rat)}
		if before.used != nil {
			*u = *before.used[limit.Period]
		}
		m.used[limit.Period] = u
		u.full = new(big.Rat).Sub(u.full, back)
		if first := limit.Period.Span(s.zone, m.latest).Day; !limit.Period.IsPace() && u.first != first {
			if u.first < first {
				u.cost = 0
			}
			u.first = first
		}
	}
	return m, moved
}

// room is what a limit admits.
func (m *addressModel) room(limit store.Limit) int64 {
	u := m.used[limit.Period]
	if !limit.Period.IsPace() {
		return max(0, limit.Max-u.cost)
	}
	debt := new(big.Rat).Sub(u.full, nanos(m.latest))
	if debt.Sign() < 0 {
		debt.SetInt64(0)
	}
	left := new(big.Rat).Sub(big.NewRat(1, 1), debt.Quo(debt, big.NewRat(int64(limit.Period.Pace()), 1)))
	left.Mul(left, big.NewRat(limit.Max, 1))
	return max(0, new(big.Int).Div(left.Num(), left.Denom()).Int64())
}

func nanos(at time.Time) *big.Rat { return big.NewRat(at.UnixNano(), 1) }

// costTime is the time in which a pace refills a cost.
func costTime(limit store.Limit, cost int64) *big.Rat {
	return new(big.Rat).Mul(big.NewRat(int64(limit.Period.Pace()), limit.Max), big.NewRat(cost, 1))
}

func (s *addresses) take(t *rapid.T) {
	s.try(t, rapid.IntRange(0, 1).Draw(t, "client"), rapid.Int64Range(1, 3).Draw(t, "cost"), rapid.Bool().Draw(t, "wait just that long"))
}

func (s *addresses) try(t *rapid.T, client int, cost int64, again bool) (admitted bool) {
	s.SetClock(s.now)
	m, moved := s.look(client)
	rooms, want := make([]store.Room, len(s.limits)), true
	for _, limit := range s.limits {
		want = want && m.room(limit) >= cost
	}
	c := &addressCall{client: client, taken: map[store.Period]used{}, AddressCall: login.AddressCall{
		Client: login.ClientOf(fmt.Sprint("192.0.2.", client)), Calendar: s.zone, Limits: s.limits, Cost: cost,
	}}
	admitted, err := s.Next().Take(context.Background(), &c.AddressCall, rooms, false)
	if err != nil || admitted != want {
		t.Fatalf("got admitted %t, %v, want %t", admitted, err, want)
	}
	if admitted {
		for _, limit := range s.limits {
			u := m.used[limit.Period]
			if u.cost += cost; limit.Period.IsPace() {
				u.cost = 0
				if u.full.Cmp(nanos(m.latest)) < 0 {
					u.full = nanos(m.latest)
				}
				u.full = new(big.Rat).Add(u.full, costTime(limit, cost))
			}
			c.taken[limit.Period] = *u
		}
		s.admitted = append(s.admitted, c)
	}
	if admitted || moved {
		s.models[client] = *m
	}
	wait, possible := time.Duration(0), true
	for i, limit := range s.limits {
		if got := rooms[i].Remaining; got != m.room(limit) {
			t.Fatalf("%v: got room for %d, want %d", limit.Period, got, m.room(limit))
		}
		if possible = possible && cost <= limit.Max; rooms[i].Remaining >= cost {
			continue
		}
		if limit.Period.IsPace() {
			wait = max(wait, limit.Wait(rooms[i], cost))
		} else {
			wait = max(wait, rooms[i].Full)
		}
	}
	if !admitted && again && possible {
		s.pass(wait)
		if !s.try(t, client, cost, false) {
			t.Fatalf("not admitted after the wait of %v", wait)
		}
	}
	return admitted
}

// late returns a call that was admitted.
func (s *addresses) late(t *rapid.T) (c *addressCall, m *addressModel) {
	if len(s.admitted) == 0 {
		t.Skip("no call was admitted")
	}
	s.SetClock(s.now)
	i := rapid.IntRange(0, len(s.admitted)-1).Draw(t, "call")
	c = s.admitted[i]
	s.admitted = slices.Delete(s.admitted, i, i+1)
	m, _ = s.look(c.client)
	s.models[c.client] = *m
	return c, m
}

func (s *addresses) settle(t *rapid.T) {
	c, m := s.late(t)
	cost := rapid.Int64Range(0, 5).Draw(t, "cost")
	m.settle(c, cost)
	if err := c.Settle(context.Background(), cost); err != nil {
		t.Fatal(err)
	}
}

func (m *addressModel) settle(c *addressCall, cost int64) {
	for _, limit := range c.Limits {
		if u := m.used[limit.Period]; !limit.Period.IsPace() && u.first == c.taken[limit.Period].first {
			u.cost = max(0, u.cost-c.Cost+cost)
		}
	}
}

func (s *addresses) undo(t *rapid.T) {
	c, m := s.late(t)
	m.settle(c, 0)
	rooms := make([]store.Room, len(c.Limits))
	for _, limit := range c.Limits {
		full := c.taken[limit.Period].full
		if limit.Period.IsPace() && new(big.Int).Div(full.Num(), full.Denom()).Int64() >= m.latest.UnixNano() {
			u := m.used[limit.Period]
			u.full = new(big.Rat).Sub(u.full, costTime(limit, c.Cost))
		}
	}
	if err := c.Undo(context.Background(), rooms); err != nil {
		t.Fatal(err)
	}
	for i, limit := range c.Limits {
		if got := rooms[i].Remaining; got != m.room(limit) {
			t.Fatalf("%v: got room for %d after the call was undone, want %d", limit.Period, got, m.room(limit))
		}
	}
}
