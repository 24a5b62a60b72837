package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// beginning is before all calls of the model.
var beginning = now.AddDate(-2, 0, 0)

// limits are the plans of the model.
var limits = map[string]int64{"free": 0, "starter": 2, "business": 7, "flat": store.Unlimited}

// model is the expected state, computed in the simplest way.
type model struct {
	accounts map[string]string // plan, "" while disabled
	removed  map[string]bool
	tokens   map[byte]ledger.Token
	deleted  map[string]int       // how often each account was, since the last reload
	used     map[store.Call]int64 // by holder, endpoint and day
	buckets  map[bucketOf]store.Bucket
}

// bucketOf is what has a bucket of its own.
type bucketOf struct {
	holder string
	limit  store.Limit // without its Max
}

func bucketIDOf(call store.Call, limit store.Limit) bucketOf {
	id := bucketOf{holderOf(call, limit), limit}
	if limit.Endpoint != store.All {
		id.limit.Endpoint = call.Endpoint
	}
	id.limit.Max = 0
	return id
}

// holderOf returns the holder of the counters that a limit covers.
func holderOf(call store.Call, limit store.Limit) string {
	if limit.OfKey {
		return ledger.Holder(call.Account, call.Key)
	}
	return call.Account
}

// add adds to the counters of a call.
func (m *model) add(call store.Call, cost int64) {
	for _, key := range slices.Compact([]string{"", call.Key}) {
		counter := store.Call{Account: ledger.Holder(call.Account, key), Endpoint: call.Endpoint, Day: call.Day}
		m.used[counter] = max(0, m.used[counter]+cost)
	}
}

// settle changes what a call counts. After its account is deleted, a counter at
// zero stays there, and then none changes if there is another account.
func (m *model) settle(call heldCall, cost int64) {
	_, exists := m.accounts[call.Account]
	deleted := m.removed[call.Account]
	if call.Handle != 0 {
		deleted = m.deleted[call.Account] != call.deleted
	}
	for _, key := range slices.Compact([]string{"", call.Key}) {
		counter := store.Call{Account: ledger.Holder(call.Account, key), Endpoint: call.Endpoint, Day: call.Day}
		after := max(0, m.used[counter]+cost-call.Weight())
		if after != m.used[counter] && (!deleted || !exists && m.used[counter] > 0) {
			m.used[counter] = after
		}
	}
}

// grant is the plan that a token opens, or "".
func (m *model) grant(id byte, now time.Time) (t ledger.Token, plan string) {
	t, ok := m.tokens[id]
	if !ok || (!t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)) {
		return t, ""
	}
	return t, m.accounts[t.Account]
}

// room is what a limit of a call has left.
func (m *model) room(call store.Call, limit store.Limit) store.Room {
	if limit.Period.IsPace() {
		return m.buckets[bucketIDOf(call, limit)].Room(limit, call.At.Sub(beginning))
	}
	month := func(d calendar.Day) string { return d.String()[:len("2026-11")] }
	used := int64(0)
	for other, n := range m.used {
		all := limit.Endpoint == store.All
		if other.Account == holderOf(call, limit) &&
			(other.Day == call.Day || limit.Period == store.Month && month(other.Day) == month(call.Day)) &&
			(other.Endpoint == call.Endpoint || all) && (!all || other.Endpoint != call.Except) {
			used += n
		}
	}
	return limit.RoomAfter(used)
}

// rooms returns what the limits of a call have left, and whether each has
// room for it.
func (m *model) rooms(call store.Call, limits []store.Limit) (rooms []store.Room, admitted bool) {
	admitted = true
	for _, limit := range limits {
		room := m.room(call, limit)
		rooms = append(rooms, room)
		admitted = admitted && room.Remaining >= call.Weight()
	}
	return rooms, admitted
}

