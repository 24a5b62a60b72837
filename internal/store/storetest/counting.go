package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Faulty is an engine whose disk can fail, and which can forget what it keeps in
// memory only to be fast.
type Faulty interface {
	// FailLog makes each write of that number fail from now on, none if it is 0.
	FailLog(every int)
	Forget(keep func(calendar.Day) bool)
}

// counting takes a store and a Model through the same random calls, settlements,
// credits, closed accounts and kills.
type counting struct {
	*rapid.T
	s     *suite
	model Model
	ids   []string
	held  []heldCall
	made  map[string]book.Credit // by account and id of the credit
	known map[*Life]store.Handle // of this process
	first calendar.Day
	day   calendar.Day // from first to first+40
	at    time.Time
	lives int
}

// heldCall is an admitted call that is not settled.
type heldCall struct {
	store.Call
	life   *Life
	limits []store.Limit
	rooms  []store.Room // of the store
	taken  Taken        // of the model
}

// counting: counts, remainders, credits and bills are those of the model after
// random steps.
func (s *suite) counting() {
	first := 0
	check := func(t *rapid.T) {
		first++ // the checks share a store
		c := &counting{T: t, s: s, model: Model{}, made: map[string]book.Credit{}, known: map[*Life]store.Handle{}, at: s.now}
		month, _ := (s.today - 40).Month()
		newYear := calendar.UTCDay(time.Date(s.now.Year(), 1, 1, 0, 0, 0, 0, time.UTC))
		c.first = rapid.SampledFrom([]calendar.Day{month, newYear}).Draw(t, "month") - 1
		c.day = c.first
		c.ids = []string{fmt.Sprintf("m%06d", first), fmt.Sprintf("m%06d0", first)}
		for _, id := range c.ids {
			c.begin(id)
		}
		steps := map[string]func(*rapid.T){"": c.with(c.check)}
		for name, step := range map[string]func(){
			"call": c.call, "call again": c.call, "call more": c.call, "burst": c.burst, "settle": c.settle, "settle again": c.settle,
			"credit": c.credit, "reset": c.reset, "close": c.renew, "wait": c.wait, "next day": c.nextDay,
		} {
			steps[name] = c.with(step)
		}
		if s.embedded != nil {
			steps["restart"] = c.with(c.restart)
			steps["forget"], steps["forget again"] = c.with(c.forget), c.with(c.forget)
		}
		t.Repeat(steps)
	}
	for range max(1, rounds(10)/2) {
		rapid.Check(s.T, check)
	}
}

// with runs a step with the state of its own draws.
func (c *counting) with(step func()) func(*rapid.T) {
	return func(t *rapid.T) {
		c.T = t
		step()
	}
}

func (c *counting) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("unexpected error: %v", err)
	}
}

// begin creates an account.
func (c *counting) begin(id string) {
	c.lives++
	plan := fmt.Sprint("plan_", c.lives)
	created := c.s.now.Add(time.Duration(c.lives))
	_, err := PutAccount(context.Background(), c.s.store.Book, store.Account{ID: id, Plan: plan, CreatedAt: created})
	c.must(err)
	var keys []string
	for _, name := range []string{"one", "two"} {
		key := fmt.Sprintf("key_%s_%d_%s", id, c.lives, name)
		keys = append(keys, key)
		c.must(c.s.store.CreateKey(context.Background(), store.Key{ID: key, Account: id, Kind: token.Key, Name: name, CreatedAt: created}, hashOf(key)))
	}
	c.model.Begin(id, plan, keys...)
}

// withDisk runs a step whose writes the disk may refuse, and tells whether it did.
func (c *counting) withDisk(writes bool, step func() error) (refused bool) {
	c.Helper()
	faulty, can := c.s.embedded.(Faulty)
	fails := can && rapid.IntRange(0, 9).Draw(c.T, "disk") == 0
	if fails {
		faulty.FailLog(1)
		defer faulty.FailLog(0)
	}
	err := step()
	if fails && writes && errors.Is(err, store.ErrUnavailable) {
		return true
	}
	c.must(err)
	if fails && writes {
		c.Fatalf("written without a disk")
	}
	return false
}

// call takes a call.
func (c *counting) call() {
	call := c.newCall(c.id())
	limits := c.limits(call.Call)
	rooms := make([]store.Room, len(limits))
	if !call.life.Open {
		if call.Handle == 0 {
			c.Skip("no account, and no handle of it")
		}
		if _, err := c.s.store.Take(context.Background(), call.Call, limits, rooms); !errors.Is(err, store.ErrNoGrant) {
			c.Fatalf("a call of no account: got %v", err)
		}
		return
	}
	want, admits := call.life.Rooms(call.Call, limits)
	c.must(c.s.store.Rooms(context.Background(), call.Call, limits, rooms))
	c.wantRooms("before", call.Call, limits, rooms, want)
	var admitted bool
	refused := c.withDisk(admits, func() (err error) {
		admitted, err = c.s.store.Take(context.Background(), call.Call, limits, rooms)
		return err
	})
	if refused {
		call.life.TakePaces(call.Call, limits)
		return
	}
	if admits {
		call.taken = call.life.Take(call.Call, limits)
		want, _ = call.life.Rooms(call.Call, limits)
		call.limits, call.rooms = limits, slices.Clone(rooms)
		c.held = append(c.held, call)
	}
	if admitted != admits {
		c.Fatalf("take of %+v with %+v: admitted %v, want %v", call.Call, limits, admitted, admits)
	}
	c.wantRooms("after", call.Call, limits, rooms, want)
}

