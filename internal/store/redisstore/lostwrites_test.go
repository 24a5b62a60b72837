package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// books is a fleet whose server loses writes: its counts become what they were
// before, as after a failover.
type books struct {
	*fleet
	server *redistest.Server
	// keys are the counts of the account, of its key, what is credited, the
	// number of calls, and the totals.
	keys  []string
	saved []any // nil for counts that did not exist
}

func newBooks(t *testing.T) *books {
	server := redistest.Start(t)
	b := &books{fleet: newFleet(t, redisstore.Options{URL: server.URL()}), server: server}
	counts := "tollgate:{" + account + "}:u:" + strings.ReplaceAll(b.day.String()[:7], "-", "")
	totals := "tollgate:{" + account + "}:u:999912"
	b.keys = []string{counts, counts + ":key_" + account, counts + ":~credited", counts + ":~calls", totals, totals + ":key_" + account, totals + ":~calls"}
	return b
}

// save remembers the counts for lose.
func (b *books) save() {
	b.Helper()
	b.saved = nil
	for _, key := range b.keys {
		b.saved = append(b.saved, do(b, b.server, "DUMP", key))
	}
}

// lose undoes all counts since save.
func (b *books) lose() {
	b.Helper()
	for i, key := range b.keys {
		do(b, b.server, "DEL", key)
		if b.saved[i] != nil {
			do(b, b.server, "RESTORE", key, "0", b.saved[i].(string))
		}
	}
}

// keyCall returns a call that counts for the key as well.
func (b *books) keyCall() store.Call {
	call := b.call()
	call.Key = "key_" + account
	return call
}

// bothDaily are limits of the account and of the key.
func bothDaily(most int64) []store.Limit {
	return append(daily(most), store.Limit{Endpoint: "convert", Period: store.Day, Max: most, OfKey: true})
}

// takes makes calls through a store and returns how many were admitted.
func (b *books) takes(gate, calls int, limits []store.Limit) (admitted int) {
	b.Helper()
	for range calls {
		if b.take(gate, b.keyCall(), limits) {
			admitted++
		}
	}
	return admitted
}

// TestLostWrites: the stores continue from the highest count that they have seen,
// and a store that refuses a call tells the server, so that others refuse too.
func TestLostWrites(t *testing.T) {
	t.Parallel()
	const most, kept, lost, unseen = 300, 100, 100, 7
	b := newBooks(t)
	takes := func(gates, calls int) {
		for i := range calls {
			b.takes(i%gates, 1, daily(most))
		}
	}
	takes(3, kept)
	b.save()
	takes(2, lost)
	b.takes(2, unseen, daily(most))
	check(t, b.gates[2].Close())
	b.lose()
	p := &fleet{TB: t, gates: b.gates[:2], hash: b.hash, handle: b.handle, day: b.day}
	calls := p.start(b.call(), daily(most))
	calls.finish(10 * most)
	total := kept + lost + unseen + calls.served()
	if over := total - most; over < unseen || over > unseen+2 {
		t.Errorf("%d calls above the limit, want the %d that no live store has seen, and at most 2 that one of them has not", over, unseen)
	}
	b.save()
	b.gates[2] = openStore(t, redisstore.Options{URL: b.server.URL()})
	do(t, b.server, "DEL", b.keys[0])
	for gate := range b.gates {
		if b.takes(gate, 1, daily(most)) != 0 {
			t.Errorf("store %d admitted a call above the limit", gate)
		}
	}
}

// TestLostKinds: what is lost of the totals and of the number of calls comes back,
// beside the counts of the day. What was given back does not.
func TestLostKinds(t *testing.T) {
	t.Parallel()
	const most, kept = 20, 5
	for i, limit := range allKinds(most) {
		if limit.Period.IsPace() || limit.Soft {
			continue // no store remembers buckets, and a soft limit is like others
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			b, rooms := newBooks(t), make([]store.Room, 1)
			limits := []store.Limit{limit}
			b.takes(1, kept, limits)
			b.save()
			b.takes(0, most-kept, limits)
			b.lose()
			for gate := range b.gates {
				for _, limits := range [][]store.Limit{limits, daily(most), bothDaily(most)[1:]} {
					if b.takes(gate, 1, limits) > 0 {
						t.Errorf("store %d admits a call above the limit %+v", gate, limits)
					}
				}
			}
			check(t, b.gates[1].Settle(t.Context(), b.keyCall(), limits, rooms, 0, true))
			if admitted := b.takes(2, 2, limits) + b.takes(0, 2, limits) + b.takes(1, 2, limits); admitted != 1 {
				t.Errorf("admitted %d calls after the refund of one", admitted)
			}
		})
	}
}

