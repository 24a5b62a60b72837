package rates_test

import (
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

// Merging two datasets is setting the values of the one, then of the other.
func TestMergeAgreesWithBuilder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		model := make(map[key]rates.Value)
		var all rates.Builder
		half := func(source rates.Source, name string) *rates.Dataset {
			var own rates.Builder
			for range rapid.IntRange(0, 12).Draw(t, name) {
				k := key{
					civil.New(2026, time.January, rapid.IntRange(1, 5).Draw(t, "day")),
					rapid.SampledFrom([]currency.Code{"AUD", "USD", "CHF", "ZMW", "GBP"}).Draw(t, "code"),
				}
				v := value(t, rapid.SampledFrom([]string{"1", "2.5", "0.003"}).Draw(t, "value"))
				own.Set(k.day, k.code, v, source)
				all.Set(k.day, k.code, v, source)
				model[k] = v
			}
			return own.Build()
		}
		base := half(rates.SourceSnapshot, "base")
		merged := rates.Merge(base, half(rates.SourceECB, "over"))
		if built := all.Build(); merged.Version() != built.Version() {
			t.Fatalf("got %v, want %v", merged, built)
		}
		var before civil.Date
		for day := range merged.All() {
			if again, found := merged.On(day.Date()); !found || again != day || day.Date() <= before {
				t.Fatalf("%s is found as %v, %v", day.Date(), again, found)
			}
			before = day.Date()
			for code, v := range day.Values() {
				if got, found := day.Value(code); !found || got != v || v.Cmp(model[key{day.Date(), code}]) != 0 {
					t.Fatalf("%s on %s: got %s, want %s", code, day.Date(), v, model[key{day.Date(), code}])
				}
				delete(model, key{day.Date(), code})
			}
		}
		if len(model) > 0 {
			t.Fatalf("lost: %v", model)
		}
	})
}

func TestBuilderIgnoresTheEuro(t *testing.T) {
	t.Parallel()
	data := build(t, "2026-04-13 EUR 2 ECB", "2026-04-13 USD 1.5 ECB")
	rate, err := newest(t, data).Rate("USD", "EUR")
	if err != nil || rate.String() != "0.666666666667" {
		t.Errorf("got %s, %v", rate, err)
	}
	if _, found := data.On(civil.New(2026, 4, 12)); found {
		t.Error("a day without rates is found")
	}
}