func (c *counting) wantRooms(when string, call store.Call, limits []store.Limit, got, want []store.Room) {
	c.Helper()
	got = slices.Clone(got)
	for i := range got {
		got[i].Busy = 0 // only Settle reads it
	}
	if !slices.Equal(got, want) {
		c.Fatalf("rooms %s %+v with %+v: got %+v, want %+v", when, call, limits, got, want)
	}
}

// burst takes calls of one counter at once, and settles some with less. The disk
// refuses some of it. The calls that were admitted never exceed the limit.
func (c *counting) burst() {
	call := c.newCall(c.id())
	if !call.life.Open {
		c.Skip("no account")
	}
	call.Cost = 3
	limits := []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: rapid.Int64Range(0, 90).Draw(c.T, "limit")},
		{Endpoint: "convert", Period: store.Total, Max: rapid.Int64Range(0, 300).Draw(c.T, "total")},
		{Endpoint: store.All, Period: store.Week, Max: rapid.Int64Range(0, 60).Draw(c.T, "calls of a week"), Calls: true},
	}
	settles := rapid.IntRange(1, 6).Draw(c.T, "caller that settles")
	if faulty, can := c.s.embedded.(Faulty); can {
		faulty.FailLog(rapid.IntRange(0, 4).Draw(c.T, "failing write"))
		defer faulty.FailLog(0)
	}
	var taken, calls, given atomic.Int64
	c.s.together(6, func(caller int) error {
		for range 3 {
			rooms := make([]store.Room, len(limits))
			ok, err := c.s.store.Take(context.Background(), call.Call, limits, rooms)
			if ok {
				taken.Add(call.Cost)
				calls.Add(1)
			}
			if cost := int64(caller % 4); ok && caller%settles == 0 {
				if err = c.s.store.Settle(context.Background(), call.Call, limits, rooms, cost, cost == 0); err == nil {
					given.Add(call.Cost - cost)
					if cost == 0 {
						calls.Add(-1)
					}
				}
			}
			if err != nil && !(c.s.embedded != nil && errors.Is(err, store.ErrUnavailable)) {
				return err
			}
		}
		return nil
	})
	call.life.add(call.Call, limits, taken.Load()-given.Load(), calls.Load(), 0)
	for _, limit := range limits {
		if taken.Load() > 0 && call.life.Used(call.Call, limit) > limit.Max {
			c.Fatalf("%+v: counted above the limit %+v", call.Call, limit)
		}
	}
}

// settle settles a call that is held, or one that was never taken.
func (c *counting) settle() {
	call := heldCall{}
	if n := len(c.held); n > 0 && rapid.IntRange(0, 4).Draw(c.T, "held") > 0 {
		i := rapid.IntRange(0, n-1).Draw(c.T, "which")
		call = c.held[i]
		c.held = slices.Delete(c.held, i, i+1)
	} else if call = c.newCall(c.id()); !call.life.Open {
		c.Skip("no account")
	}
	cost := rapid.OneOf(rapid.Int64Range(0, 9), rapid.Int64Range(0, 9), rapid.SampledFrom([]int64{100, 1e12})).Draw(c.T, "settled cost")
	refund := rapid.IntRange(0, 3).Draw(c.T, "refund") == 0
	if refund {
		cost = 0
	}
	call.At = c.at
	before, paces := maps.Clone(call.life.used), maps.Clone(call.life.paces)
	c.model.Settle(call.life, call.Call, call.limits, call.taken, cost, refund)
	if c.withDisk(!maps.Equal(before, call.life.used), func() error {
		return c.s.store.Settle(context.Background(), call.Call, call.limits, call.rooms, cost, refund)
	}) {
		call.life.used, call.life.paces = before, paces
	}
}

