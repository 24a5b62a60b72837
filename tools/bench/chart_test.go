package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// A chart is well-formed XML, has all names, and draws a line through all of
// its values.
func TestChart(t *testing.T) {
	t.Parallel()
	c := chart{
		title: "Requests & answers", under: "connections", steps: []string{"1", "2", "4"}, text: asCount,
		lines: []line{{"Caddy's proxy", values{0, 50, 100}}, {"<gate>", values{60, 50, 40}}},
	}
	var texts, paths []string
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
			if token.Name.Local == "path" {
				paths = append(paths, token.Attr[0].Value)
			}
		case xml.CharData:
			texts = append(texts, string(token))
		}
	}
	for _, want := range []string{"Requests & answers", "connections", "1", "2", "4", "0", "20", "100", "Caddy's proxy", "<gate>"} {
		if !slices.Contains(texts, want) {
			t.Errorf("the chart lacks the text %q", want)
		}
	}
	for _, want := range []string{"M60.0 370.0 L340.0 210.0 L620.0 50.0", "M60.0 178.0 L340.0 210.0 L620.0 242.0"} {
		if !slices.Contains(paths, want) {
			t.Errorf("the chart lacks the line %s, it has %q", want, paths)
		}
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]values{
		31_000: {0, 10000, 20000, 30000, 40000},
		21_000: {0, 5000, 10000, 15000, 20000, 25000},
		12:     {0, 2, 4, 6, 8, 10, 12},
		1:      {0, 0.2, 0.4, 0.6, 0.8, 1},
	} {
		got := ticksTo(value)
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%v: got %v, want %v", value, got, want)
		}
	}
}
