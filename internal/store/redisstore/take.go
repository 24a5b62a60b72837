package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// The results of takeScript.
const (
	admitted = iota
	refused
	changed
	late
	deleted
	other // receipt
)

// errLate says that the server got a call too late to count it.
var errLate = errors.New("the call reached the server too late")

// Take implements store.Counter.
func (s *Store) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	return s.take(ctx, &call, call.Weight(), limits, rooms)
}

// Rooms implements store.Counter.
func (s *Store) Rooms(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	_, err := s.take(ctx, &call, 0, limits, rooms)
	return err
}

// take takes a cost, or looks at the rooms if it is 0.
func (s *Store) take(ctx context.Context, call *store.Call, cost int64, limits []store.Limit, rooms []store.Room) (bool, error) {
	if _, ends := ctx.Deadline(); !ends {
		// A client that goes away changes nothing for the server, and to
		// follow it takes 2 µs.
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	t := s.newTaking(call, limits)
	admitted, err := s.send(ctx, t, cost, rooms)
	if errors.Is(err, errLate) && ctx.Err() == nil {
		// The server has not counted it, and its clock is known now.
		admitted, err = s.send(ctx, t, cost, rooms)
	}
	return admitted, err
}

// send runs takeScript.
func (s *Store) send(ctx context.Context, t *taking, cost int64, rooms []store.Room) (bool, error) {
	keys, args := t.request(cost, s.until(ctx, t.call))
	sent := time.Now()
	reply, err := s.client.run(ctx, takeScript, keys, args)
	if errors.Is(err, errNoReply) && cost > 0 {
		return false, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	if err != nil {
		return false, err
	}
	if cost > 0 {
		s.client.options.Committed(time.Since(sent), 1)
	}
	r := reader{reply: reply}
	result, now := r.int(), r.int()
	if r.err != nil {
		return false, damaged("reply", r.err)
	}
	s.client.clock.read(now, sent, time.Now())
	switch result {
	case changed:
		return false, store.ErrChanged
	case deleted:
		return false, store.ErrNoGrant
	case other:
		return false, store.ErrReceipt
	case late:
		if until := t.call.Until; !until.IsZero() && now >= until.UnixMicro() {
			return false, store.ErrChanged
		}
		return false, unavailable(errLate)
	}
	if err := t.read(&r, rooms); err != nil {
		return false, damaged("reply", err)
	}
	return result == admitted, nil
}

// until returns the server time until which a call may count, in microseconds.
// After the deadline of its context, no client waits for it.
func (s *Store) until(ctx context.Context, call *store.Call) int64 {
	until := call.Until
	if deadline, ok := ctx.Deadline(); ok {
		if deadline = s.client.clock.server(deadline); until.IsZero() || deadline.Before(until) {
			until = deadline
		}
	}
	return until.UnixMicro()
}

// taking has what takeScript and settleScript need of a call.
type taking struct {
	store  *Store
	call   *store.Call
	limits []store.Limit
	// groups are where the call counts, apart from its overage.
	groups []group
	soft   bool // a limit is
}

// group is a hash with counters that a call adds to.
type group struct {
	store.Place
	month, day string // 202611, 22
	fields     [callCounters]string
}

func (s *Store) newTaking(call *store.Call, limits []store.Limit) *taking {
	t := &taking{store: s, call: call, limits: limits}
	places := store.PlacesOf(call, limits)
	for _, p := range places.All() {
		if p.Counts == store.OfOverage {
			t.soft = true
			continue
		}
		g := group{Place: p}
		g.month, g.day = dateOf(p.Day)
		g.fields = [callCounters]string{g.day + ":" + call.Endpoint, call.Endpoint, g.day + ":*", "*"}
		t.groups = append(t.groups, g)
	}
	return t
}

func (g *group) isTotal() bool { return g.Day == store.TotalDay }

// key is the hash of a group in a month.
func (t *taking) key(g *group, month string) string {
	return t.store.countsKey(t.call.Account, g.Key, month)
}

// dateOf returns the month and the day of the month of a day.
func dateOf(day calendar.Day) (month, ofMonth string) {
	text := day.String() // 2026-11-22
	return text[:4] + text[5:7], text[8:]
}

func monthOf(day calendar.Day) string {
	month, _ := dateOf(day)
	return month
}

// groupKeys are the account and the hashes of the groups.
func (t *taking) groupKeys() []string {
	keys := make([]string, 1, 3+len(t.limits))
	keys[0] = t.store.accountKey(t.call.Account)
	for i := range t.groups {
		keys = append(keys, t.key(&t.groups[i], t.groups[i].month))
	}
	return keys
}

// overageKey is the hash of the overage.
func (t *taking) overageKey() string {
	return t.store.countsKey(t.call.Account, store.OverageKey, monthOf(t.call.Day))
}

// request returns the keys and the arguments of takeScript.
func (t *taking) request(cost, until int64) (keys, args []string) {
	keys = t.groupKeys()
	n := newNumbers()
	paces := 0
	for i := range t.limits {
		if t.limits[i].Period.IsPace() {
			paces++
		}
	}
	n.add(until, cost, countsExpire(t.call.Day), int64(len(t.groups)), int64(paces))
	t.addGroups(n, store.Amounts{cost, store.Requests(t.limits)})
	for i := range t.limits {
		if l := &t.limits[i]; l.Period.IsPace() {
			keys = append(keys, t.bucketKey(l))
			whole, part := costTime(l, l.Weight(cost))
			n.add(l.Period.Pace().Microseconds(), l.Max, int64(whole), int64(part))
		}
	}
	for i := range t.limits {
		if l := &t.limits[i]; !l.Period.IsPace() {
			keys = t.addQuota(n, keys, l)
		}
	}
	_, day := dateOf(t.call.Day)
	args = []string{number(uint64(t.call.Handle)), number(t.call.Version), day, t.call.Endpoint, t.call.Except, n.text()}
	keys, args = t.addReceipt(keys, args, cost)
	if t.soft {
		keys = append(keys, t.overageKey())
	}
	return keys, args
}

// addReceipt adds the receipt of a call that has a cost.
func (t *taking) addReceipt(keys, args []string, cost int64) ([]string, []string) {
	r := t.call.Receipt
	if r == nil || cost == 0 {
		return keys, args
	}
	keys = append(keys, t.store.receiptKey(t.call.Account, r.Name))
	left := max(1, r.Expires.Sub(t.store.Now()).Milliseconds())
	return keys, append(args, decimal(int64(len(keys))), string(r.Old), string(r.New), decimal(left))
}

// receiptKey is the key of a receipt. Scripts put the handle of the account before its
// value, so that the next account of that id does not have it.
func (s *Store) receiptKey(account, name string) string {
	return s.prefix + ":{" + account + "}:p:" + name
}

// Receipt implements store.Counter.
func (s *Store) Receipt(ctx context.Context, call store.Call, name string) ([]byte, error) {
	reply, err := s.client.runWithin(ctx, receiptScript, []string{s.accountKey(call.Account), s.receiptKey(call.Account, name)}, nil)
	if err != nil || len(reply) == 0 {
		return nil, err
	}
	value, err := reply[0].ToString()
	if err != nil {
		return nil, damaged("receipt", err)
	}
	return []byte(value), nil
}

// addGroups adds the groups, what the call adds to each, and what was seen of it.
func (t *taking) addGroups(n *numbers, amounts store.Amounts) {
	for i := range t.groups {
		g := &t.groups[i]
		total := int64(0)
		if g.isTotal() {
			total = 1
		}
		generation, counts := t.seen(g).read(uint64(t.call.Handle), g.month, g.day, &g.fields)
		n.add(total, amounts[g.Counts], generation)
		n.add(counts[:]...)
	}
}

// addQuota adds a quota. It returns the keys with those of other months.
func (t *taking) addQuota(n *numbers, keys []string, l *store.Limit) []string {
	group, counter := t.groupOf(l), t.counterOf(l)
	isSum := counter > callCounters
	if !isSum && !l.Soft {
		n.add(int64(1+group), int64(counter), l.Max)
		return keys
	}
	included := int64(-1)
	if l.Soft {
		included = l.Included
	}
	n.add(int64(1+group), int64(10+counter), l.Max, included)
	if !isSum {
		n.add(0)
		return keys
	}
	days := t.call.Window(l)
	days.Last = min(days.Last, t.call.Day+2) // there are no later calls
	months := monthsOf(days.First, days.Last)
	n.add(int64(len(months)))
	for _, first := range months {
		_, last := first.Month()
		key, without := int64(2+group), int64(0)
		if first == firstOf(t.call.Day) {
			without = int64(t.call.Day-first) + 1
		} else {
			keys = append(keys, t.key(&t.groups[group], monthOf(first)))
			key = int64(len(keys))
		}
		n.add(key, int64(max(first, days.First)-first)+1, int64(min(last, days.Last)-first)+1, without)
	}
	return keys
}

// costTime returns the time that a cost takes in a bucket, in microseconds. A
// cost above the limit takes longer than the period, whatever its size.
func costTime(l *store.Limit, cost int64) (whole, part uint64) {
	if cost > l.Max {
		return uint64(l.Period.Pace().Microseconds()) + 1, 0
	}
	return l.CostTime(cost, time.Microsecond)
}

// groupOf returns the number of the group of a quota.
func (t *taking) groupOf(l *store.Limit) int {
	key := t.call.KeyOf(l)
	for i := range t.groups {
		if g := &t.groups[i]; g.Key == key && g.isTotal() == (l.Period == store.Total) {
			return i
		}
	}
	return 0
}

// counterOf returns the number of the counter of a quota in takeScript.
func (t *taking) counterOf(l *store.Limit) int {
	counter := 1
	switch l.Period {
	case store.Week, store.Month:
		counter = 5
		if first, last := t.call.Day.Month(); t.call.Window(l) == (calendar.Window{First: first, Last: last}) {
			counter = 2
		}
	}
	switch {
	case l.Endpoint != store.All:
		return counter
	case counter > callCounters:
		return counter + 1
	}
	return counter + 2
}

func (t *taking) seen(g *group) *seen {
	return t.store.seenOf(seenKey{t.call.Account, g.Key, g.isTotal()})
}

// bucketKey returns the key of a bucket. It has the handle of the account, so
// that the next account of that id does not find it.
func (t *taking) bucketKey(l *store.Limit) string {
	covered := t.call.Endpoint
	if l.Endpoint == store.All {
		covered = store.All
	}
	return t.store.prefix + ":{" + t.call.Account + "}:b:" + number(uint64(t.call.Handle)) + ":" +
		t.call.KeyOf(l) + ":" + covered + ":" + l.Period.String()
}

// read reads the counters, the buckets and the sums of a reply.
func (t *taking) read(r *reader, rooms []store.Room) error {
	width := callCounters
	if t.call.Except != "" {
		width += 2
	}
	counters := t.readCounters(r, width)
	if r.err != nil {
		return r.err
	}
	for i := range t.limits {
		if l := &t.limits[i]; l.Period.IsPace() {
			debt, part, busy := r.int(), r.int(), r.int()
			rooms[i] = l.RoomOf(uint64(debt), uint64(part), time.Microsecond)
			rooms[i].Busy = time.Duration(busy)
		}
	}
	for i := range t.limits {
		l := &t.limits[i]
		if l.Period.IsPace() {
			continue
		}
		group, counter := t.groupOf(l), t.counterOf(l)
		at := group*width + counter - 1
		switch {
		case counter > callCounters:
			rooms[i] = l.RoomAfter(r.int())
		case l.Endpoint == store.All && t.call.Except != "":
			rooms[i] = l.RoomAfter(counters[at] - counters[at+2])
		default:
			rooms[i] = l.RoomAfter(counters[at])
		}
	}
	return r.err
}

// readCounters reads some counters of each group, the first ones as seen.
func (t *taking) readCounters(r *reader, width int) []int64 {
	counters := make([]int64, 0, 2*(callCounters+2))
	for i := range t.groups {
		g, generation := &t.groups[i], r.int()
		for range width {
			counters = append(counters, r.int())
		}
		if r.err != nil {
			return nil
		}
		t.seen(g).note(uint64(t.call.Handle), g.month, g.day, generation, &g.fields, [callCounters]int64(counters[len(counters)-width:]))
	}
	return counters
}
