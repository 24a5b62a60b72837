package redisstore

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// level is a bucket with exact numbers: the instant at which it is full, in
// microseconds, and part/Max of another one.
type level struct{ full, part *big.Int }

func newLevel() *level { return &level{new(big.Int), new(big.Int)} }

// at returns the level at an instant, for a Max.
func (l *level) at(now, most int64) *level {
	full, part := new(big.Int).Set(l.full), new(big.Int).Set(l.part)
	if part.Cmp(big.NewInt(most)) >= 0 { // of a greater Max before
		full.Add(full, big.NewInt(1))
		part.SetInt64(0)
	}
	if full.Cmp(big.NewInt(now)) < 0 {
		full.SetInt64(now)
		part.SetInt64(0)
	}
	return &level{full, part}
}

// plus returns the level after a cost: cost × period / Max later.
func (l *level) plus(cost, period, most int64) *level {
	parts := new(big.Int).Mul(big.NewInt(cost), big.NewInt(period))
	whole, part := parts.DivMod(parts, big.NewInt(most), new(big.Int))
	whole.Add(whole, l.full)
	part.Add(part, l.part)
	if part.Cmp(big.NewInt(most)) >= 0 {
		part.Sub(part, big.NewInt(most))
		whole.Add(whole, big.NewInt(1))
	}
	return &level{whole, part}
}

// fits tells whether a level is at most a period after an instant.
func (l *level) fits(now, period int64) bool {
	order := l.full.Cmp(big.NewInt(now + period))
	return order < 0 || order == 0 && l.part.Sign() == 0
}

// stored returns the level as takeScript stores it: without the head of an array.
func (l *level) stored() string {
	n := newNumbers()
	n.add(l.full.Int64(), l.part.Int64(), 0)
	return n.text()[3:]
}

// paceReply is what takeScript replies about one pace.
type paceReply struct{ result, now, debt, part, busy int64 }

// takePace takes a cost from one pace.
func takePace(t *testing.T, s *Store, call store.Call, limit store.Limit, cost int64) paceReply {
	t.Helper()
	keys, args := s.newTaking(&call, []store.Limit{limit}).request(cost, 0)
	reply, err := s.client.run(t.Context(), takeScript, keys, args)
	if err != nil {
		t.Fatal(err)
	}
	r := reader{reply: reply}
	got := paceReply{result: r.int(), now: r.int()}
	r.int() // generation
	for range callCounters {
		r.int()
	}
	got.debt, got.part, got.busy = r.int(), r.int(), r.int()
	if r.err != nil || len(r.reply) > 0 {
		t.Fatalf("%v, %d elements left", r.err, len(r.reply))
	}
	return got
}

// openBuckets opens a store with an account.
func openBuckets(t *testing.T) (*Store, store.Call) {
	t.Helper()
	s := openInside(t, redistest.Start(t))
	must(t, s.change(t.Context(), time.Now(), "acc_1", NextPlan(s)))
	return s, store.Call{Account: "acc_1", Endpoint: "convert", Day: 20_000}
}

