package login

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Against a slice in the order of touch.
func TestTableAgainstModel(t *testing.T) {
	t.Parallel()
	type entry struct {
		key     int
		body    []byte
		expires int64
		rank    rank
	}
	rapid.Check(t, func(t *rapid.T) {
		var real table[int]
		var model []entry
		drop := func(key int) {
			model = slices.DeleteFunc(model, func(e entry) bool { return e.key == key })
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				key := rapid.IntRange(0, 30).Draw(t, "key")
				size := rapid.SampledFrom([]int{0, 1, 8, 9, 24, 100, 3000, 54120}).Draw(t, "size")
				e := entry{
					key: key, body: bytes.Repeat([]byte{byte(key + size)}, size),
					expires: rapid.Int64Range(0, 100).Draw(t, "expires"),
					rank:    rank(rapid.IntRange(0, 1).Draw(t, "rank")),
				}
				real.put(key, e.body, e.expires, e.rank)
				drop(key)
				if size > 0 {
					model = append(model, e)
				}
			},
			"remove": func(t *rapid.T) {
				key := rapid.IntRange(0, 30).Draw(t, "key")
				real.remove(key)
				drop(key)
			},
			"sort": func(*rapid.T) {
				real.sort()
				slices.SortStableFunc(model, func(a, b entry) int { return int(a.expires - b.expires) })
			},
			"evict": func(t *rapid.T) {
				capacity := rapid.IntRange(1, 30).Draw(t, "capacity")
				got := real.trim(-1, capacity)
				var want []int
				for len(model) > capacity {
					var heavies, lights []int
					for _, e := range model {
						if e.rank == heavy {
							heavies = append(heavies, e.key)
						} else {
							lights = append(lights, e.key)
						}
					}
					from := lights
					if len(lights) == 0 || len(heavies) > capacity*3/4 {
						from = heavies
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
				for _, which := range []rank{light, heavy} {
					for range 4 {
						first := slices.IndexFunc(model, func(e entry) bool { return e.rank == which })
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
					body, expires, as := real.copyOf(e.key)
					if !bytes.Equal(body, e.body) || expires != e.expires || as != e.rank || !bytes.Equal(real.get(e.key), body) {
						t.Fatalf("row %d: got %d bytes, %d, %d, want %d bytes, %d, %d",
							e.key, len(body), expires, as, len(e.body), e.expires, e.rank)
					}
				}
			},
		})
	})
}

// The largest rows that limits allow must fit.
func TestLargestRowFits(t *testing.T) {
	t.Parallel()
	largest := max(
		8*maxPerClient,
		failureSize*maxFailures,
		maxKnown*(acquaintanceSize+8*maxFailures),
	)
	if fits := slotSizes[len(slotSizes)-1]; largest > fits {
		t.Errorf("got rows of up to %d bytes, want at most %d", largest, fits)
	}
	extreme := Limits{Free: maxFree, FirstWait: 1e9, MaxWait: maxWait, Forget: maxKeep}
	if got := extreme.memory() + spare; got > maxFailures {
		t.Errorf("got %d failures to remember, want at most %d", got, maxFailures)
	}
}
