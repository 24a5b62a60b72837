package store_test

import (
	"cmp"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

var paces = []store.Period{store.Second, store.Minute, store.Hour}

// model is a bucket with exact numbers. A new Max rounds the level of a
// bucket by less than a nanosecond, so the model has bounds, which are equal
// as long as Max is the same.
type model struct {
	low, high *big.Rat // when the bucket is full; nil if it always was
}

func nanos(d time.Duration) *big.Rat { return new(big.Rat).SetInt64(int64(d)) }

// debt returns the time until a bucket is full.
func debt(full *big.Rat, now time.Duration) *big.Rat {
	if full == nil || full.Cmp(nanos(now)) < 0 {
		return new(big.Rat)
	}
	return new(big.Rat).Sub(full, nanos(now))
}

// round returns the number rounded down, or up.
func round(r *big.Rat, up bool) int64 {
	quotient, rest := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if up && rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient.Int64()
}

// room returns what a bucket admits that is full then.
func room(full *big.Rat, limit store.Limit, now time.Duration) store.Room {
	left := debt(full, now)
	room := store.Room{Full: time.Duration(round(left, true))}
	share := new(big.Rat).Sub(nanos(limit.Period.Pace()), left)
	if share.Sign() > 0 {
		share.Mul(share, new(big.Rat).SetFrac64(limit.Max, int64(limit.Period.Pace())))
		room.Remaining = round(share, false)
	}
	return room
}

func (m *model) take(limit store.Limit, now time.Duration, cost int64) {
	more := new(big.Rat).SetFrac64(cost, limit.Max)
	more.Mul(more, nanos(limit.Period.Pace()))
	add := func(full *big.Rat) *big.Rat {
		sum := debt(full, now)
		return sum.Add(sum, nanos(now)).Add(sum, more)
	}
	m.low, m.high = add(m.low), add(m.high)
}

// widen allows for a new Max.
func (m *model) widen() {
	if m.low != nil {
		m.low, m.high = new(big.Rat).Sub(m.low, nanos(1)), new(big.Rat).Add(m.high, nanos(1))
	}
}

// TestBucketModel compares a bucket with exact numbers, for any order of
// arrivals, costs and changes of Max.
func TestBucketModel(t *testing.T) {
	t.Parallel()
	sizes := rapid.OneOf(rapid.Int64Range(1, 12), rapid.Int64Range(1, 1e15), rapid.Just(store.Unlimited))
	rapid.Check(t, func(t *rapid.T) {
		limit := store.Limit{Period: rapid.SampledFrom(paces).Draw(t, "period"), Max: sizes.Draw(t, "max")}
		now := time.Duration(rapid.Int64Range(int64(100*time.Hour), 1e18).Draw(t, "start"))
		var bucket store.Bucket
		var m model
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			period := int64(limit.Period.Pace())
			step := rapid.OneOf(rapid.Int64Range(-period/10, 2*period), rapid.Int64Range(-3, 3), rapid.Just(period/limit.Max), rapid.Just(period/limit.Max+1))
			now += time.Duration(step.Draw(t, "step"))
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				limit.Max = sizes.Draw(t, "new max")
				m.widen()
			}
			got, least, most := bucket.Room(limit, now), room(m.high, limit, now), room(m.low, limit, now)
			if got.Remaining < least.Remaining || got.Remaining > most.Remaining || got.Full < most.Full || got.Full > least.Full {
				t.Fatalf("room of %d a %s: got %+v, want %+v to %+v", limit.Max, limit.Period, got, least, most)
			}
			if got.Full > 0 && bucket.IsFull(now) {
				t.Fatalf("the bucket says that it is full, and that it is full after %s", got.Full)
			}
			cost := rapid.OneOf(rapid.Int64Range(1, min(limit.Max, 12)), rapid.Int64Range(1, limit.Max), rapid.Just(max(1, got.Remaining))).Draw(t, "cost")
			if got.Remaining < cost {
				checkWait(t, bucket, limit, now, cost)
				continue
			}
			bucket.Take(limit, now, cost)
			m.take(limit, now, cost)
		}
	})
}

// checkWait checks that a client that waits is admitted, and that it does
// not wait for more than the two roundings too long.
func checkWait(t *rapid.T, bucket store.Bucket, limit store.Limit, now time.Duration, cost int64) {
	wait := limit.Wait(bucket.Room(limit, now), cost)
	if wait <= 0 {
		t.Fatalf("a refused cost of %d has to wait %s", cost, wait)
	}
	if got := bucket.Room(limit, now+wait); got.Remaining < cost {
		t.Fatalf("after %s: got room %+v, want it for %d", wait, got, cost)
	}
	if early := bucket.Room(limit, now+wait-3); wait >= 3 && early.Remaining >= cost {
		t.Fatalf("%s is too long for a cost of %d", wait, cost)
	}
}

