package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// costing returns a call of the key.
func (b *books) costing(cost int64) store.Call {
	call := b.keyCall()
	call.Cost = cost
	return call
}

// admit makes a call that must be admitted, through a store.
func (b *books) admit(gate int, cost int64) store.Call {
	b.Helper()
	call := b.costing(cost)
	if !b.take(gate, call, nil) {
		b.Fatal("a call without limits was refused")
	}
	return call
}

func (b *books) settle(gate int, call store.Call, cost int64) {
	b.Helper()
	check(b, b.gates[gate].Settle(b.Context(), call, nil, nil, cost, false))
}

// wantUsed checks what each store counts, and that the next call meets it.
func (b *books) wantUsed(want int64) {
	b.Helper()
	for gate := range b.gates {
		if got := b.used(gate, b.keyCall()); got != want {
			b.Errorf("store %d: counted %d, want %d", gate, got, want)
		}
		if b.take(gate, b.keyCall(), bothDaily(want)) {
			b.Errorf("store %d admits a call above the limit", gate)
		}
	}
}

// TestSettleAfterLostWrites: a store that settles a call on a server that lost
// writes continues from what it has seen.
func TestSettleAfterLostWrites(t *testing.T) {
	t.Parallel()
	for _, lowered := range []bool{false, true} { // the counts that come back have a generation
		for _, kept := range []bool{false, true} {
			for _, cost := range []int64{0, 4, 10, 25} {
				t.Run(fmt.Sprintf("%t,%t,%d", lowered, kept, cost), func(t *testing.T) {
					t.Parallel()
					b := newBooks(t)
					b.save()
					first, second := b.admit(0, 10), b.admit(1, 10)
					want := int64(10 + 10)
					if lowered {
						b.settle(1, second, 5)
						want -= 5
					}
					if kept {
						b.save()
					}
					b.admit(0, 7)
					b.lose()
					b.settle(0, first, cost)
					b.admit(0, 1) // settling to the same writes nothing
					b.wantUsed(want + 7 + cost - 10 + 1)
				})
			}
		}
	}
}

// TestLostSettlement: a store continues from a settlement that was lost. If it
// was for less, the counts from before it stay.
func TestLostSettlement(t *testing.T) {
	t.Parallel()
	for cost, want := range map[int64]int64{25: 35, 4: 20} {
		b := newBooks(t)
		call := b.admit(0, 10)
		b.admit(1, 10)
		b.save()
		b.settle(0, call, cost)
		b.lose()
		b.admit(0, 1)
		b.wantUsed(want + 1)
	}
}

// TestMoreAfterLostWrites: a store that settles a call for more on a server that
// lost writes brings back the generation of a settlement for less, so that what
// another store has seen before does not come back. It makes none of its own, so
// that what others have seen since does.
func TestMoreAfterLostWrites(t *testing.T) {
	t.Parallel()
	for _, lowered := range []bool{true, false} {
		b := newBooks(t)
		b.save()
		first, second := b.admit(1, 10), b.admit(1, 10)
		want := int64(2 + 15)
		if lowered {
			b.settle(0, first, 2)
		} else {
			want = 10 + 10 + 10 // store 2 has seen more than store 0 counts
			b.settle(0, first, 10)
			b.admit(2, 10)
		}
		b.lose()
		b.settle(0, second, 15)
		b.admit(2, 1)
		b.admit(1, 1)
		b.wantUsed(want + 2)
	}
}

// TestLostWritesAfterMidnight: a call of the day before that is settled does not
// make a store forget what it has seen of today.
func TestLostWritesAfterMidnight(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	yesterday := b.costing(10)
	yesterday.Day--
	if !b.take(0, yesterday, nil) {
		t.Fatal("a call without limits was refused")
	}
	b.save()
	b.takes(0, 9, bothDaily(9))
	b.settle(0, yesterday, 3)
	b.lose()
	for gate := range b.gates {
		if b.takes(gate, 1, bothDaily(9)) > 0 {
			t.Errorf("store %d admits a call that was admitted before", gate)
		}
	}
}

