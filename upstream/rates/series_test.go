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

// A series says what At says, day by day, over random holes.
func TestSeriesAgreesWithAt(t *testing.T) {
	t.Parallel()
	start := civil.New(2026, time.January, 1)
	rapid.Check(t, func(t *rapid.T) {
		var b rates.Builder
		for _, offset := range rapid.SliceOfDistinct(rapid.Int32Range(-30, 90), rapid.ID).Draw(t, "days") {
			b.Set(start+civil.Date(offset), "USD", value(t, "1.5"), rates.SourceECB)
			if offset%3 == 0 {
				b.Set(start+civil.Date(offset), "GBP", value(t, "0.75"), rates.SourceECB)
			}
		}
		data := b.Build()
		end := start + civil.Date(rapid.Int32Range(0, 60).Draw(t, "length"))
		pair := []currency.Code{"GBP", "USD"}
		points := data.Series(rates.Range{From: "GBP", To: "USD", Start: start, End: end, FillPrevious: true})
		for day := start; day <= end; day++ {
			answer, err := data.At(day, pair...)
			has := len(points) > 0 && points[0].Date == day
			if has != (err == nil) {
				t.Fatalf("%s: point %v, At %v", day, has, err)
			}
			if !has {
				continue
			}
			if points[0].Filled != (answer.Date() != day) {
				t.Fatalf("%s: filled %v, At gives %s", day, points[0].Filled, answer.Date())
			}
			points = points[1:]
		}
		if len(points) > 0 {
			t.Fatalf("left over: %v", points)
		}
	})
}

func TestGroupsPickTheLastOfThePeriod(t *testing.T) {
	t.Parallel()
	data, err := rates.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []rates.Group{rates.Daily, rates.Weekly, rates.Monthly} {
		points := data.Series(rates.Range{
			From: "USD", To: "KES", Start: civil.New(2024, 1, 1), End: data.Newest(), Group: group,
		})
		if len(points) == 0 {
			t.Fatal("got no points")
		}
		for i, p := range points {
			day, err := data.At(p.Date, "USD", "KES")
			if err != nil || day.Date() != p.Date || p.Filled {
				t.Fatalf("%s: got %v", p.Date, err)
			}
			if i == 0 {
				continue
			}
			before, this := points[i-1].Date.Time(), p.Date.Time()
			beforeYear, beforeWeek := before.ISOWeek()
			year, week := this.ISOWeek()
			if !before.Before(this) || group == rates.Weekly && beforeYear == year && beforeWeek == week ||
				group == rates.Monthly && before.Year() == this.Year() && before.Month() == this.Month() {
				t.Fatalf("%s and %s are of one period", before, this)
			}
		}
	}
}

func BenchmarkSeries(b *testing.B) {
	var builder rates.Builder
	for day := civil.New(2016, 1, 1); day < civil.New(2026, 1, 1); day++ {
		builder.Set(day, "USD", value(b, "1.1234"), rates.SourceECB)
		builder.Set(day, "GBP", value(b, "0.8734"), rates.SourceECB)
	}
	data := builder.Build()
	b.ReportAllocs()
	for b.Loop() {
		data.Series(rates.Range{From: "GBP", To: "USD", Start: civil.New(2016, 1, 1), End: civil.New(2025, 12, 31)})
	}
}
