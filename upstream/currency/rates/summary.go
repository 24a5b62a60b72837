package rates

import (
	"fmt"

	"github.com/cockroachdb/apd/v3"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

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