// take takes an admitted call from the paces.
func (m *model) take(call store.Call, limits []store.Limit) {
	for _, limit := range limits {
		if limit.Period.IsPace() {
			bucket := m.buckets[bucketIDOf(call, limit)]
			bucket.Take(limit, call.At.Sub(beginning), call.Weight())
			m.buckets[bucketIDOf(call, limit)] = bucket
		}
	}
}

// simulator drives a ledger and the model through the same events. What
// a store does around the ledger, it does in the simplest way: it writes
// a row, then changes the ledger.
type simulator struct {
	*rapid.T
	model model
	held  []heldCall
	log   *memoryLog
	rows  map[string]string // accounts and tokens on the disk
	l     *ledger.Ledger
	now   time.Time
	fails bool // the log does
}

// heldCall is an admitted call that is not settled, and how often its account was
// deleted before.
type heldCall struct {
	store.Call
	deleted int
}

// TestModel runs random sequences of calls, changes, steps of the clock,
// failures of the disk, crashes and reloads. When it fails it prints the
// sequence, and the seed that repeats it.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &simulator{T: t, log: newLog(), rows: map[string]string{}, now: now.AddDate(0, 0, 10)} // at the end of a month
		s.model = model{accounts: map[string]string{}, removed: map[string]bool{}, tokens: map[byte]ledger.Token{}, deleted: map[string]int{}, used: map[store.Call]int64{}, buckets: map[bucketOf]store.Bucket{}}
		s.log.before = func(int) error {
			if s.fails {
				return errDisk
			}
			return nil
		}
		s.l = ledger.New(s.log)
		t.Repeat(map[string]func(*rapid.T){
			"":              func(*rapid.T) { s.check() },
			"call":          func(*rapid.T) { s.call() },
			"call again":    func(*rapid.T) { s.call() },
			"burst":         func(*rapid.T) { s.burst() },
			"settle":        func(*rapid.T) { s.settle() },
			"settle again":  func(*rapid.T) { s.settle() },
			"edit":          func(*rapid.T) { s.edit() },
			"put account":   func(*rapid.T) { s.putAccount() },
			"remove":        func(*rapid.T) { s.removeAccount() },
			"put token":     func(*rapid.T) { s.putToken() },
			"revoke":        func(*rapid.T) { s.revoke() },
			"move clock":    func(*rapid.T) { s.moveClock() },
			"let go":        func(*rapid.T) { s.letGo() },
			"disk":          func(*rapid.T) { s.fails = rapid.Bool().Draw(t, "fails") },
			"crash, reload": func(*rapid.T) { s.reload() },
		})
	})
}

func (s *simulator) account() string {
	return rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(s.T, "account")
}
func (s *simulator) token() byte { return byte(rapid.IntRange(0, 5).Draw(s.T, "token")) }
func (s *simulator) today() calendar.Day {
	return calendar.Day(s.now.Unix() / int64(24*time.Hour/time.Second))
}

func (s *simulator) counter(account string) store.Call {
	endpoint := rapid.SampledFrom([]string{"convert", "rates"}).Draw(s.T, "endpoint")
	return store.Call{Account: account, Endpoint: endpoint, Day: s.today()}
}

// failed checks an operation's error and tells whether it failed, as it
// must when the log does and may not otherwise.
func (s *simulator) failed(err error) bool {
	if s.fails != errors.Is(err, store.ErrUnavailable) || (!s.fails && err != nil) {
		s.Fatalf("log fails: %v, got error %v", s.fails, err)
	}
	return s.fails
}

// write writes a row beside the ledger's log, on the same disk.
func (s *simulator) write(key, value string) bool {
	if s.fails {
		return false
	}
	if s.rows[key] = value; value == "" {
		delete(s.rows, key)
	}
	return true
}

