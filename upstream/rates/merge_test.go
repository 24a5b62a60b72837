package rates_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

// key names a value.
type key struct {
	day  civil.Date
	code currency.Code
}

// Merging is setting the snapshot's values of the one, then of the other,
// and then the bank's.
func TestMergeAgreesWithModel(t *testing.T) {
	t.Parallel()
	codes := []currency.Code{"AUD", "USD", "CHF", "ZMW", "GBP"}
	rapid.Check(t, func(t *rapid.T) {
		snapshot, bank := make(map[key]rates.Value), make(map[key]rates.Value)
		draw := func(name string, sources ...rates.Source) *rates.Dataset {
			var b rates.Builder
			// A dataset has one value of a day and currency.
			mine := make(map[key]rates.Source)
			for range rapid.IntRange(0, 20).Draw(t, name) {
				k := key{
					civil.New(2026, time.January, rapid.IntRange(1, 40).Draw(t, "day")),
					rapid.SampledFrom(codes).Draw(t, "code"),
				}
				source := rapid.SampledFrom(sources).Draw(t, "source")
				if mine[k] != 0 {
					continue
				}
				mine[k] = source
				v := value(t, rapid.SampledFrom([]string{"1", "2.5", "0.003"}).Draw(t, "value"))
				b.Set(k.day, k.code, v, source)
				if source == rates.SourceECB {
					bank[k] = v
				} else {
					snapshot[k] = v
				}
			}
			return b.Build()
		}
		base := draw("base", rates.SourceSnapshot, rates.SourceECB)
		merged := rates.Merge(base, draw("over", rates.SourceECB, rates.SourceSnapshot))

		var want rates.Builder
		for k, v := range snapshot {
			if _, quoted := bank[k]; !quoted {
				want.Set(k.day, k.code, v, rates.SourceSnapshot)
			}
		}
		for k, v := range bank {
			want.Set(k.day, k.code, v, rates.SourceECB)
		}
		built := want.Build()
		if merged.Version() != built.Version() || !slices.Equal(merged.Listings(), built.Listings()) {
			t.Fatalf("got %v, want %v", merged, built)
		}
		var before civil.Date
		for day := range merged.All() {
			if again, found := merged.On(day.Date()); !found || again != day || day.Date() <= before {
				t.Fatalf("%s is found as %v, %v", day.Date(), again, found)
			}
			before = day.Date()
		}
	})
}

// Values of the bank never displace each other, in whichever order they
// come in.
func TestMergeKeepsLaterDaysOfTheBank(t *testing.T) {
	t.Parallel()
	merged := rates.Merge(build(t, "2026-04-13 USD 1.13 ECB"), build(t, "2026-04-10 USD 1.1 ECB"))
	if want := build(t, "2026-04-10 USD 1.1 ECB", "2026-04-13 USD 1.13 ECB"); merged.Version() != want.Version() {
		t.Errorf("got %d days", merged.Days())
	}
}

// BenchmarkMerge lays the bank's 27 years over the snapshot, which happens
// whenever rates come in.
func BenchmarkMerge(b *testing.B) {
	snapshot, err := rates.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	var codes []currency.Code
	for _, l := range snapshot.Listings() {
		codes = append(codes, l.Code)
	}
	var builder rates.Builder
	for day := civil.New(1999, 1, 4); day <= snapshot.Newest(); day++ {
		if weekday := day.Weekday(); weekday != time.Saturday && weekday != time.Sunday {
			for i := 0; i < len(codes); i += 4 {
				builder.Set(day, codes[i], value(b, "1.2345"), rates.SourceECB)
			}
		}
	}
	bank := builder.Build()
	b.ReportAllocs()
	for b.Loop() {
		rates.Merge(snapshot, bank)
	}
}
