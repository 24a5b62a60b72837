package login

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// table agrees with a slice in the order of changes.
func TestTableAgainstModel(t *testing.T) {
	t.Parallel()
	type entry struct {
		id      hash
		body    []byte
		expires int64
		order   evictionOrder
	}
	rapid.Check(t, func(t *rapid.T) {
		var real table
		var model []entry
		drop := func(id hash) {
			model = slices.DeleteFunc(model, func(e entry) bool { return e.id == id })
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				id := hash{byte(rapid.IntRange(0, 30).Draw(t, "id"))}
				size := rapid.SampledFrom([]int{0, 1, 8, 9, 24, 100, 3000, 54120}).Draw(t, "size")
				e := entry{
					id: id, body: bytes.Repeat([]byte{id[0] + byte(size)}, size),
					expires: rapid.Int64Range(0, 100).Draw(t, "expires"),
					order:   evictionOrder(rapid.IntRange(0, 1).Draw(t, "order")),
				}
				real.put(id, e.body, e.expires, e.order)
				drop(id)
				if size > 0 {
					model = append(model, e)
				}
			},
			"remove": func(t *rapid.T) {
				id := hash{byte(rapid.IntRange(0, 30).Draw(t, "id"))}
				real.remove(id)
				drop(id)
			},
			"sort": func(*rapid.T) {
				real.sort()
				slices.SortStableFunc(model, func(a, b entry) int { return int(a.expires - b.expires) })
			},
			"evict": func(t *rapid.T) {
				capacity := rapid.IntRange(1, 30).Draw(t, "capacity")
				got := real.trim(-1, capacity)
				var want []hash
				for len(model) > capacity {
					var firsts, lasts []hash
					for _, e := range model {
						if e.order == evictLast {
							lasts = append(lasts, e.id)
						} else {
							firsts = append(firsts, e.id)
						}
					}
					from := firsts
					if len(firsts) == 0 || len(lasts) > capacity*3/4 {
						from = lasts
					}
					want = append(want, from[0])
					drop(from[0])
				}
				if !slices.Equal(got, want) {
					t.Fatalf("got evicted %v, want %v", got, want)
				}
			},
			"expire": func(t *rapid.T) {
				instant := rapid.Int64Range(0, 100).Draw(t, "instant")
				real.trim(instant, 100)
				for _, which := range []evictionOrder{evictFirst, evictLast} {
					for range 4 {
						first := slices.IndexFunc(model, func(e entry) bool { return e.order == which })
						if first < 0 || model[first].expires > instant {
							break
						}
						model = slices.Delete(model, first, first+1)
					}
				}
			},
			"": func(t *rapid.T) {
				if got, want := len(real.index), len(model); got != want {
					t.Fatalf("got %d rows, want %d", got, want)
				}
				for _, e := range model {
					body, expires, order := real.read(e.id)
					if !bytes.Equal(body, e.body) || expires != e.expires || order != e.order || !bytes.Equal(real.get(e.id), body) {
						t.Fatalf("row %x: got %d bytes, %d, %d, want %d bytes, %d, %d",
							e.id, len(body), expires, order, len(e.body), e.expires, e.order)
					}
				}
			},
		})
	})
}

// The largest rows that limits allow must fit, and a cell has the size that the
// interface states.
func TestLargestRowFits(t *testing.T) {
	t.Parallel()
	client := 8 * maxPerClient * (1 + successesPerAttempt)
	failed, known := failureSize*maxFailures, maxKnown*(knownClientSize+8*maxFailures)
	if largest, fits := max(client, failed, known), slotSizes[len(slotSizes)-1]; largest > fits {
		t.Errorf("got rows of up to %d bytes, want at most %d", largest, fits)
	}
	if largest := 3 + max(client, failed+known); largest > 42<<10 {
		t.Errorf("got cells of up to %d bytes, want at most 42 KiB", largest)
	}
	extreme := Limits{Free: maxFree, FirstWait: 1e9, MaxWait: maxWait, Forget: maxKeep}
	if got := extreme.failuresToMaxWait() + spare; got > maxFailures {
		t.Errorf("got %d failures to remember, want at most %d", got, maxFailures)
	}
}