// TestRefundAfterLostWrites: a store that refunds a call on a server that lost
// writes continues from what it has seen.
func TestRefundAfterLostWrites(t *testing.T) {
	t.Parallel()
	const most = 40
	for _, test := range []struct {
		name    string
		kept    int  // calls that the server does not lose
		refunds bool // whether calls were refunded before
	}{{"Some", 10, false}, {"SomeAfterRefund", 10, true}, {"All", 0, false}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			taken := b.takes(0, test.kept, bothDaily(most))
			if test.refunds {
				check(t, b.gates[0].Settle(t.Context(), b.keyCall(), nil, nil, 0, false))
				taken--
			}
			b.save()
			b.takes(0, most-taken, bothDaily(most))
			b.lose()
			check(t, b.gates[0].Settle(t.Context(), b.keyCall(), nil, nil, 0, false))
			if got := b.used(1, b.keyCall()); got != most-1 {
				t.Errorf("counted %d calls after the refund, want %d", got, most-1)
			}
			for _, limits := range [][]store.Limit{daily(most), bothDaily(most)[1:]} {
				admitted := b.takes(1, 2, limits) + b.takes(0, 2, limits) + b.takes(2, 2, limits)
				if admitted > 1 {
					t.Errorf("admitted %d calls after the refund of one", admitted)
				}
			}
		})
	}
}

// TestLostRefund: a store whose refund was lost continues from what it has seen
// after the refund.
func TestLostRefund(t *testing.T) {
	t.Parallel()
	const most = 40
	for _, earlier := range []bool{false, true} {
		b := newBooks(t)
		b.takes(0, 10, bothDaily(most))
		used := 10
		if earlier { // the counts that come back have a generation
			check(t, b.gates[0].Settle(t.Context(), b.keyCall(), nil, nil, 0, false))
			used--
		}
		b.save()
		used += b.takes(0, 20, bothDaily(most))
		check(t, b.gates[0].Settle(t.Context(), b.keyCall(), nil, nil, 0, false))
		used--
		b.lose()
		if got := used + b.takes(0, 2*most, bothDaily(most)); got != most {
			t.Errorf("counted %d calls without the refunded ones, want %d", got, most)
		}
		if b.takes(1, 1, bothDaily(most)) != 0 {
			t.Error("another store admits calls above the limit")
		}
	}
}

// TestRefundsStayAfterLostWrites: a store that brings back counts after refunds
// brings back their generation, so that what another store has seen before does
// not undo the refunds.
func TestRefundsStayAfterLostWrites(t *testing.T) {
	t.Parallel()
	const calls, refunds = 10, 5
	b := newBooks(t)
	b.save()
	b.takes(1, calls, bothDaily(100))
	for range refunds {
		check(t, b.gates[0].Settle(t.Context(), b.keyCall(), nil, nil, 0, false))
	}
	b.lose()
	b.takes(0, 1, bothDaily(100))
	if got, want := b.used(1, b.keyCall()), int64(calls-refunds+1); got != want {
		t.Errorf("counted %d calls, want %d", got, want)
	}
}

// TestResetAfterLostWrites: a reset of all sets all counters of the day to zero
// on a server that lost writes, and what another store has seen before does not
// come back.
func TestResetAfterLostWrites(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	rates := b.call()
	rates.Endpoint = "rates"
	b.save()
	for range 10 {
		b.take(0, b.call(), daily(100))
		b.take(0, rates, nil)
	}
	b.lose()
	// It brings back the sums of all endpoints, but not the calls of rates.
	b.take(0, b.call(), daily(100))
	check(t, b.gates[1].ResetCounts(t.Context(), account, "", b.day))
	for _, field := range []string{"convert", "rates", "*"} {
		if got := do(t, b.server, "HGET", b.keys[0], field); got != nil && got != "0" {
			t.Errorf("after a reset of all, the sum %q is %v", field, got)
		}
	}
	for gate := range b.gates {
		b.take(gate, b.call(), daily(100))
		if got := b.used(gate, b.call()); got != int64(gate+1) {
			t.Errorf("store %d: %d calls after a reset, want %d", gate, got, gate+1)
		}
	}
}

