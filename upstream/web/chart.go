package web

import (
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// The chart has dayWidth for each day and chartHeight, and is stretched to the
// width of the page.
const (
	dayWidth    = 10
	barWidth    = 8
	chartHeight = 100

	// maxSeries is the number of colours. Further endpoints have the last
	// one.
	maxSeries = 6
)

// chart is the calls of each day, stacked by endpoint.
type chart struct {
	Width, Height int
	// Top and Middle label the axis.
	Top, Middle string
	Series      []series
	Columns     []column
	// First and Last label the other axis.
	First, Last string
	// Summary describes the chart in a sentence.
	Summary string
}

// series is one endpoint: its bars as an SVG path, and its text in the
// legend.
type series struct {
	Name, Total string
	Colour      int
	Bars        string
}

// column is one day.
type column struct {
	X          int
	Day, Short string
	Total      string
	// Cells are the counts of each series, for the table.
	Cells []string
	// Label is the tooltip of the column.
	Label string
}

// newChart returns the chart of the days, or nil without data.
func newChart(endpoints []api.UsageEndpoint, days []api.UsageDay) *chart {
	if len(days) == 0 || len(endpoints) == 0 {
		return nil
	}
	c := &chart{Width: len(days) * dayWidth, Height: chartHeight}
	var most, sum int64
	var best api.UsageDay
	for _, d := range days {
		n := total(d)
		sum += n
		if n > most {
			most, best = n, d
		}
	}
	top := roundUp(most)
	c.Top, c.Middle = humanize.Comma(top), humanize.Comma(top/2)
	for i, e := range endpoints {
		c.Series = append(c.Series, series{Name: e.Endpoint, Colour: min(i, maxSeries-1)})
	}
	c.draw(days, top)
	c.First, c.Last = c.Columns[0].Short, c.Columns[len(days)-1].Short
	c.Summary = "Calls a day from " + c.First + " to " + c.Last + ": " + humanize.Comma(sum) + " in all"
	if most > 0 {
		c.Summary += ", most on " + shortDay(best.Day) + " with " + humanize.Comma(most)
	}
	return c
}

// draw adds the bars and the columns of all days.
func (c *chart) draw(days []api.UsageDay, top int64) {
	bars := make([]strings.Builder, len(c.Series))
	totals := make([]int64, len(c.Series))
	for i, d := range days {
		col := column{X: i * dayWidth, Day: d.Day, Short: shortDay(d.Day), Total: humanize.Comma(total(d))}
		col.Label = col.Short + ": " + col.Total
		base := 0.0
		for j := range c.Series {
			n := d.Calls[c.Series[j].Name]
			totals[j] += n
			col.Cells = append(col.Cells, humanize.Comma(n))
			if n == 0 {
				continue
			}
			height := chartHeight * float64(n) / float64(top)
			bar(&bars[j], float64(i*dayWidth)+1, chartHeight-base-height, height)
			base += height
			col.Label += ", " + c.Series[j].Name + " " + humanize.Comma(n)
		}
		c.Columns = append(c.Columns, col)
	}
	for j := range c.Series {
		c.Series[j].Bars, c.Series[j].Total = bars[j].String(), humanize.Comma(totals[j])
	}
}

// bar adds a rectangle to a path.
func bar(path *strings.Builder, x, y, height float64) {
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	tenth := func(v float64) string { return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") }
	path.WriteString("M" + f(x) + " " + tenth(y) + "h" + f(barWidth) + "v" + tenth(height) + "h-" + f(barWidth) + "z")
}

func total(d api.UsageDay) (sum int64) {
	for _, n := range d.Calls {
		sum += n
	}
	return sum
}

// roundUp returns the next number for the axis: short, with a whole half.
func roundUp(n int64) int64 {
	for _, top := range []int64{2, 4, 6, 8} {
		if top >= n {
			return top
		}
	}
	for power := int64(1); ; power *= 10 {
		for _, digits := range []int64{10, 12, 16, 20, 24, 30, 40, 50, 60, 80} {
			if top := digits * power; top >= n {
				return top
			}
		}
	}
}

// shortDay is a date without its year.
func shortDay(text string) string {
	d, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return text
	}
	return d.Format(dayAndMonth)
}
