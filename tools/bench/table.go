package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	what     string
	target   target
	unit     unit
	measured values

	// noise is the same measurement between two equal sides, and expected
	// is its value without noise. Without an equal side, the row is a
	// repeated measurement, and the spread of the repetitions is its noise.
	noise    values
	expected float64
}

// unit prints a figure.
type unit func(float64) string

// Units of the table.
var (
	asRatio   unit = func(v float64) string { return fmt.Sprintf("%.3f", v) }
	asCount   unit = func(v float64) string { return fmt.Sprintf("%.0f", v) }
	asBytes   unit = func(v float64) string { return fmt.Sprintf("%.0f B", v) }
	asNanos   unit = func(v float64) string { return fmt.Sprintf("%.0f ns", v) }
	asMicros  unit = func(v float64) string { return fmt.Sprintf("%.1f µs", v/1e3) }
	asMillis  unit = func(v float64) string { return fmt.Sprintf("%.2f ms", v/1e6) }
	asSecs    unit = func(v float64) string { return fmt.Sprintf("%.2f s", v/1e9) }
	asPercent unit = func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
	asMiB     unit = func(v float64) string { return fmt.Sprintf("%.1f MiB", v/(1<<20)) }
)

// target is the target of a row. The zero target is none.
type target struct {
	limit float64
	side  int // -1: at most the limit; +1: at least
}

func atMost(limit float64) target  { return target{limit, -1} }
func atLeast(limit float64) target { return target{limit, +1} }

// missed is the distance of a value from the limit, negative on the right
// side.
func (t target) missed(value float64) float64 { return float64(t.side) * (t.limit - value) }

func (r row) result() string {
	missed := r.target.missed(r.measured.median())
	switch {
	case r.target.side == 0:
		return "no target"
	case missed <= 0:
		return "reached"
	case missed <= r.uncertainty():
		return "within the noise"
	default: // NaN also
		return "missed"
	}
}

func (r row) uncertainty() float64 {
	if r.noise == nil {
		return r.measured.spread()
	}
	return r.noise.deviation(r.expected)
}

func (r row) cells() [5]string {
	limit := map[int]string{-1: "≤ ", 0: "none", +1: "≥ "}[r.target.side]
	if r.target.side != 0 {
		limit += r.unit(r.target.limit)
	}
	noise := r.ranged(r.noise)
	if r.noise == nil {
		if noise = "± " + r.unit(r.measured.spread()); len(r.measured) == 1 {
			noise = "one run"
		}
	}
	return [5]string{r.what, limit, r.ranged(r.measured), noise, r.result()}
}

// ranged is the median, the smallest and the largest.
func (r row) ranged(v values) string {
	if len(v) < 2 {
		return r.unit(v.median())
	}
	return fmt.Sprintf("%s (%s … %s)", r.unit(v.median()), r.unit(slices.Min(v)), r.unit(slices.Max(v)))
}

func printTable(output io.Writer, rows []row) error {
	w := tabwriter.NewWriter(output, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "what\ttarget\tmeasured\tnoise (A/A)\tresult")
	for _, r := range rows {
		c := r.cells()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c[0], c[1], c[2], c[3], c[4])
	}
	return w.Flush()
}