// TestResetOfLost: a reset on a server that lost all counts gives nothing back,
// and the counts come back.
func TestResetOfLost(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.save()
	b.takes(0, 10, bothDaily(100))
	b.lose()
	check(t, b.gates[1].ResetCounts(t.Context(), account, "convert", b.day))
	b.take(0, b.call(), daily(100))
	b.wantBill(11, 0)
}

// TestCreditStays: what stores have seen before a credit does not come back. A
// repetition changes nothing.
func TestCreditStays(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.takes(0, 10, bothDaily(100))
	b.takes(2, 10, daily(100))
	for range 2 {
		b.credit("credit_1", 4)
	}
	for gate := range b.gates {
		b.takes(gate, 1, bothDaily(100))
		if got, want := b.used(gate, b.keyCall()), int64(20-4+gate+1); got != want {
			t.Errorf("store %d: %d calls after a credit, want %d", gate, got, want)
		}
	}
	b.wantBill(23, 4)
}

// TestCreditOfMore: a credit of more calls than a key has made lowers the sums of
// the key by its own calls only.
func TestCreditOfMore(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.takes(0, 2, nil)
	for range 3 {
		b.take(0, b.call(), nil)
	}
	rates := b.keyCall()
	rates.Endpoint = "rates"
	b.take(0, rates, nil)
	b.credit("", 4)
	for i, want := range []map[string]string{{"convert": "1", "rates": "1", "*": "2"}, {"convert": "0", "rates": "1", "*": "1"}} {
		for field, want := range want {
			if got := do(t, b.server, "HGET", b.keys[i], field); got != want {
				t.Errorf("%s has %v calls of %s, want %s", b.keys[i], got, field, want)
			}
		}
	}
}

// TestLostCredit: a credit whose counts were lost is made once by a repetition.
func TestLostCredit(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.takes(0, 10, bothDaily(100))
	b.save()
	b.credit("credit_1", 4)
	b.lose()
	b.takes(0, 1, bothDaily(100))
	b.wantBill(11, 0)
	for range 2 {
		b.credit("credit_1", 4)
	}
	b.wantBill(11, 4)
	b.takes(0, 1, bothDaily(100))
	b.wantBill(12, 4)
	if got := b.used(2, b.keyCall()); got != 8 {
		t.Errorf("%d calls of the key after the credit, want 8", got)
	}
}

// credit gives calls of today back.
func (b *books) credit(id string, calls int64) {
	b.Helper()
	of := []book.Credit{{Day: b.day, Endpoint: "convert", Calls: calls}}
	_, err := b.gates[1].Store.Credit(b.Context(), b.admin.now(), account, id, of, func(*book.Account, []book.Credit) {})
	check(b, err)
}

func (b *books) wantBill(calls, credited int64) {
	b.Helper()
	got, _, err := b.gates[1].Bills(b.Context(), "", 10, b.day, b.day)
	check(b, err)
	if len(got) != 1 || got[0].Calls != calls || got[0].Credited != credited {
		b.Errorf("got the bills %+v, want one of %d calls and a credit of %d", got, calls, credited)
	}
}

// TestRefundOfKeyOnly: a refund that finds a call in the counts of the key only
// does not mix up the account and the key.
func TestRefundOfKeyOnly(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.takes(0, 5, bothDaily(100))
	do(t, b.server, "DEL", b.keys[0])
	check(t, b.gates[1].Settle(t.Context(), b.keyCall(), nil, nil, 0, false))
	b.takes(1, 1, bothDaily(100))
	for i, want := range []any{"1", "5", nil} {
		if got := do(t, b.server, "HGET", b.keys[i], "convert"); got != want {
			t.Errorf("%s counts %v calls, want %v", b.keys[i], got, want)
		}
	}
}