// call is what the gate does: grant, then take by the plan's limit.
func (s *simulator) call() {
	id := s.token()
	want, plan := s.model.grant(id, s.now)
	got, err := s.l.Grant(&token.Hash{id}, s.now)
	handle := got.Handle
	got.Handle = 0
	if plan == "" {
		if !errors.Is(err, store.ErrNoGrant) {
			s.Fatalf("grant of %d: got %+v, %v, want none", id, got, err)
		}
		return
	}
	if err != nil || !reflect.DeepEqual(got, store.Grant{Account: want.Account, Plan: plan, Key: want.ID, KeyName: want.Name, Abilities: want.Abilities}) {
		s.Fatalf("grant of %d: got %+v, %v, want %+v on %s", id, got, err, want, plan)
	}
	call, limit := s.counter(got.Account), limits[got.Plan]
	granted := call
	if rapid.Bool().Draw(s.T, "with its handle") {
		granted.Handle = handle
	}
	granted.Cost = rapid.Int64Range(0, 3).Draw(s.T, "cost")
	granted.At, granted.Key = s.now, rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(s.T, "key")
	granted.Except = rapid.SampledFrom([]string{"", "unknown"}).Draw(s.T, "except")
	if granted.Endpoint != "rates" && rapid.Bool().Draw(s.T, "except rates") {
		granted.Except = "rates"
	}
	list := s.limits(limit, granted)
	left := make([]store.Room, len(list))
	wantLeft, admitted := s.model.rooms(granted, list)
	if err := s.l.Rooms(granted, list, left); err != nil || !slices.Equal(left, wantLeft) {
		s.Fatalf("rooms of %v with %v: got %v, %v, want %v", granted, list, left, err, wantLeft)
	}
	ok, err := s.l.Take(granted, list, left)
	if admitted {
		s.model.take(granted, list) // paces take also if the log fails
	}
	if s.fails && admitted {
		if ok || !s.failed(err) {
			s.Fatalf("admitted without a log")
		}
		return
	}
	if admitted {
		s.model.add(granted, granted.Weight())
		s.held = append(s.held, heldCall{granted, s.model.deleted[granted.Account]})
		wantLeft, _ = s.model.rooms(granted, list)
	}
	if ok != admitted || !slices.Equal(left, wantLeft) || err != nil {
		s.Fatalf("take of %v with %v: got %v, %v, %v, want %v, %v", granted, list, left, ok, err, wantLeft, admitted)
	}
}

// limits is the limit of the day and some others, each with an endpoint and
// period of its own.
func (s *simulator) limits(daily int64, call store.Call) []store.Limit {
	list := []store.Limit{{Endpoint: call.Endpoint, Period: store.Day, Max: daily}}
	for range rapid.IntRange(0, 3).Draw(s.T, "more limits") {
		limit := store.Limit{
			Endpoint: rapid.SampledFrom([]string{call.Endpoint, store.All}).Draw(s.T, "of"),
			Period:   rapid.SampledFrom([]store.Period{store.Day, store.Month, store.Minute, store.Hour}).Draw(s.T, "period"),
			Max:      rapid.Int64Range(1, 20).Draw(s.T, "max"),
			OfKey:    call.Key != "" && rapid.Bool().Draw(s.T, "of key"),
		}
		if !slices.ContainsFunc(list, func(l store.Limit) bool { return l.Same(limit) && l.OfKey == limit.OfKey }) {
			list = append(list, limit)
		}
	}
	return list
}

// burst takes with many callers from one counter. Some of them settle their calls
// with less. The log fails in between.
func (s *simulator) burst() {
	call, limit := s.counter(s.account()), int64(rapid.IntRange(0, 60).Draw(s.T, "limit"))
	call.Cost = 3
	every := rapid.IntRange(1, 4).Draw(s.T, "failing group")
	steady, fails := s.log.before, s.fails
	s.log.before = func(group int) error {
		if fails || group%every == 0 {
			return errDisk
		}
		return nil
	}
	settles := rapid.IntRange(1, 8).Draw(s.T, "caller that settles")
	var admitted, given atomic.Int64
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for range 3 {
				if _, ok, _ := takeOne(s.l, call, limit); !ok {
					continue
				}
				admitted.Add(call.Cost)
				if cost := int64(caller % 4); caller%settles == 0 && s.l.Settle(call, cost) == nil {
					given.Add(call.Cost - cost)
				}
			}
		})
	}
	callers.Wait()
	s.log.before = steady
	call.Cost = 0
	if s.model.used[call] += admitted.Load() - given.Load(); admitted.Load() > 0 && s.model.used[call] > limit {
		s.Fatalf("%v: admitted %d in all, limit %d", call, s.model.used[call], limit)
	}
}

