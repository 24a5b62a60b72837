package rates

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/apd/v3"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// Group is the period of the points of a series.
type Group uint8

const (
	// Daily gives a point for each day with a rate.
	Daily Group = iota
	// Weekly gives the last rate of each ISO week, Monday to Sunday.
	Weekly
	// Monthly gives the last rate of each calendar month.
	Monthly
)

// Range selects the rates of currencies in a range of days.
type Range struct {
	From currency.Code
	To   []currency.Code
	// Start and End are the first and the last day, both included.
	Start, End civil.Date
	Group      Group
	// FillPrevious fills a period without a rate with the newest rate before
	// its end, at most LookBack days old. Without it such a period has no
	// rate. Periods after the last day of a currency are never filled.
	FillPrevious bool
}

// Row has the rates of a series for one day.
type Row struct {
	// Date is the day of the rates. With Filled it is the last day of a
	// period that has no rate of its own.
	Date civil.Date
	// Rates are in the order of Range.To, without those that the day lacks.
	// They are valid until the next row.
	Rates  []Quote
	Source Source
	// Filled is true if a rate is of an earlier day.
	Filled bool
}

// Series yields the rows of a range, by ascending date. For each currency the
// range ends at the latest with the last day of it and of From. Of weeks and
// months at its ends it has only the days inside. The rate of a week or month
// is the last one of the period, not an average; if it is of another day than
// that of another currency, it has a row of its own.
func (d *Dataset) Series(r Range) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		if len(d.days) == 0 {
			return
		}
		// Before the first day there is nothing to walk through.
		r.Start = max(r.Start, d.days[0])
		var targets []target
		for _, to := range r.To {
			if columns, quoted := d.columnsOf(r.From, to); quoted {
				targets = append(targets, target{to, columns, lastDay(r.From, to)})
			}
		}
		var points []point
		var row Row
		for begin := r.Start; begin <= r.End; {
			end := min(r.Group.end(begin), r.End)
			points = points[:0]
			for _, t := range targets {
				if p, found := d.point(t, begin, end, r.FillPrevious); found {
					points = append(points, p)
				}
			}
			slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.date, b.date) })
			for i, p := range points {
				if i == 0 || p.date != row.Date {
					row = Row{Date: p.date, Rates: row.Rates[:0]}
				}
				row.Rates = append(row.Rates, p.quote)
				row.Source |= p.source
				row.Filled = row.Filled || p.filled
				if last := i+1 == len(points) || points[i+1].date != p.date; last && !yield(row) {
					return
				}
			}
			begin = end + 1
		}
	}
}

// point is the rate of one currency in a row.
type point struct {
	date   civil.Date
	quote  Quote
	source Source
	filled bool
}

// end returns the last day of the period that a day is in.
func (g Group) end(day civil.Date) civil.Date {
	switch g {
	case Weekly:
		return day + civil.Date(time.Saturday-(day-1).Weekday())
	case Monthly:
		t := day.Time()
		return civil.New(t.Year(), t.Month()+1, 0)
	}
	return day
}

// target is a currency of a series: the columns of the pair, and its last day.
type target struct {
	code    currency.Code
	columns []uint16
	end     civil.Date
}

// point returns the rate of a target for a period, if it has one.
func (d *Dataset) point(t target, begin, end civil.Date, fill bool) (point, bool) {
	end = min(end, t.end)
	oldest := begin
	if fill && begin <= end {
		oldest = min(begin, end-LookBack)
	}
	day, err := d.newest(d.before(end+1), oldest, t.columns)
	if err != nil {
		return point{}, false
	}
	row := d.row(day.index)
	from, _ := find(row, t.columns[0])
	to, _ := find(row, t.columns[1])
	source := cmp.Or(from.source|to.source, day.Source(currency.Euro))
	date, filled := day.Date(), day.Date() < begin
	if filled {
		date = end
	}
	return point{date, Quote{t.code, quotient(to.value(), from.value())}, source, filled}, true
}

// Summary says how a rate changed over a series.
type Summary struct {
	// Start and End are the first and the last rate, Change is End − Start and
	// Percent is Change of Start, in percent.
	Start, End, Change, Percent Decimal
	// High and Low are the extremes, the first day of each.
	High, Low Extreme
	// Average is the mean of the rates, to 12 significant digits like Percent.
	Average Decimal
}

// Extreme is a rate and its day.
type Extreme struct {
	Date civil.Date
	Rate Decimal
}

// Summarize returns the summary of one rate or more, by ascending date.
func Summarize(points []Extreme) Summary {
	first, last := points[0], points[len(points)-1]
	s := Summary{Start: first.Rate, End: last.Rate, High: first, Low: first}
	var sum, change, percent, average apd.Decimal
	arithmetic := apd.MakeErrDecimal(exactContext)
	for _, p := range points {
		arithmetic.Add(&sum, &sum, &p.Rate.number)
		if p.Rate.number.Cmp(&s.High.Rate.number) > 0 {
			s.High = p
		}
		if p.Rate.number.Cmp(&s.Low.Rate.number) < 0 {
			s.Low = p
		}
	}
	arithmetic.Sub(&change, &last.Rate.number, &first.Rate.number)
	arithmetic.Mul(&percent, &change, apd.New(100, 0))
	arithmetic.Ctx = rateContext
	arithmetic.Quo(&percent, &percent, &first.Rate.number)
	arithmetic.Quo(&average, &sum, apd.New(int64(len(points)), 0))
	if err := arithmetic.Err(); err != nil {
		panic(fmt.Errorf("summing up %d rates: %w", len(points), err)) // impossible: rates are above zero, and short
	}
	s.Change, s.Percent, s.Average = trimmed(&change), trimmed(&percent), trimmed(&average)
	return s
}
