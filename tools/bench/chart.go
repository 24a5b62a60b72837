package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"strings"
)

// chart is a graph of lines as an SVG file. Its colors are readable on white
// and on black.
type chart struct {
	title string
	x, y  axis
	lines []line
}

// axis is from its first tick to its last.
type axis struct {
	name  string
	ticks values
	log   bool
	text  unit
}

type line struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

func (p point) at() float64 { return p.x }

// Sizes of a chart, in pixels. Names of lines are right of the plot.
const (
	plotWidth, plotHeight   = 560, 320
	plotLeft, plotTop       = 60, 50
	chartWidth, chartHeight = 850, 410
)

var colors = [...]string{"#7a828c", "#2f81f7", "#a371f7", "#2da44e", "#e16f24"}

// place is a part of the axis, 0 at its first tick and 1 at its last.
func (a axis) place(v float64) float64 {
	first, last := a.ticks[0], a.ticks[len(a.ticks)-1]
	if a.log {
		first, last, v = math.Log(first), math.Log(last), math.Log(v)
	}
	return (v - first) / (last - first)
}

func (c chart) position(p point) (x, y float64) {
	return plotLeft + plotWidth*c.x.place(p.x), plotTop + plotHeight*(1-c.y.place(p.y))
}

func (c chart) write(file string) error { return os.WriteFile(file, []byte(c.svg()), 0o644) }

func (c chart) svg() string {
	var s strings.Builder
	text := func(x, y float64, anchor, class, text string) {
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">`, x, y, anchor, class)
		_ = xml.EscapeText(&s, []byte(text)) // a Builder never fails
		s.WriteString("</text>\n")
	}
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">
<style>text { font: 13px sans-serif; fill: #7a828c } .title { font-weight: bold } .grid { stroke: #7a828c; stroke-opacity: 0.3 } .line { fill: none; stroke-width: 2 }</style>
`, chartWidth, chartHeight)
	text(plotLeft, 24, "start", "title", c.title)
	for _, tick := range c.y.ticks {
		_, y := c.position(point{c.x.ticks[0], tick})
		fmt.Fprintf(&s, `<path d="M%d %.1f h%d" class="grid"/>`+"\n", plotLeft, y, plotWidth)
		text(plotLeft-8, y+4, "end", "tick", c.y.text(tick))
	}
	for _, tick := range c.x.ticks {
		x, _ := c.position(point{tick, c.y.ticks[0]})
		fmt.Fprintf(&s, `<path d="M%.1f %d v5" class="grid"/>`+"\n", x, plotTop+plotHeight)
		text(x, plotTop+plotHeight+22, "middle", "tick", c.x.text(tick))
	}
	text(plotLeft+plotWidth/2, chartHeight-8, "middle", "tick", c.x.name)
	for i, l := range c.lines {
		color := colors[i%len(colors)]
		var path strings.Builder
		for n, p := range l.points {
			x, y := c.position(p)
			path.WriteString(map[bool]string{true: "M", false: "L"}[n == 0])
			fmt.Fprintf(&path, "%.1f %.1f", x, y)
			fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x, y, color)
		}
		fmt.Fprintf(&s, `<path d="%s" class="line" stroke="%s"/>`+"\n", path.String(), color)
		y := float64(plotTop + 10 + 24*i)
		fmt.Fprintf(&s, `<path d="M%d %.1f h24" class="line" stroke="%s"/>`+"\n", plotLeft+plotWidth+20, y, color)
		text(plotLeft+plotWidth+52, y+4, "start", "name", l.name)
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// highest is the largest value of all lines.
func highest(lines []line) (y float64) {
	for _, l := range lines {
		for _, p := range l.points {
			y = max(y, p.y)
		}
	}
	return y
}

// ticksTo returns about five ticks from 0 to at least a value.
func ticksTo(value float64) values {
	step := math.Pow(10, math.Floor(math.Log10(value/5)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if value/(step*factor) <= 6 {
			step *= factor
			break
		}
	}
	ticks := values{0}
	for ticks[len(ticks)-1] < value {
		ticks = append(ticks, step*float64(len(ticks)))
	}
	return ticks
}
