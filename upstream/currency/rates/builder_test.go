package rates_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

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

// Before the euro there are no rates, whatever is set and however early the
// day: the first that can be written, none at all, or one before that.
func TestNoRateBeforeTheEuro(t *testing.T) {
	t.Parallel()
	first := civil.New(1999, 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		on := rapid.OneOf(rapid.Int32Range(-20, 40), rapid.Int32Range(-20, int32(first)-1)).Draw(t, "day")
		day := civil.Date(on)
		var b rates.Builder
		b.Set(day, "USD", value(t, "1.1"), rates.SourceECB)
		b.Set(day-1, "USD", value(t, "1.1"), rates.SourceIndicative)
		b.Set(first, "USD", value(t, "1.1789"), rates.SourceECB)
		data := b.Build()
		for _, codes := range [][]currency.Code{nil, {"EUR"}, {"EUR", "USD"}} {
			if got, err := data.At(day, codes...); !errors.Is(err, rates.ErrNoRate) {
				t.Fatalf("%d %v: got %s, %v, want ErrNoRate", on, codes, got.Date(), err)
			}
		}
		for _, group := range []rates.Group{rates.Daily, rates.Weekly, rates.Monthly} {
			r := rates.Range{From: "EUR", To: []currency.Code{"USD"}, Start: day - 29, End: day, Group: group, FillPrevious: true}
			if got := slices.Collect(data.Series(r)); len(got) > 0 {
				t.Fatalf("%d: got %v", on, got)
			}
			// What begins before the euro begins with it.
			r.End = first
			if got := slices.Collect(data.Series(r)); len(got) != 1 || got[0].Date != first || got[0].Filled {
				t.Fatalf("%d: got %v", on, got)
			}
		}
		if listed := data.Listings(); listed[0].First != first || data.Days() != 1 {
			t.Fatalf("got %v", listed)
		}
	})
}

// Of days with the same extreme the first counts. A change can be negative.
func TestSummarize(t *testing.T) {
	t.Parallel()
	var points []rates.Extreme
	for i, text := range []string{"1.5", "2", "1", "2", "1", "1.2"} {
		rate, err := rates.ParseAmount(text)
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, rates.Extreme{Date: date(t, "2026-01-01") + civil.Date(i), Rate: rate})
	}
	s := rates.Summarize(points)
	if s.Start.String() != "1.5" || s.End.String() != "1.2" || s.Change.String() != "-0.3" || s.Percent.String() != "-20" || s.Average.String() != "1.45" {
		t.Errorf("got %+v", s)
	}
	if s.High.Date.String() != "2026-01-02" || s.High.Rate.String() != "2" || s.Low.Date.String() != "2026-01-03" || s.Low.Rate.String() != "1" {
		t.Errorf("got %+v", s)
	}
	if s := rates.Summarize(points[:1]); s.Change.String() != "0" || s.Percent.String() != "0" || s.Average.String() != "1.5" {
		t.Errorf("of one rate: got %+v", s)
	}
}
