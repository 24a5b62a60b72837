package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// chart is a graph of lines from 0 up, as an SVG file.
type chart struct {
	title string
	under string   // the name of the steps
	steps []string // from left to right
	text  unit     // of the values
	lines []line
}

// line has a value for each step.
type line struct {
	name   string
	values values
}

func (l *line) add(value float64) { l.values = append(l.values, value) }

// Sizes of a chart, in pixels. The names of the lines are right of the plot.
const (
	plotLeft, plotTop       = 60, 50
	plotWidth, plotHeight   = 560, 320
	chartWidth, chartHeight = 850, 430
)

// The colors are readable on white and on black.
const gray = "#7a828c"

var colors = [...]string{gray, "#2f81f7", "#a371f7", "#2da44e", "#e16f24"}

func (c chart) write(file string) error { return os.WriteFile(file, []byte(c.svg()), 0o644) }

func (c chart) svg() string {
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">
<style>text { font: 13px sans-serif; fill: %[3]s } path { fill: none; stroke-width: 2 } .grid { stroke: %[3]s; stroke-width: 1; stroke-opacity: 0.3 }</style>
`, chartWidth, chartHeight, gray)
	text := func(x, y float64, anchor, text string) {
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
		_ = xml.EscapeText(&s, []byte(text)) // a Builder never fails
		s.WriteString("</text>\n")
	}
	var highest float64
	for _, l := range c.lines {
		highest = max(highest, slices.Max(l.values))
	}
	ticks := ticksTo(highest)
	x := func(step int) float64 { return plotLeft + plotWidth*float64(step)/float64(len(c.steps)-1) }
	y := func(value float64) float64 { return plotTop + plotHeight*(1-value/ticks[len(ticks)-1]) }

	text(plotLeft, 24, "start", c.title)
	for _, tick := range ticks {
		fmt.Fprintf(&s, `<path d="M%d %.1f h%d" class="grid"/>`+"\n", plotLeft, y(tick), plotWidth)
		text(plotLeft-8, y(tick)+4, "end", c.text(tick))
	}
	for i, step := range c.steps {
		text(x(i), plotTop+plotHeight+22, "middle", step)
	}
	text(plotLeft+plotWidth/2, plotTop+plotHeight+48, "middle", c.under)
	for i, l := range c.lines {
		var points []string
		for n, value := range l.values {
			points = append(points, fmt.Sprintf("%.1f %.1f", x(n), y(value)))
		}
		right, down := plotLeft+plotWidth+20, float64(plotTop+10+24*i)
		fmt.Fprintf(&s, `<path d="M%s" stroke="%s"/><path d="M%d %.1f h24" stroke="%[2]s"/>`+"\n", strings.Join(points, " L"), colors[i%len(colors)], right, down)
		text(float64(right+32), down+4, "start", l.name)
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// ticksTo returns up to seven ticks from 0 to at least a value.
func ticksTo(value float64) (ticks values) {
	step := math.Pow(10, math.Floor(math.Log10(value/6)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if value <= 6*step*factor {
			step *= factor
			break
		}
	}
	for i := range int(math.Ceil(value/step)) + 1 {
		ticks = append(ticks, step*float64(i))
	}
	return ticks
}
