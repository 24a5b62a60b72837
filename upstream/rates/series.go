package rates

import (
	"time"

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

// Range selects the rates of a pair in a range of days.
type Range struct {
	From, To currency.Code
	// Start and End are the first and the last day, both included.
	Start, End civil.Date
	Group      Group
	// FillPrevious fills a period without a rate with the newest rate before
	// its end, at most LookBack days old. Without it such a period has no
	// point. Periods after the last day of a currency are never filled.
	FillPrevious bool
}

// Point is a rate of a series.
type Point struct {
	// Date is the day of the rate. With Filled it is the last day of a
	// period that has no rate of its own.
	Date   civil.Date
	Rate   Decimal
	Source Source
	// Filled is true for the rate of an earlier day.
	Filled bool
}

// Series returns the points of a range, by ascending date. The range ends at
// the latest with the last day of its currencies. Of weeks and months at its
// ends it has only the days inside. The rate of a week or month is the last
// one of the period, not an average.
func (d *Dataset) Series(r Range) []Point {
	if len(d.days) == 0 {
		return nil
	}
	// Before the first day there is nothing to walk through.
	r.Start = max(r.Start, d.days[0])
	r.End = min(r.End, lastDay(r.From, r.To))
	var points []Point
	cursor := pairCursor{data: d, from: d.finder(r.From), to: d.finder(r.To), next: d.before(r.Start-LookBack) + 1}
	for begin := r.Start; begin <= r.End; {
		end := min(r.Group.end(begin), r.End)
		met, found := cursor.newest(end)
		own := found && met.Date() >= begin
		if own || found && r.FillPrevious && met.Date() >= end-LookBack {
			point := Point{Date: met.Date(), Rate: quotient(met.to.value(), met.from.value()), Source: met.source()}
			if !own {
				point.Date, point.Filled = end, true
			}
			points = append(points, point)
		}
		begin = end + 1
	}
	return points
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

// pairCursor walks the days upwards and remembers the newest that quotes a
// pair.
type pairCursor struct {
	data     *Dataset
	from, to finder
	next     int      // the first day not looked at yet
	last     sighting // of the days looked at, the newest that quotes the pair
}

// sighting is a day with both values of a pair.
type sighting struct {
	Day
	from, to cell
}

// source returns the sources of the rate of the pair.
func (s sighting) source() Source {
	if both := s.from.source | s.to.source; both != 0 {
		return both
	}
	return s.Source(currency.Euro)
}

// newest returns the newest day up to end that quotes the pair, if any. Later
// calls must have a later end.
func (c *pairCursor) newest(end civil.Date) (sighting, bool) {
	for ; c.next < len(c.data.days) && c.data.days[c.next] <= end; c.next++ {
		row := c.data.row(c.next)
		from, haveFrom := c.from.in(row)
		to, haveTo := c.to.in(row)
		if haveFrom && haveTo {
			c.last = sighting{Day{c.data, c.next}, from, to}
		}
	}
	return c.last, c.last.data != nil
}
