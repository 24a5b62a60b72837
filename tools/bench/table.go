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
	bar      bar
	unit     unit
	measured samples

	// noise is the same measurement between two sides that are alike,
	// and neutral what it would give if there were no noise. Without
	// noise the row was repeated, and its noise is how far the
	// repetitions lie apart.
	noise   samples
	neutral float64
}

// unit prints a figure.
type unit func(float64) string

// Units of the table.
var (
	asRatio  unit = func(v float64) string { return fmt.Sprintf("%.3f", v) }
	asCount  unit = func(v float64) string { return fmt.Sprintf("%.0f", v) }
	asBytes  unit = func(v float64) string { return fmt.Sprintf("%.0f B", v) }
	asNanos  unit = func(v float64) string { return fmt.Sprintf("%.0f ns", v) }
	asMicros unit = func(v float64) string { return fmt.Sprintf("%.1f µs", v/1e3) }
	asSecs   unit = func(v float64) string { return fmt.Sprintf("%.2f s", v/1e9) }
	asMiB    unit = func(v float64) string { return fmt.Sprintf("%.1f MiB", v/(1<<20)) }
)

// bar is what a row is held to. The zero bar holds it to nothing.
type bar struct {
	limit float64
	side  int // -1: at most the limit; +1: at least
}

func atMost(limit float64) bar  { return bar{limit, -1} }
func atLeast(limit float64) bar { return bar{limit, +1} }

// missed is how far a value is on the wrong side; negative on the right
// one.
func (b bar) missed(value float64) float64 { return float64(b.side) * (b.limit - value) }

func (r row) verdict() string {
	missed := r.bar.missed(r.measured.median())
	switch {
	case r.bar.side == 0:
		return "no bar"
	case missed <= 0:
		return "held"
	case missed <= r.uncertainty():
		return "within the noise"
	default: // also what is not a number
		return "missed"
	}
}

// uncertainty is how far a measurement may be off.
func (r row) uncertainty() float64 {
	if r.noise == nil {
		return r.measured.spread()
	}
	return r.noise.deviation(r.neutral)
}

func (r row) cells() [5]string {
	limit := map[int]string{-1: "≤ ", 0: "none", +1: "≥ "}[r.bar.side]
	if r.bar.side != 0 {
		limit += r.unit(r.bar.limit)
	}
	noise := r.ranged(r.noise)
	if r.noise == nil {
		if noise = "± " + r.unit(r.measured.spread()); len(r.measured) == 1 {
			noise = "one run"
		}
	}
	return [5]string{r.what, limit, r.ranged(r.measured), noise, r.verdict()}
}

// ranged is the median with the least and the greatest.
func (r row) ranged(s samples) string {
	if len(s) < 2 {
		return r.unit(s.median())
	}
	return fmt.Sprintf("%s (%s … %s)", r.unit(s.median()), r.unit(slices.Min(s)), r.unit(slices.Max(s)))
}

func printTable(output io.Writer, rows []row) error {
	w := tabwriter.NewWriter(output, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "what\tbar\tmeasured\tnoise (A/A)\tverdict")
	for _, r := range rows {
		c := r.cells()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c[0], c[1], c[2], c[3], c[4])
	}
	return w.Flush()
}
