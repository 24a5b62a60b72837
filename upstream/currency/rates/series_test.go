package rates_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// lines prints the points of a series.
func lines(t *testing.T, data *rates.Dataset, r rates.Range) []string {
	t.Helper()
	var list []string
	for row := range data.Series(r) {
		line := row.Date.String()
		for _, quote := range row.Rates {
			line += " " + quote.Rate.String()
			if len(r.To) > 1 {
				line += " " + string(quote.Code)
			}
		}
		if row.Filled {
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
				From: "EUR", To: []currency.Code{"USD"}, Start: date(t, test.start), End: date(t, test.end),
				Group: test.group, FillPrevious: test.fill,
			})
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	t.Run("only days with both", func(t *testing.T) {
		t.Parallel()
		got := lines(t, data, rates.Range{From: "GBP", To: []currency.Code{"USD"}, Start: date(t, "2026-04-01"), End: date(t, "2026-04-30")})
		if want := []string{"2026-04-15 1.35294117647"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A row has all currencies that have a rate of its day. One whose last rate of
// a week is of another day has its own row.
func TestSeriesOfMany(t *testing.T) {
	t.Parallel()
	data := build(t,
		"2025-12-29 USD 1.17 ECB", "2025-12-29 BGN 1.9558 ECB", "2025-12-30 BGN 1.9558 ECB",
		"2026-01-02 USD 1.18 ECB", "2026-01-02 KES 150 indicative",
	)
	r := rates.Range{From: "EUR", To: []currency.Code{"USD", "BGN", "KES"}, Start: date(t, "2025-12-29"), End: date(t, "2026-01-04")}
	for _, test := range []struct {
		group rates.Group
		fill  bool
		want  []string
	}{
		{rates.Daily, false, []string{"2025-12-29 1.17 USD 1.9558 BGN", "2025-12-30 1.9558 BGN", "2026-01-02 1.18 USD 150 KES"}},
		{rates.Daily, true, []string{
			"2025-12-29 1.17 USD 1.9558 BGN", "2025-12-30 1.17 USD 1.9558 BGN filled", "2025-12-31 1.17 USD 1.9558 BGN filled",
			"2026-01-01 1.17 USD filled", "2026-01-02 1.18 USD 150 KES", "2026-01-03 1.18 USD 150 KES filled", "2026-01-04 1.18 USD 150 KES filled",
		}},
		{rates.Weekly, false, []string{"2025-12-30 1.9558 BGN", "2026-01-02 1.18 USD 150 KES"}},
		{rates.Monthly, false, []string{"2025-12-29 1.17 USD", "2025-12-30 1.9558 BGN", "2026-01-02 1.18 USD 150 KES"}},
	} {
		r.Group, r.FillPrevious = test.group, test.fill
		if got := lines(t, data, r); !slices.Equal(got, test.want) {
			t.Errorf("group %d, filled %v: got %q, want %q", test.group, test.fill, got, test.want)
		}
	}
	r.To, r.Group, r.FillPrevious = []currency.Code{"EUR"}, rates.Daily, false
	if got, want := lines(t, data.From(rates.SourceIndicative), r), []string{"2026-01-02 1"}; !slices.Equal(got, want) {
		t.Errorf("the euro on days of a source: got %q, want %q", got, want)
	}
	for row := range data.Series(r) { // a reader may stop
		if row.Source != rates.SourceECB {
			t.Errorf("got %+v", row)
		}
		break
	}
}

// Every rate can be had again by asking At for its date; and of a filled
// series by days nothing is missing that At has. The days have random
// holes and both sources, any of which may be left out, and the lev ends on the
// way.
func TestSeriesAgreesWithAt(t *testing.T) {
	t.Parallel()
	start := civil.New(2025, time.December, 1)
	rapid.Check(t, func(t *rapid.T) {
		data := rates.Merge(drawn(t, rates.SourceIndicative, start-30, start+90), drawn(t, rates.SourceECB, start-30, start+90)).
			From(rapid.SampledFrom([]rates.Source{rates.AllSources, rates.SourceECB, rates.SourceIndicative, rates.SourceECB | rates.SourceParity}).Draw(t, "sources"))
		code := rapid.SampledFrom([]currency.Code{"EUR", "USD", "GBP", "BGN", "KES", "BZD"})
		r := rates.Range{
			From: code.Draw(t, "from"), To: rapid.SliceOfNDistinct(code, 1, 3, rapid.ID).Draw(t, "to"),
			Start: start, End: start + civil.Date(rapid.Int32Range(0, 80).Draw(t, "length")),
			Group:        rapid.SampledFrom([]rates.Group{rates.Daily, rates.Weekly, rates.Monthly}).Draw(t, "group"),
			FillPrevious: rapid.Bool().Draw(t, "fill"),
		}
		type point struct {
			code currency.Code
			date civil.Date
		}
		points := make(map[point]bool)
		before := r.Start - 1
		for row := range data.Series(r) {
			if row.Date <= before || row.Date > r.End || len(row.Rates) == 0 {
				t.Fatalf("%d rates of %s after %s, up to %s", len(row.Rates), row.Date, before, r.End)
			}
			before = row.Date
			var source rates.Source
			filled := false
			for _, quote := range row.Rates {
				points[point{quote.Code, row.Date}] = true
				answer, err := data.At(row.Date, r.From, quote.Code)
				if err != nil {
					t.Fatalf("%s: %v", row.Date, err)
				}
				rate, err := answer.Rate(r.From, quote.Code)
				if err != nil || rate.String() != quote.Rate.String() {
					t.Fatalf("%s: got %s, At says %s, %v", row.Date, quote.Rate, rate, err)
				}
				source |= answer.Source(r.From, quote.Code)
				filled = filled || answer.Date() != row.Date
			}
			if row.Filled != filled || filled && !r.FillPrevious || row.Source != source {
				t.Fatalf("%s: filled %v of %s, At says %v of %s", row.Date, row.Filled, row.Source, filled, source)
			}
		}
		for day := r.Start; r.Group == rates.Daily && day <= r.End; day++ {
			for _, to := range r.To {
				answer, err := data.At(day, r.From, to)
				if has := points[point{to, day}]; has != (err == nil && (r.FillPrevious || answer.Date() == day)) {
					t.Fatalf("%s on %s: point %v, At %v", to, day, has, err)
				}
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