// TestBucketExact compares the buckets of takeScript with exact numbers, for
// random limits, costs and changes of Max. As long as Max is the same, they are
// also equal to store.Bucket.
func TestBucketExact(t *testing.T) {
	t.Parallel()
	s, call := openBuckets(t)
	steps := 2000
	if storetest.Long() {
		steps = 40_000
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	size := func() int64 {
		return 1 + random.Int64N([]int64{1, 12, 1000, 1e6, 1e9, 1e15}[random.IntN(6)])
	}
	periods := []store.Period{store.Second, store.Minute, store.Hour}
	limits, models, buckets := [3]store.Limit{}, [3]*level{}, [3]*store.Bucket{}
	for i, period := range periods {
		limits[i] = store.Limit{Endpoint: "convert", Period: period, Max: size()}
		models[i], buckets[i] = newLevel(), &store.Bucket{}
	}
	admittedCalls, refusedCalls := 0, 0
	for step := range steps {
		n := random.IntN(len(periods))
		limit, period := &limits[n], limits[n].Period.Pace().Microseconds()
		if random.IntN(20) == 0 {
			limit.Max = size()
			buckets[n] = nil // it rounds a level of another Max differently
		}
		if random.IntN(50) == 0 { // a new bucket
			limit.Endpoint = []string{"convert", store.All}[random.IntN(2)]
			call.Endpoint = "e" + decimal(int64(step))
			limit.Endpoint = call.Endpoint
			models[n], buckets[n] = newLevel(), &store.Bucket{}
		}
		call.Endpoint = limit.Endpoint
		cost := 1 + random.Int64N([]int64{1, limit.Max, min(limit.Max, 1+limit.Max/10)}[random.IntN(3)])
		got := takePace(t, s, call, *limit, cost)

		before := models[n].at(got.now, limit.Max)
		after := before.plus(cost, period, limit.Max)
		result, want := int64(admitted), after
		if !after.fits(got.now, period) {
			result, want = refused, before
			refusedCalls++
		} else {
			models[n] = after
			admittedCalls++
		}
		debt := new(big.Int).Sub(want.full, big.NewInt(got.now)).Int64()
		if got.result != result || got.debt != debt || got.part != want.part.Int64() {
			t.Fatalf("seed %d, step %d, %+v, cost %d: got %+v, want result %d, debt %d, part %v", seed, step, *limit, cost, got, result, debt, want.part)
		}
		if buckets[n] != nil {
			compareBucket(t, buckets[n], *limit, got, cost)
		}
	}
	t.Logf("%d calls admitted, %d refused", admittedCalls, refusedCalls)
	if admittedCalls < steps/20 || refusedCalls < steps/20 {
		t.Errorf("seed %d: %d calls admitted, %d refused: the test decides too little", seed, admittedCalls, refusedCalls)
	}
}

// compareBucket does the same with a store.Bucket and compares the rooms.
func compareBucket(t *testing.T, bucket *store.Bucket, limit store.Limit, got paceReply, cost int64) {
	t.Helper()
	now := time.Duration(got.now) * time.Microsecond
	if fits := bucket.Room(limit, now).Remaining >= cost; fits != (got.result == admitted) {
		t.Fatalf("%+v, cost %d: got %+v, store.Bucket admits: %v", limit, cost, got, fits)
	}
	if got.result == admitted {
		bucket.Take(limit, now, cost)
	}
	room, want := limit.RoomOf(uint64(got.debt), uint64(got.part), time.Microsecond), bucket.Room(limit, now)
	if room.Remaining != want.Remaining || room.Full < want.Full || room.Full >= want.Full+time.Microsecond {
		t.Fatalf("%+v, cost %d: got %+v, which is %+v, want %+v", limit, cost, got, room, want)
	}
}

// TestBucketSettled compares the buckets of settleScript with store.Bucket, for
// random costs, while the buckets become full and are taken from again.
func TestBucketSettled(t *testing.T) {
	t.Parallel()
	s, call := openBuckets(t)
	steps := 3000
	if storetest.Long() {
		steps = 40_000
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	type taken struct{ cost, busy int64 }
	var limit store.Limit
	var bucket *store.Bucket
	var held []taken
	kinds := map[string]int{}
	for step := range steps {
		if step%30 == 0 { // another bucket
			period := []store.Period{store.Second, store.Minute, store.Hour}[random.IntN(3)]
			call.Endpoint = "e" + decimal(int64(step))
			limit = store.Limit{Endpoint: call.Endpoint, Period: period, Max: 1 + random.Int64N([]int64{9, 1e4, 1e9, 1e14}[random.IntN(4)])}
			bucket, held = &store.Bucket{}, nil
		}
		// Some costs are refilled before the next step.
		soon := max(1, limit.Max/(limit.Period.Pace().Microseconds()/300))
		call.Cost = 1 + random.Int64N([]int64{soon, soon, 2 * soon, 4 * soon, limit.Max}[random.IntN(5)])
		if len(held) == 0 || random.IntN(2) == 0 {
			got := takePace(t, s, call, limit, call.Cost)
			if got.result == admitted {
				bucket.Take(limit, time.Duration(got.now)*time.Microsecond, call.Cost)
				held = append(held, taken{call.Cost, got.busy})
			}
		} else {
			i := random.IntN(len(held))
			to, one := call.Cost-1, held[i]
			held = append(held[:i], held[i+1:]...)
			call.Cost = one.cost
			keys, args := s.newTaking(&call, []store.Limit{limit}).settlement([]store.Room{{Busy: time.Duration(one.busy)}}, to, false)
			reply, err := s.client.run(t.Context(), settleScript, keys, args)
			must(t, err)
			now, err := reply[0].AsInt64()
			must(t, err)
			before := *bucket
			bucket.Settle(limit, time.Duration(now)*time.Microsecond, time.Duration(one.busy)*time.Microsecond, one.cost, to)
			switch {
			case to > one.cost:
				kinds["more"]++
			case *bucket == before:
				kinds["none back"]++
			case bucket.Full < time.Duration(now)*time.Microsecond:
				kinds["full"]++
			default:
				kinds["back"]++
			}
		}
		got := takePace(t, s, call, limit, 0)
		now := time.Duration(got.now) * time.Microsecond
		want := bucket.Room(limit, now)
		if room := limit.RoomOf(uint64(got.debt), uint64(got.part), time.Microsecond); room.Remaining != want.Remaining || room.Full < want.Full || room.Full >= want.Full+time.Microsecond {
			t.Fatalf("seed %d, step %d, %+v: got %+v, which is %+v, want %+v", seed, step, limit, got, room, want)
		}
		if busy := time.Duration(got.busy) * time.Microsecond; !bucket.IsFull(now) && busy != bucket.Busy {
			t.Fatalf("seed %d, step %d: busy since %v, want %v", seed, step, busy, bucket.Busy)
		}
	}
	t.Log(kinds)
	if len(kinds) < 4 {
		t.Errorf("seed %d: %v: the test decides too little", seed, kinds)
	}
}

// TestBucketBoundary: a cost that ends a part of a microsecond after the period
// is refused, and one that ends with it is admitted.
func TestBucketBoundary(t *testing.T) {
	t.Parallel()
	s, call := openBuckets(t)
	const most, period = 3, int64(time.Second / time.Microsecond)
	limit := store.Limit{Endpoint: "convert", Period: store.Second, Max: most}
	key := s.newTaking(&call, nil).bucketKey(&limit)
	hits := [2]int{}
	ahead := int64(0) // of the bucket, so that it is full when the next call comes
	for range 100_000 {
		part := rand.Int64N(2)
		model := &level{big.NewInt(s.Now().UnixMicro() + ahead), big.NewInt(part)}
		_, err := s.client.do(t.Context(), func(l *link) rueidis.RedisResult {
			return l.Do(t.Context(), l.B().Set().Key(key).Value(model.stored()).Build())
		})
		if err != nil {
			t.Fatal(err)
		}
		got := takePace(t, s, call, limit, most)
		if fits := model.at(got.now, most).plus(most, period, most).fits(got.now, period); fits != (got.result == admitted) {
			t.Fatalf("full %d us after the call and part %d: got %+v, want admitted: %v", model.full.Int64()-got.now, part, got, fits)
		}
		miss := model.full.Int64() - got.now
		if miss == 0 {
			hits[part]++
		}
		if hits[0] > 0 && hits[1] > 0 {
			return
		}
		ahead -= miss / 2
	}
	t.Logf("no call came exactly when the bucket was full: %v", hits)
}
