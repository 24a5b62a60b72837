package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	what     string
	target   target
	unit     unit
	measured values
	in       timeUnit // the zero timeUnit if the row is no time, or has no unit

	// noise is the same measurement between two equal sides: without noise, it
	// would be 1 in a ratio, and 0 in a difference. Without an equal side, the
	// row is a repeated measurement, and the spread of the repetitions is its
	// noise.
	noise values
	ratio bool
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

// asMultiple prints three digits, or all before the point.
func asMultiple(v float64) string {
	if math.Abs(v) >= 1000 {
		return asCount(v)
	}
	return fmt.Sprintf("%.3g", v)
}

// target is the target of a row. The zero target is none. If the row has a
// unit of time, the limit is a multiple of it.
type target struct {
	limit float64
	side  int // -1: at most the limit; +1: at least
}

func atMost(limit float64) target  { return target{limit, -1} }
func atLeast(limit float64) target { return target{limit, +1} }

// maxNoise is the largest difference of equal sides that allows a verdict: a
// part of a ratio, or of a call through the proxy.
const maxNoise = 0.03

// maxSpread is the largest noise of repeated measurements that allows a verdict:
// a part of the limit.
const maxSpread = 0.25

// missed is the distance of a value from the limit, negative on the right
// side.
func (t target) missed(value float64) float64 { return float64(t.side) * (t.limit - value) }

func (r row) result() string {
	missed := r.target.missed(r.multiples(r.measured).median())
	switch {
	case r.target.side == 0:
		return "no target"
	case r.tooNoisy():
		return "too noisy"
	case missed <= 0:
		return "reached"
	case missed <= r.uncertainty():
		return "within the noise"
	default: // NaN also
		return "missed"
	}
}

func (r row) tooNoisy() bool {
	switch {
	case r.noise == nil:
		return r.uncertainty() > maxSpread*r.target.limit
	case r.ratio:
		return r.noise.uncertainty(1) > maxNoise
	default:
		return r.in.name != "" && r.uncertainty() > maxNoise
	}
}

// multiples returns values in the unit of the target.
func (r row) multiples(v values) values {
	if r.in.name == "" {
		return v
	}
	return ratios(v, r.in.sizes)
}

// uncertainty is the noise of the row, in the unit of the target. The noise
// of a ratio grows with the ratio.
func (r row) uncertainty() float64 {
	switch {
	case r.noise == nil:
		return r.multiples(r.measured).spread()
	case r.ratio:
		return r.noise.uncertainty(1) * r.measured.median()
	default:
		return r.multiples(r.noise).uncertainty(0)
	}
}

// String returns the row as Markdown, for a tabwriter.
func (r row) String() string {
	multiple, measured := r.unit, r.unit(r.measured.median())
	if r.in.name != "" {
		multiple = func(v float64) string { return asMultiple(v) + " " + r.in.name }
		measured += " = " + multiple(r.multiples(r.measured).median())
	}
	limit := map[int]string{-1: "≤ ", 0: "none", +1: "≥ "}[r.target.side]
	if r.target.side != 0 {
		limit += multiple(r.target.limit)
	}
	noise := "one run"
	if r.noise != nil || len(r.measured) > 1 {
		noise = "± " + multiple(r.uncertainty())
	}
	return "| " + strings.Join([]string{r.what, limit, measured, noise, r.result()}, "\t| ") + "\t|"
}

// printTable prints a table in Markdown.
func printTable(output io.Writer, rows []row) error {
	w := tabwriter.NewWriter(output, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| what\t| target\t| measured\t| noise\t| result\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|")
	for _, r := range rows {
		fmt.Fprintln(w, r)
	}
	return w.Flush()
}
