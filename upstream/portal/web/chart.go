package web

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// A chart has dayWidth for each day, and reaches from 0 up to -chartHeight. It is
// stretched to the width of the page.
const (
	dayWidth    = 10
	chartHeight = 1000

	// maxSeries is the number of colours. Further endpoints share the last.
	maxSeries = 6
)

// chart is the calls of each day, stacked by endpoint, with the refused calls
// on top.
type chart struct {
	Width, Height int
	// Top and Middle label the axis.
	Top, Middle string
	Series      []series
	Columns     []column
	// First is the date of the first column.
	First string
	// Ticks are marks below the Mondays, as an SVG path.
	Ticks string
	// Endpoints are the names of Cells. There are none for one endpoint alone.
	Endpoints []string
	// Summary describes the chart in a sentence.
	Summary string
	// Rows are the days with calls, newest first. Without any, the page says so
	// instead of a chart.
	Rows []column
}

// series is one endpoint: its bars as an SVG path, and its text in the
// legend.
type series struct {
	Name, Total string
	// Class is its colour.
	Class string
	Bars  string
}

// column is one day.
type column struct {
	Short string
	// Tick labels the axis at Mondays.
	Tick              string
	Admitted, Refused string
	// Cells are the admitted calls to each endpoint, for the table.
	Cells []string
}

// chartData is what a chart shows. Counts has the admitted calls of each name,
// by day.
type chartData struct {
	days    []string
	names   []string
	counts  [][]int64
	refused []int64
}

// refusedCalls are the numbers of refused calls by day.
type refusedCalls map[string]int64

const (
	returnedName = "Given back"
	refusedName  = "Refused"
	refusedClass = "refused"
)

// newChartData returns the data of all endpoints. Calls that were given back are
// not theirs, as in the meters, but a series of their own.
func newChartData(document api.UsageDocument, refused refusedCalls) chartData {
	d := chartData{refused: make([]int64, len(document.Days))}
	returned := make([]int64, len(document.Days))
	for i, day := range document.Days {
		d.days = append(d.days, day.Day)
		d.refused[i] = refused[day.Day]
	}
	for _, e := range document.Endpoints {
		counts := make([]int64, len(document.Days))
		for i, day := range document.Days {
			counts[i] = day.Calls[e.Endpoint] - day.Credited[e.Endpoint]
			returned[i] += day.Credited[e.Endpoint]
		}
		d.names, d.counts = append(d.names, e.Endpoint), append(d.counts, counts)
	}
	if sumOf(returned) > 0 {
		d.names, d.counts = append(d.names, returnedName), append(d.counts, returned)
	}
	return d
}

// newChart returns the chart of the data, or nil without any.
func newChart(d chartData) *chart {
	if len(d.days) == 0 || len(d.names) == 0 {
		return nil
	}
	c := &chart{Width: len(d.days) * dayWidth, Height: chartHeight, First: d.days[0]}
	var most, admitted int64
	best := 0
	for i := range d.days {
		admitted += d.admitted(i)
		if n := d.admitted(i) + d.refused[i]; n > most {
			most, best = n, i
		}
	}
	top := roundUp(most)
	c.Top, c.Middle = humanize.Comma(top), humanize.Comma(top/2)
	for i, name := range d.names {
		c.Series = append(c.Series, series{Name: name, Class: "c" + strconv.Itoa(min(i, maxSeries-1))})
		if name == returnedName {
			c.Series[i].Class = "returned"
		}
	}
	if len(d.names) > 1 {
		c.Endpoints = d.names
	}
	refused := sumOf(d.refused)
	if refused > 0 {
		c.Series = append(c.Series, series{Name: refusedName, Class: refusedClass})
	}
	c.draw(d, top)
	c.Summary = "Calls a day from " + c.Columns[0].Short + " to " + c.Columns[len(d.days)-1].Short + ": " +
		humanize.Comma(admitted) + " admitted, " + humanize.Comma(refused) + " refused"
	if most > 0 {
		c.Summary += ", most on " + shortDay(d.days[best]) + " with " + humanize.Comma(most)
	}
	return c
}

// admitted is the number of admitted calls of a day.
func (d *chartData) admitted(day int) (sum int64) {
	for _, counts := range d.counts {
		sum += counts[day]
	}
	return sum
}

func sumOf(counts []int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// draw adds the bars and the columns of all days.
func (c *chart) draw(d chartData, top int64) {
	counts := append(slices.Clone(d.counts), d.refused)
	bars := make([]strings.Builder, len(counts))
	for i, day := range d.days {
		col := column{Short: shortDay(day), Admitted: humanize.Comma(d.admitted(i)), Refused: humanize.Comma(d.refused[i])}
		x := i*dayWidth + dayWidth/2
		if isMonday(day) {
			col.Tick = col.Short
			c.Ticks += "M" + strconv.Itoa(x) + " 0v40"
		}
		for j := range c.Endpoints {
			col.Cells = append(col.Cells, humanize.Comma(d.counts[j][i]))
		}
		var below int64
		for j := range counts {
			if n := counts[j][i]; n > 0 {
				fmt.Fprintf(&bars[j], "M%d%+dV%d", x, level(below, top), level(below+n, top))
				below += n
			}
		}
		c.Columns = append(c.Columns, col)
		if below > 0 {
			c.Rows = append(c.Rows, col)
		}
	}
	slices.Reverse(c.Rows)
	for j := range c.Series {
		c.Series[j].Bars, c.Series[j].Total = bars[j].String(), humanize.Comma(sumOf(counts[j]))
	}
}

func isMonday(day string) bool {
	date, err := time.Parse(time.DateOnly, day)
	return err == nil && date.Weekday() == time.Monday
}

// level is where a number of calls is in a chart.
func level(n, top int64) int { return -int(math.Round(chartHeight * float64(n) / float64(top))) }

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