// settle settles a call that is held, or one that was never taken. A call can cost
// more than it took.
func (s *simulator) settle() {
	call := heldCall{Call: s.counter(s.account())}
	if len(s.held) > 0 && rapid.IntRange(0, 4).Draw(s.T, "held") > 0 {
		i := rapid.IntRange(0, len(s.held)-1).Draw(s.T, "which")
		call = s.held[i]
		s.held = slices.Delete(s.held, i, i+1)
	} else {
		call.Key = rapid.SampledFrom([]string{"", "k1"}).Draw(s.T, "key")
		call.Cost = rapid.Int64Range(0, 3).Draw(s.T, "cost")
	}
	cost := rapid.Int64Range(0, 6).Draw(s.T, "settled cost")
	before := maps.Clone(s.model.used)
	s.model.settle(call, cost)
	err := s.l.Settle(call.Call, cost)
	switch {
	case !maps.Equal(s.model.used, before):
		if s.failed(err) {
			s.model.used = before
		}
	case err != nil: // nothing was to be written
		s.Fatalf("settling %+v with %d: %v", call, cost, err)
	}
}

// edit moves calls of some days to another counter, and lowers that of a key.
func (s *simulator) edit() {
	account := s.account()
	holders := []string{account, ledger.Holder(account, "~"), ledger.Holder(account, "k1")}
	most := rapid.Int64Range(1, 4).Draw(s.T, "moved")
	change := func(used []int64) {
		n := min(most, used[0])
		used[0], used[1], used[2] = used[0]-n, used[1]+n, max(0, used[2]-n)
	}
	counter := s.counter(account)
	var edits []ledger.Edit
	for _, day := range []calendar.Day{counter.Day - 1, counter.Day} {
		counter.Day = day
		if s.model.used[counter] > 0 { // else it changes nothing
			edits = append(edits, ledger.Edit{Endpoint: counter.Endpoint, Day: day, Holders: holders, Change: change})
		}
	}
	if len(edits) == 0 || s.failed(edit(s.l, edits...)) {
		return
	}
	for _, e := range edits {
		counters, used := make([]store.Call, len(holders)), make([]int64, len(holders))
		for i, holder := range holders {
			counters[i] = store.Call{Account: holder, Endpoint: e.Endpoint, Day: e.Day}
			used[i] = s.model.used[counters[i]]
		}
		change(used)
		for i := range used {
			s.model.used[counters[i]] = used[i]
		}
	}
}

func (s *simulator) putAccount() {
	account, disabled := s.account(), rapid.Bool().Draw(s.T, "disabled")
	plan := rapid.SampledFrom(slices.Sorted(maps.Keys(limits))).Draw(s.T, "plan")
	if !s.write("account "+account, fmt.Sprintf("%s %v", plan, disabled)) {
		return
	}
	s.l.PutAccount(&store.Account{ID: account, Plan: plan, Disabled: disabled})
	delete(s.model.removed, account)
	if s.model.accounts[account] = plan; disabled {
		s.model.accounts[account] = ""
	}
}

func (s *simulator) removeAccount() {
	account := s.account()
	for _, id := range slices.Sorted(maps.Keys(s.model.tokens)) {
		if s.model.tokens[id].Account == account && !s.end(id) {
			return
		}
	}
	if s.write("account "+account, "") {
		s.l.RemoveAccount(account)
		delete(s.model.accounts, account)
		s.model.removed[account] = true
		s.model.deleted[account]++
	}
}