// TestBucketWindows: a million random arrivals, some of them out of order,
// never get more in any window than the capacity and what is refilled in it.
func TestBucketWindows(t *testing.T) {
	t.Parallel()
	type taken struct {
		at   time.Duration
		cost int64
	}
	for i, limit := range []store.Limit{
		{Period: store.Second, Max: 3}, {Period: store.Second, Max: 7}, {Period: store.Minute, Max: 60},
		{Period: store.Minute, Max: 1_000}, {Period: store.Hour, Max: 11},
	} {
		arrivals := 1_000_000
		if i > 0 {
			arrivals = 50_000
		}
		for _, shuffled := range []bool{false, true} {
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			period := limit.Period.Pace()
			mean := int64(period) / limit.Max
			var bucket store.Bucket
			var list []taken
			now := period
			for range arrivals {
				now += time.Duration(float64(mean) * random.ExpFloat64() / 2)
				at := now
				if shuffled {
					at -= time.Duration(random.Int64N(int64(period)))
				}
				cost := min(limit.Max, 1+random.Int64N(3))
				if bucket.Room(limit, at).Remaining >= cost {
					bucket.Take(limit, at, cost)
					list = append(list, taken{at, cost})
				}
			}
			slices.SortStableFunc(list, func(a, b taken) int { return cmp.Compare(a.at, b.at) })
			// most is the largest excess over the refill of all windows that end
			// now. Its unit is a call divided by the nanoseconds of the period.
			most, before := int64(0), list[0].at
			for _, call := range list {
				most = max(0, most-limit.Max*int64(call.at-before)) + call.cost*int64(period)
				before = call.at
				if most > limit.Max*int64(period) {
					t.Fatalf("%+v, seed %d: a window that ends at %s has %d calls too many", limit, seed, call.at, most/int64(period)-limit.Max)
				}
			}
			if len(list) < arrivals/100 {
				t.Errorf("%+v, seed %d: only %d calls were admitted", limit, seed, len(list))
			}
		}
	}
}

// TestBucketSettled: in any order of calls and settlements, a bucket admits what is
// left of its capacity and the refill since it was last full, if the calls since then
// cost what they are settled with. Calls before that give nothing back.
func TestBucketSettled(t *testing.T) {
	t.Parallel()
	type taken struct {
		cost int64
		busy time.Duration
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := store.Limit{Period: rapid.SampledFrom(paces).Draw(t, "period"), Max: rapid.OneOf(rapid.Int64Range(1, 30), rapid.Int64Range(1, 1e12)).Draw(t, "max")}
		period := int64(limit.Period.Pace())
		var bucket store.Bucket
		var held []taken
		var since, sum int64 // since when it is not full, and what was taken since
		now := 100 * time.Hour
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, period/4), rapid.Int64Range(0, 2*period)).Draw(t, "wait"))
			room := bucket.Room(limit, now)
			if bucket.IsFull(now) { // not yet at the very instant of Full: the time since still counts
				sum = 0
			}
			if cost := rapid.Int64Range(1, limit.Max).Draw(t, "cost"); rapid.Bool().Draw(t, "take") && room.Remaining >= cost {
				if bucket.IsFull(now) {
					since = int64(now)
				}
				bucket.Take(limit, now, cost)
				sum += cost
				held = append(held, taken{cost, bucket.Room(limit, now).Busy})
			} else if n := len(held); n > 0 {
				i := rapid.IntRange(0, n-1).Draw(t, "which")
				call := held[i]
				held = slices.Delete(held, i, i+1)
				to := rapid.Int64Range(0, 2*call.cost).Draw(t, "settled")
				if to > call.cost { // it takes what the bucket has
					to = min(to, call.cost+room.Remaining)
				}
				if to > call.cost && bucket.IsFull(now) {
					since = int64(now)
				}
				if bucket.Settle(limit, now, call.busy, call.cost, to); to > call.cost || !bucket.IsFull(now) && call.busy == time.Duration(since) {
					sum += to - call.cost
				}
			}
			if bucket.IsFull(now) {
				continue
			}
			refill := nanos(now - time.Duration(since))
			refill.Mul(refill, new(big.Rat).SetFrac64(limit.Max, period))
			most := refill.Add(refill, nanos(time.Duration(limit.Max)))
			left := round(most.Sub(most, nanos(time.Duration(sum))), false)
			if got := bucket.Room(limit, now).Remaining; got != left {
				t.Fatalf("%d a %s, %d taken since %d ns: %d are left, want %d", limit.Max, limit.Period, sum, int64(now)-since, got, left)
			}
		}
	})
}

// TestBucketAtOnce: a full bucket admits its whole capacity at once, and
// nothing more.
func TestBucketAtOnce(t *testing.T) {
	t.Parallel()
	for _, period := range paces {
		for _, most := range []int64{1, 2, 3, 7, 11, 997, 1 << 20} {
			limit := store.Limit{Period: period, Max: most}
			var bucket store.Bucket
			now := 5 * time.Hour
			for i := range most {
				if got := bucket.Room(limit, now).Remaining; got != most-i {
					t.Fatalf("%+v: got %d left after %d, want %d", limit, got, i, most-i)
				}
				bucket.Take(limit, now, 1)
			}
			if got, want := bucket.Room(limit, now), (store.Room{Full: period.Pace(), Busy: now}); got != want {
				t.Errorf("%+v: got %+v, want %+v", limit, got, want)
			}
			if got, want := bucket.Room(limit, now+period.Pace()), (store.Room{Remaining: most, Busy: now}); got != want {
				t.Errorf("%+v, a period later: got %+v, want %+v", limit, got, want)
			}
		}
	}
}