// TestSettledFields: a settlement writes the sums of the day and the month, of the
// endpoint and of all, with their expiry if the server has lost them.
func TestSettledFields(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	day := b.day.String()[8:]
	_, last := b.day.Month()
	expires := (last + 1 + store.CountsFor).UTC().Unix()
	call := b.admit(0, 10)
	other := b.costing(2)
	other.Endpoint = "rates"
	b.take(0, other, nil)
	for _, test := range []struct {
		gate     int
		lost     bool
		cost     int64
		own, all string
	}{
		{0, false, 4, "4", "6"},
		{0, false, 25, "19", "21"},
		{0, true, 25, "34", "36"}, // it has seen them
		{1, true, 25, "15", "15"}, // it has seen nothing
	} {
		if test.lost {
			do(t, b.server, "DEL", b.keys[0], b.keys[1])
		}
		b.settle(test.gate, call, test.cost)
		for _, key := range b.keys[:2] {
			for field, want := range map[string]string{day + ":convert": test.own, "convert": test.own, day + ":*": test.all, "*": test.all} {
				if got := do(t, b.server, "HGET", key, field); got != want {
					t.Errorf("settled with %d: %s of %s is %v, want %s", test.cost, field, key, got, want)
				}
			}
			if got := do(t, b.server, "EXPIRETIME", key); got != expires {
				t.Errorf("settled with %d: %s expires at %v, want %d", test.cost, key, got, expires)
			}
		}
	}
}

// TestGreatCosts: counts are exact up to 2^53. A greater one stays there, above
// each limit.
func TestGreatCosts(t *testing.T) {
	t.Parallel()
	const most = 1 << 53
	b := newBooks(t)
	want := func(want int64) {
		t.Helper()
		for gate := range b.gates {
			rooms := make([]store.Room, 2)
			check(t, b.gates[gate].Rooms(t.Context(), b.keyCall(), []store.Limit{{Endpoint: "convert", Period: store.Day, Max: math.MaxInt64}, {Endpoint: store.All, Period: store.Month, Max: 1e15}}, rooms))
			if got := math.MaxInt64 - rooms[0].Remaining; got != want || rooms[1].Remaining != 0 {
				t.Errorf("store %d: counted %d and %d are left, want %d and none", gate, got, rooms[1].Remaining, want)
			}
		}
	}
	b.settle(0, b.admit(0, 1), 1e15)
	want(1e15)
	b.settle(1, b.admit(1, 3), most-1e15-4)
	want(most - 4)
	b.settle(2, b.admit(2, 1), 3)
	want(most - 1)
	for range 3 {
		b.settle(0, b.admit(0, 1), math.MaxInt64)
		want(most)
	}
	b.settle(1, b.costing(1e9), 0)
	want(most - 1e9)
}

// TestSettleWithoutReply: a settlement whose reply is lost may have happened, and
// the store says so. One that a server which is gone did not get has not.
func TestSettleWithoutReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "appendonly yes", "appendfsync always")
	proxy := redistest.StartProxy(t, server.Addr())
	b := &books{fleet: newFleet(t, redisstore.Options{URL: "redis://" + proxy.Addr()}), server: server}
	call := b.admit(0, 10)
	// unknown tells whether a settlement may have happened. It did not succeed.
	unknown := func(gate int, cost int64) bool {
		t.Helper()
		err := b.gates[gate].Settle(t.Context(), call, nil, nil, cost, false)
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("store %d: got %v, want %v", gate, err, store.ErrUnavailable)
		}
		return errors.Is(err, store.ErrUnknown)
	}
	b.settle(0, b.admit(0, 1), 0) // loads the script
	for _, cost := range []int64{25, 10, 2} {
		await(t, "a settlement that has happened and has no reply", func() bool {
			b.used(0, call) // it is connected
			proxy.CutReplies(1)
			lost := unknown(0, cost)
			check(t, proxy.Resume())
			got := b.used(1, call)
			if got != call.Cost && (got != cost || !lost) {
				t.Fatalf("without a reply: counted %d, want %d, or %d as before; it may have happened: %t", got, cost, call.Cost, lost)
			}
			return got == cost
		})
		call.Cost = cost
	}
	check(t, server.Kill())
	for gate := range b.gates {
		await(t, "a settlement that has not happened", func() bool { return !unknown(gate, 7) })
	}
	check(t, server.Restart())
	if got := b.used(1, call); got != call.Cost {
		t.Errorf("without a server: counted %d, want %d as before", got, call.Cost)
	}
}

// TestSettleWithDamagedReply: a settlement whose reply cannot be read may have
// happened.
func TestSettleWithDamagedReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	b := &books{fleet: newFleet(t, redisstore.Options{URL: "redis://" + proxy.Addr()}), server: server}
	call := b.admit(0, 10)
	proxy.Edit(func(reply []byte) {
		if at := bytes.Index(reply, []byte(":25\r\n")); at >= 0 { // a counter
			copy(reply[at:], "+2x")
		}
	})
	if err := b.gates[0].Settle(t.Context(), call, nil, nil, 25, false); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, store.ErrUnknown)
	}
	proxy.Edit(nil)
	if got := b.used(1, call); got != 25 {
		t.Errorf("counted %d, want 25", got)
	}
}