func (s *simulator) putToken() {
	t := ledger.Token{Hash: token.Hash{s.token()}, Account: s.account(), Abilities: "convert"}
	t.ID = fmt.Sprintf("key_%d", t.Hash[0])
	if hours := rapid.IntRange(0, 40).Draw(s.T, "ttl"); hours > 0 {
		t.ExpiresAt = s.now.Add(time.Duration(hours) * time.Hour)
	}
	if s.write(fmt.Sprintf("token %d", t.Hash[0]), fmt.Sprintf("%s %d", t.Account, t.ExpiresAt.UnixNano())) {
		s.l.PutToken(&t)
		s.model.tokens[t.Hash[0]] = t
	}
}

func (s *simulator) revoke() { s.end(s.token()) }

func (s *simulator) end(id byte) bool {
	if !s.write(fmt.Sprintf("token %d", id), "") {
		return false
	}
	ended := s.model.tokens[id]
	ended.Hash, ended.Revoked, ended.ExpiresAt = token.Hash{id}, rapid.Bool().Draw(s.T, "known"), s.now.Add(time.Hour)
	s.l.EndToken(&ended)
	delete(s.model.tokens, id)
	return true
}

func (s *simulator) moveClock() {
	s.now = s.now.Add(time.Duration(rapid.IntRange(-30, 30).Draw(s.T, "hours")) * time.Hour)
}

// letGo frees memory. No answer may change by it.
func (s *simulator) letGo() {
	s.l.RetainDays(func(d calendar.Day) bool { return d == s.today() })
}

// reload forgets everything but the log.
func (s *simulator) reload() {
	s.l.Close()
	if _, err := s.l.Grant(&token.Hash{}, s.now); !errors.Is(err, store.ErrClosed) {
		s.Fatalf("grant after closing: got %v", err)
	}
	s.l = ledger.New(s.log)
	clear(s.model.removed) // without a row, an id is new
	clear(s.model.deleted)
	s.held = nil
	clear(s.model.buckets)
	for key, value := range s.rows {
		kind, id, _ := strings.Cut(key, " ")
		first, second, _ := strings.Cut(value, " ")
		if kind == "account" {
			s.l.PutAccount(&store.Account{ID: id, Plan: first, Disabled: second == "true"})
			continue
		}
		var hash byte
		var nanos int64
		fmt.Sscan(id, &hash)
		fmt.Sscan(second, &nanos)
		t := ledger.Token{Hash: token.Hash{hash}, Account: first, ID: "key_" + id, Abilities: "convert"}
		if want := s.model.tokens[hash]; !want.ExpiresAt.IsZero() {
			t.ExpiresAt = time.Unix(0, nanos)
		}
		s.l.PutToken(&t)
	}
}

// check compares every count, in memory and in the log.
func (s *simulator) check() {
	s.checkCounts()
	for call, want := range s.model.used {
		var gone error
		if s.model.removed[call.Account] {
			gone = store.ErrNoGrant
		}
		if used, _, err := takeOne(s.l, call, 0); err == nil && used != want || !errors.Is(err, gone) {
			s.Fatalf("%v: got %d, %v, want %d, %v", call, used, err, want, gone)
		}
		if got := s.log.count(call); got != want {
			s.Fatalf("%v: the log has %d, want %d", call, got, want)
		}
	}
}

// checkCounts compares what an account is told of its days in memory.
func (s *simulator) checkCounts() {
	for _, day := range s.l.Days() {
		for _, account := range []string{"a", "b", "ab"} {
			want := map[string]int64{}
			for call, used := range s.model.used {
				if call.Account == account && call.Day == day && used > 0 {
					want[call.Endpoint] = used
				}
			}
			got := map[string]int64{}
			loaded := s.l.Counts(day, []string{account}, func(_ int, c store.Count) { got[c.Endpoint] = c.Used })
			if !loaded || !maps.Equal(got, want) {
				s.Fatalf("counts of %s on %v: got %v, loaded %v, want %v", account, day, got, loaded, want)
			}
		}
	}
}
