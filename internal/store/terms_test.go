package store_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestBillingChanges: with any changes of the billing day, the months that are in
// force on the days, one after the other, tile: each begins on a billing day, by
// what was set on an earlier day, and nowhere else. A change moves neither the
// beginning of what runs, nor its end before the day after.
func TestBillingChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b store.Billing
		day := calendar.Day(rapid.Int32Range(1000, 40_000).Draw(t, "day"))
		began, of := b.Month(day).First, 1
		for range rapid.IntRange(1, 150).Draw(t, "days") {
			got := b.Month(day)
			if got.First != began || got.Last < day {
				t.Fatalf("%+v on %s: got %+v, want it from %s", b, day, got, began)
			}
			for other := got.First; other <= got.Last; other++ {
				if b.Month(other) != got {
					t.Fatalf("%+v: %s is in %+v, and %s in %+v", b, day, got, other, b.Month(other))
				}
			}
			for range rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2}).Draw(t, "changes") {
				of = rapid.OneOf(rapid.IntRange(1, 31), rapid.IntRange(27, 31), rapid.Just((day+1).UTC().Day())).Draw(t, "billing day")
				b = b.Change(of, day)
			}
			if day++; storetest.Begins(of, day) {
				began = day
			}
			if want := b.Month(day - 1).Last; (want == day-1) != (began == day) {
				t.Fatalf("%+v: what runs on %s ends on %s", b, day-1, want)
			}
		}
	})
}

// TestPrepaid compares a total with units that are each of the plan or of a top-up.
func TestPrepaid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p store.Prepaid
		var units storetest.Units
		now, counter, plan := time.Unix(1e9, 0), int64(0), rapid.Int64Range(0, 30)
		number := plan.Draw(t, "plan")
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.Int64Range(0, 12).Draw(t, "calls")
			switch rapid.SampledFrom([]string{"use", "use", "give back", "top up", "wait", "plan", "nothing happens"}).Draw(t, "step") {
			case "use": // also above the limit, as a call that told a greater cost
				counter += n
				units.Use(n)
			case "give back":
				n = min(n, counter)
				counter -= n
				units.GiveBack(n)
			case "top up":
				var end time.Time
				if days := rapid.IntRange(0, 5).Draw(t, "days"); days > 0 {
					end = now.Add(time.Duration(days) * 24 * time.Hour)
				}
				p.Settle(counter, now)
				p.Add(store.TopUp{Calls: n + 1, ExpiresAt: end}, now)
				units.Event(now)
				units.Add(n+1, end)
			case "wait":
				now = now.Add(time.Duration(n) * 12 * time.Hour)
				if terms := (store.Terms{Prepaid: []store.Prepaid{p}}); terms.Lapsed(now) {
					p.Settle(counter, now)
					units.Event(now)
				}
			case "plan":
				number = plan.Draw(t, "other plan")
			default:
				p.Settle(counter, now)
				units.Event(now)
			}
			if got, want := max(0, p.Max(number)-counter), units.Left(number); got != want {
				t.Fatalf("%+v with counter %d and plan %d: got %d left, want %d", p, counter, number, got, want)
			}
		}
	})
}
