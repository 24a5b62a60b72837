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

// lines prints the points of a series.
func lines(t *testing.T, data *rates.Dataset, r rates.Range) []string {
	t.Helper()
	var list []string
	for _, p := range data.Series(r) {
		line := p.Date.String() + " " + p.Rate.String()
		if p.Filled {
			line += " filled"
		}
		list = append(list, line)
	}
	return list
}

func TestSeries(t *testing.T) {
	t.Parallel()
	// 2026-04-10 is a Friday, 2026-04-13 a Monday.
	data := build(t,
		"2026-03-30 USD 1.30 ECB",
		"2026-04-09 USD 1.09 ECB", "2026-04-10 USD 1.10 ECB",
		"2026-04-13 USD 1.13 ECB", "2026-04-15 USD 1.15 ECB",
		"2026-04-15 GBP 0.85 ECB",
		"2026-06-01 USD 1.60 ECB",
	)
	tests := []struct {
		name       string
		start, end string
		group      rates.Group
		fill       bool
		want       []string
	}{
		{"days", "2026-04-10", "2026-04-15", rates.Daily, false,
			[]string{"2026-04-10 1.1", "2026-04-13 1.13", "2026-04-15 1.15"}},
		{"from a Saturday", "2026-04-11", "2026-04-12", rates.Daily, false, nil},
		{"from a Saturday, filled", "2026-04-11", "2026-04-14", rates.Daily, true,
			[]string{"2026-04-11 1.1 filled", "2026-04-12 1.1 filled", "2026-04-13 1.13", "2026-04-14 1.13 filled"}},
		{"filled for 14 days only", "2026-04-28", "2026-05-31", rates.Daily, true,
			[]string{"2026-04-28 1.15 filled", "2026-04-29 1.15 filled"}},
		{"nothing before the first rate", "2026-03-28", "2026-03-31", rates.Daily, true,
			[]string{"2026-03-30 1.3", "2026-03-31 1.3 filled"}},
		{"weeks", "2026-04-06", "2026-04-19", rates.Weekly, false,
			[]string{"2026-04-10 1.1", "2026-04-15 1.15"}},
		{"weeks, cut", "2026-04-10", "2026-04-13", rates.Weekly, false,
			[]string{"2026-04-10 1.1", "2026-04-13 1.13"}},
		{"weeks, filled", "2026-04-13", "2026-05-03", rates.Weekly, true,
			[]string{"2026-04-15 1.15", "2026-04-26 1.15 filled"}},
		{"months", "2026-03-01", "2026-06-30", rates.Monthly, false,
			[]string{"2026-03-30 1.3", "2026-04-15 1.15", "2026-06-01 1.6"}},
		{"one day", "2026-04-10", "2026-04-10", rates.Daily, false, []string{"2026-04-10 1.1"}},
		{"backwards", "2026-04-10", "2026-04-09", rates.Daily, true, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := lines(t, data, rates.Range{
				From: "EUR", To: "USD", Start: date(t, test.start), End: date(t, test.end),
				Group: test.group, FillPrevious: test.fill,
			})
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	t.Run("only days with both", func(t *testing.T) {
		t.Parallel()
		got := lines(t, data, rates.Range{From: "GBP", To: "USD", Start: date(t, "2026-04-01"), End: date(t, "2026-04-30")})
		if want := []string{"2026-04-15 1.35294117647"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Every point can be had again by asking At for its date; and of a filled
// series by days nothing is missing that At has. The days have random
// holes and both sources, and the lev ends on the way.
func TestSeriesAgreesWithAt(t *testing.T) {
	t.Parallel()
	start := civil.New(2025, time.December, 1)
	rapid.Check(t, func(t *rapid.T) {
		data := rates.Merge(drawn(t, rates.SourceSnapshot, start-30, start+90), drawn(t, rates.SourceECB, start-30, start+90))
		code := rapid.SampledFrom([]currency.Code{"EUR", "USD", "GBP", "BGN", "KES"})
		r := rates.Range{
			From: code.Draw(t, "from"), To: code.Draw(t, "to"),
			Start: start, End: start + civil.Date(rapid.Int32Range(0, 80).Draw(t, "length")),
			Group:        rapid.SampledFrom([]rates.Group{rates.Daily, rates.Weekly, rates.Monthly}).Draw(t, "group"),
			FillPrevious: rapid.Bool().Draw(t, "fill"),
		}
		points := make(map[civil.Date]rates.Point)
		before := r.Start - 1
		for _, p := range data.Series(r) {
			if p.Date <= before || p.Date > r.End {
				t.Fatalf("%s after %s, up to %s", p.Date, before, r.End)
			}
			before, points[p.Date] = p.Date, p
			answer, err := data.At(p.Date, r.From, r.To)
			if err != nil {
				t.Fatalf("%s: %v", p.Date, err)
			}
			rate, err := answer.Rate(r.From, r.To)
			if err != nil || rate.String() != p.Rate.String() || answer.Source(r.From, r.To) != p.Source {
				t.Fatalf("%s: got %s of %s, At says %s of %s, %v", p.Date, p.Rate, p.Source, rate, answer.Source(r.From, r.To), err)
			}
			if p.Filled != (answer.Date() != p.Date) || p.Filled && !r.FillPrevious {
				t.Fatalf("%s: filled %v, At gives %s", p.Date, p.Filled, answer.Date())
			}
		}
		for day := r.Start; r.Group == rates.Daily && day <= r.End; day++ {
			answer, err := data.At(day, r.From, r.To)
			if _, has := points[day]; has != (err == nil && (r.FillPrevious || answer.Date() == day)) {
				t.Fatalf("%s: point %v, At %v", day, has, err)
			}
		}
	})
}

// drawn is a dataset of one source with random holes.
func drawn(t *rapid.T, source rates.Source, from, to civil.Date) *rates.Dataset {
	var b rates.Builder
	codes := []currency.Code{"USD", "GBP", "BGN", "KES"}
	for day := from; day <= to; day++ {
		// Long pauses, and days on which few are quoted.
		if !rapid.Bool().Draw(t, "quoted") {
			day += civil.Date(rapid.Int32Range(0, 20).Draw(t, "pause"))
		}
		for _, code := range codes {
			if rapid.IntRange(0, 3).Draw(t, "which") > 0 {
				b.Set(day, code, value(t, rapid.SampledFrom([]string{"1.5", "0.7", "3"}).Draw(t, "value")), source)
			}
		}
	}
	return b.Build()
}