// credit gives calls back, sometimes twice with one id.
func (c *counting) credit() {
	id, name := c.id(), rapid.SampledFrom([]string{"", "", "one", "two"}).Draw(c.T, "credit")
	asked := book.Credit{
		Day: c.day - calendar.Day(rapid.IntRange(-1, 2).Draw(c.T, "days ago")), Calls: rapid.Int64Range(1, 12).Draw(c.T, "calls"),
		Endpoint: rapid.SampledFrom([]string{"convert", "rates"}).Draw(c.T, "endpoint"),
	}
	before, repeated := c.made[id+" "+name]
	if repeated && rapid.IntRange(0, 2).Draw(c.T, "again") > 0 {
		asked.Endpoint, asked.Calls = before.Endpoint, before.Calls
	}
	want, wantRecorded, wantErr := asked, 0, error(nil)
	switch {
	case !slices.ContainsFunc(c.model[id], func(l *Life) bool { return l.Open || l.listed }):
		wantErr = store.ErrNotFound
	case repeated && (before.Endpoint != asked.Endpoint || before.Calls != asked.Calls):
		wantErr = book.ErrOtherCredit
	case repeated:
		want = before
	default:
		if want.Credited = c.model.Credit(id, asked.Endpoint, asked.Day, asked.Calls); want.Credited == 0 {
			wantErr = book.ErrNothingLeft
			break
		}
		wantRecorded = 1
		if name != "" {
			c.made[id+" "+name] = want
		}
	}
	want.Called = c.model.Called(id, want.Endpoint, want.Day)
	recorded := 0
	got, err := c.s.store.Credit(context.Background(), c.s.now, id, name, []book.Credit{asked}, func(*book.Account, []book.Credit) { recorded++ })
	if !errors.Is(err, wantErr) || recorded < wantRecorded || wantRecorded == 0 && recorded > 0 || err == nil && (len(got) != 1 || got[0] != want) {
		c.Fatalf("credit %q of %s of %+v: got %+v, %v, recorded %d times, want %+v, %v", name, id, asked, got, err, recorded, want, wantErr)
	}
}

// reset gives back all that an account used on a day.
func (c *counting) reset() {
	id, day := c.id(), c.day-calendar.Day(rapid.IntRange(-1, 1).Draw(c.T, "days ago"))
	endpoint := rapid.SampledFrom([]string{"", "convert", "unknown"}).Draw(c.T, "endpoint")
	var want error
	if l := c.model.Last(id); !l.Open {
		want = store.ErrNotFound
	} else {
		for _, n := range l.Counts("") {
			if n.Day == day && (endpoint == "" || n.Endpoint == endpoint) {
				c.model.Credit(id, n.Endpoint, day, n.Used)
			}
		}
	}
	if err := c.s.store.Reset(context.Background(), c.s.now, id, endpoint, day, func(*book.Account, []book.Credit) {}); !errors.Is(err, want) {
		c.Fatalf("reset of %s: got %v, want %v", id, err, want)
	}
}

// renew closes an account, or makes another one with its id.
func (c *counting) renew() {
	id := c.id()
	last := c.model.Last(id)
	if !last.Open {
		c.begin(id)
		return
	}
	var want []book.Bill
	for _, bill := range c.model.Bills(id) {
		if !bill.Closed && bill.Day <= c.day {
			want = append(want, bill)
		}
	}
	c.must(c.s.store.CloseAccount(context.Background(), c.s.now, id, c.first-10, c.day, func(_ *book.Account, called []book.Bill) {
		if !slices.Equal(called, want) {
			c.Fatalf("closing %s: got %+v, want %+v", id, called, want)
		}
	}))
	last.End()
	// The accounts before are not told apart any longer.
	c.held = slices.DeleteFunc(c.held, func(h heldCall) bool { return h.Account == id && h.life != last })
}

func (c *counting) wait() {
	c.at = c.at.Add(time.Duration(rapid.OneOf(rapid.Int64Range(-2e9, 90e9), rapid.Int64Range(-30*3600e9, 30*3600e9)).Draw(c.T, "nanoseconds")))
}

func (c *counting) nextDay() {
	c.day = min(c.first+40, c.day+calendar.Day(rapid.SampledFrom([]int{1, 1, 2, 20}).Draw(c.T, "days")))
}

// forget frees the memory of some days. No answer may change by it.
func (c *counting) forget() {
	kept := calendar.Day(rapid.IntRange(0, 2).Draw(c.T, "kept days"))
	c.s.embedded.(Faulty).Forget(func(day calendar.Day) bool { return day%2 == kept })
}

// restart ends the process. No call is in flight after it. Most checks do it once,
// for it is slow.
func (c *counting) restart() {
	if rapid.IntRange(0, 2).Draw(c.T, "restart") > 0 {
		c.Skip()
	}
	how := c.s.restart
	if rapid.Bool().Draw(c.T, "kill") {
		how = c.s.kill
	}
	how()
	c.model.Restart()
	c.held = nil
	clear(c.known)
}

// check compares all counters and bills.
func (c *counting) check() {
	first, last := c.first-10, c.first+41
	var want []book.Bill
	for _, id := range c.ids {
		l := c.model.Last(id)
		for _, key := range append([]string{"", store.CallsKey, store.OverageKey}, l.Keys...) {
			for last, want := range map[calendar.Day][]store.Count{last: l.Counts(key), store.TotalDay: l.Totals(key)} {
				got, err := c.s.store.Counts(context.Background(), id, key, last-52, last)
				c.must(err)
				if !slices.Equal(sorted(got), want) && (l.Open || key == "") {
					c.Fatalf("counts of %s, key %q, until %s: got %+v, want %+v", id, key, last, got, want)
				}
			}
		}
		want = append(want, c.model.Bills(id)...)
	}
	before := []byte(c.ids[0])
	before[len(before)-1]--
	got, _, err := c.s.store.Bills(context.Background(), string(before)+"~", len(c.ids), first, last)
	c.must(err)
	if !slices.Equal(got, want) {
		c.Fatalf("bills:\n got %+v\nwant %+v", got, want)
	}
}
