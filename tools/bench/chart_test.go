package main

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// A chart is well-formed XML that has all names and points.
func TestChart(t *testing.T) {
	t.Parallel()
	c := chart{
		title: "Requests & answers", x: axis{name: "connections", log: true, ticks: values{1, 2, 4}, text: asCount},
		y:     axis{ticks: values{0, 100}, text: asCount},
		lines: []line{{"Caddy's proxy", []point{{1, 10}, {2, 50}}}, {"<gate>", []point{{4, 100}}}},
	}
	var texts []string
	circles := 0
	decoder := xml.NewDecoder(strings.NewReader(c.svg()))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "circle" {
				circles++
			}
		case xml.CharData:
			texts = append(texts, string(token))
		}
	}
	for _, want := range []string{"Requests & answers", "connections", "1", "2", "4", "0", "100", "Caddy's proxy", "<gate>"} {
		if !slices.Contains(texts, want) {
			t.Errorf("the chart lacks the text %q", want)
		}
	}
	if circles != 3 {
		t.Errorf("got %d points, want 3", circles)
	}
	if x, y := c.position(point{2, 50}); x != plotLeft+plotWidth/2 || y != plotTop+plotHeight/2 {
		t.Errorf("the middle is at %v, %v", x, y)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]values{
		21_000: {0, 5000, 10000, 15000, 20000, 25000},
		12:     {0, 2, 4, 6, 8, 10, 12},
		1:      {0, 0.2, 0.4, 0.6, 0.8, 1},
	} {
		got := ticksTo(value)
		if len(got) != len(want) || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("%v: got %v, want %v", value, got, want)
		}
	}
}
