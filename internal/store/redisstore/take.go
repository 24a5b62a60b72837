package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

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
	month  string // 202611
	day    string // 22
	fields [callCounters]string
	// holders have the counters: "" for the account, and the key if the call
	// counts for one.
	holders []string
}

func (s *Store) newTaking(call *store.Call, limits []store.Limit) *taking {
	t := &taking{store: s, call: call, limits: limits, holders: []string{""}}
	t.month, t.day = dateOf(call.Day)
	t.fields = [callCounters]string{t.day + ":" + call.Endpoint, call.Endpoint, t.day + ":*", "*"}
	if call.Key != "" {
		t.holders = append(t.holders, call.Key)
	}
	return t
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

// monthKeys are the account and the counts of the month.
func (t *taking) monthKeys() []string {
	keys := make([]string, 1, 3+len(t.limits))
	keys[0] = t.store.accountKey(t.call.Account)
	for _, holder := range t.holders {
		keys = append(keys, t.store.countsKey(t.call.Account, holder, t.month))
	}
	return keys
}

// request returns the keys and the arguments of takeScript.
func (t *taking) request(cost, until int64) (keys, args []string) {
	keys = t.monthKeys()
	n := newNumbers()
	n.add(until, cost, countsExpire(t.call.Day), int64(len(t.holders)))
	t.addSeen(n)
	for i := range t.limits {
		if l := &t.limits[i]; l.Period.IsPace() {
			keys = append(keys, t.bucketKey(l))
			whole, part := costTime(l, cost)
			n.add(l.Period.Pace().Microseconds(), l.Max, int64(whole), int64(part))
		}
	}
	for i := range t.limits {
		if l := &t.limits[i]; !l.Period.IsPace() {
			n.add(int64(1+t.holderOf(l)), int64(counterOf(l)), l.Max)
		}
	}
	return keys, []string{number(uint64(t.call.Handle)), number(t.call.Version), t.day, t.call.Endpoint, t.call.Except, n.text()}
}

// addSeen adds what was seen of the holders.
func (t *taking) addSeen(n *numbers) {
	for _, holder := range t.holders {
		generation, counts := t.seen(holder).read(uint64(t.call.Handle), t.month, t.day, &t.fields)
		n.add(generation)
		n.add(counts[:]...)
	}
}

// costTime returns the time that a cost takes in a bucket, in microseconds. A
// cost above the limit takes longer than the period, whatever its size.
func costTime(l *store.Limit, cost int64) (whole, part uint64) {
	if cost > l.Max {
		return uint64(l.Period.Pace().Microseconds()) + 1, 0
	}
	return l.CostTime(cost, time.Microsecond)
}

// holderOf returns the number of the holder of a limit.
func (t *taking) holderOf(l *store.Limit) int {
	if l.OfKey {
		return len(t.holders) - 1
	}
	return 0
}

// counterOf returns the number of the counter of a limit in takeScript.
func counterOf(l *store.Limit) int {
	counter := 1
	if l.Period == store.Month {
		counter++
	}
	if l.Endpoint == store.All {
		counter += 2
	}
	return counter
}

func (t *taking) seen(holder string) *seen {
	return t.store.seenOf(seenKey{t.call.Account, holder})
}

// bucketKey returns the key of a bucket. It has the handle of the account, so
// that the next account of that id does not find it.
func (t *taking) bucketKey(l *store.Limit) string {
	covered := t.call.Endpoint
	if l.Endpoint == store.All {
		covered = store.All
	}
	return t.store.prefix + ":{" + t.call.Account + "}:b:" + number(uint64(t.call.Handle)) + ":" +
		t.holders[t.holderOf(l)] + ":" + covered + ":" + l.Period.String()
}

// read reads the counters and the buckets of a reply.
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
		l := &t.limits[i]
		if l.Period.IsPace() {
			debt, part := r.int(), r.int()
			rooms[i] = l.RoomOf(uint64(debt), uint64(part), time.Microsecond)
			continue
		}
		at := t.holderOf(l)*width + counterOf(l) - 1
		used := counters[at]
		if l.Endpoint == store.All && t.call.Except != "" {
			used -= counters[at+2]
		}
		rooms[i] = l.RoomAfter(used)
	}
	return r.err
}

// readCounters reads some counters of each holder, the first ones as seen.
func (t *taking) readCounters(r *reader, width int) []int64 {
	counters := make([]int64, 0, 2*(callCounters+2))
	for _, holder := range t.holders {
		generation := r.int()
		for range width {
			counters = append(counters, r.int())
		}
		if r.err != nil {
			return nil
		}
		t.seen(holder).note(uint64(t.call.Handle), t.month, t.day, generation, &t.fields, [callCounters]int64(counters[len(counters)-width:]))
	}
	return counters
}

// Settle implements store.Counter.
func (s *Store) Settle(ctx context.Context, call store.Call, cost int64) error {
	t := s.newTaking(&call, nil)
	n := newNumbers()
	n.add(cost-call.Weight(), countsExpire(call.Day))
	t.addSeen(n)
	args := []string{number(uint64(call.Handle)), t.day, call.Endpoint, n.text()}
	sent := time.Now()
	reply, err := s.client.runWithin(ctx, settleScript, t.monthKeys(), args)
	if errors.Is(err, errNoReply) {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	if err != nil {
		return err
	}
	r := reader{reply: reply}
	s.client.clock.read(r.int(), sent, time.Now())
	if len(r.reply) > 0 { // the account exists
		t.readCounters(&r, callCounters)
	}
	if r.err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnknown, damaged("reply", r.err))
	}
	return nil
}

// number returns a handle or a version as text, empty for 0: there is none.
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// numbers are an array of MessagePack. A script parses it faster than text.
type numbers struct {
	bytes []byte
	count uint16
}

func newNumbers() *numbers {
	const arrayHead, usual = 3, 9 * 32
	return &numbers{bytes: make([]byte, arrayHead, arrayHead+usual)}
}

func (n *numbers) add(values ...int64) {
	const int64Format = 0xd3
	for _, v := range values {
		n.bytes = binary.BigEndian.AppendUint64(append(n.bytes, int64Format), uint64(v))
		n.count++
	}
}

func (n *numbers) text() string {
	const array16Format = 0xdc
	n.bytes[0] = array16Format
	binary.BigEndian.PutUint16(n.bytes[1:], n.count)
	return string(n.bytes)
}

// reader reads the elements of a reply. After an error, all are zero.
type reader struct {
	reply []rueidis.RedisMessage
	err   error
}

var errShort = errors.New("too short")

func (r *reader) next() (m rueidis.RedisMessage) {
	if r.err == nil && len(r.reply) == 0 {
		r.err = errShort
	}
	if r.err != nil {
		return m
	}
	m, r.reply = r.reply[0], r.reply[1:]
	return m
}

func (r *reader) int() (n int64) {
	if m := r.next(); r.err == nil {
		n, r.err = m.AsInt64()
	}
	return n
}

func (r *reader) text() (text string) {
	if m := r.next(); r.err == nil {
		text, r.err = m.ToString()
	}
	return text
}
