package main

import (
	"math"
	"testing"
)

func TestResult(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		row  row
		want string
	}{
		"multiples":                {row{target: atMost(9), in: inH(values{80, 100, 90}), measured: values{710, 910, 800}}, "reached"},
		"multiples, above":         {row{target: atMost(9), in: inH(values{80, 100, 90}), measured: values{700, 910, 850}}, "within the noise"},
		"multiples, far above":     {row{target: atMost(9), in: inH(values{80, 100, 90}), measured: values{800, 1000, 900}}, "missed"},
		"multiples of a pair":      {row{target: atMost(0.1), in: inP(values{100}), measured: values{13}, noise: values{2}}, "missed"},
		"a noisy pair":             {row{target: atMost(0.1), in: inP(values{100}), measured: values{5}, noise: values{4}}, "too noisy"},
		"reached, too noisy":       {row{target: atLeast(0.95), measured: values{1}, noise: values{1.04}, expected: 1}, "too noisy"},
		"missed, too noisy":        {row{target: atLeast(0.95), measured: values{0.5}, noise: values{0.96}, expected: 1}, "too noisy"},
		"rounds far apart":         {row{target: atLeast(0.95), measured: values{1}, noise: values{0.9, 1, 1.1}, expected: 1}, "too noisy"},
		"a ratio above 1":          {row{target: atLeast(2.8), measured: values{2.75}, noise: values{1.02}, expected: 1}, "within the noise"},
		"above at least":           {row{target: atLeast(0.95), measured: values{0.96}, noise: values{1}, expected: 1}, "reached"},
		"at the limit":             {row{target: atLeast(0.95), measured: values{0.95}, noise: values{1}, expected: 1}, "reached"},
		"below at least":           {row{target: atLeast(0.95), measured: values{0.94}, noise: values{1.001}, expected: 1}, "missed"},
		"below by less than noise": {row{target: atLeast(0.95), measured: values{0.94}, noise: values{0.98}, expected: 1}, "within the noise"},
		"below at most":            {row{target: atMost(15), measured: values{14}, noise: values{0}}, "reached"},
		"above at most":            {row{target: atMost(15), measured: values{17}, noise: values{-1}}, "missed"},
		"above by less than noise": {row{target: atMost(15), measured: values{17}, noise: values{-3}}, "within the noise"},
		"repeated, close":          {row{target: atMost(600), measured: values{609, 610, 611}}, "missed"},
		"repeated, apart":          {row{target: atMost(600), measured: values{590, 610, 620}}, "within the noise"},
		"repeated, far apart":      {row{target: atMost(600), measured: values{300, 500, 700}}, "too noisy"},
		"no target":                {row{measured: values{5}}, "no target"},
		"NaN":                      {row{target: atMost(5), measured: values{math.NaN()}}, "missed"},
		"nothing measured":         {row{target: atLeast(5)}, "missed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.row.result(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A row shows a time and its multiple; its target is a multiple.
func TestCells(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		row  row
		want [5]string
	}{
		"multiple": {
			row{what: "handler", target: atMost(9), unit: asNanos, in: inH(values{80, 100}), measured: values{800, 900}},
			[5]string{"handler", "≤ 9 H", "850 ns = 9.5 H", "± 0.5 H", "within the noise"},
		},
		"ratio": {
			row{what: "proxy", target: atLeast(0.97), unit: asRatio, measured: values{0.98}, noise: values{1.01}, expected: 1},
			[5]string{"proxy", "≥ 0.970", "0.980", "± 0.010", "reached"},
		},
		"no target": {row{what: "p99", unit: asMillis, measured: values{2e6}}, [5]string{"p99", "none", "2.00 ms", "one run", "no target"}},
	} {
		if got := test.row.cells(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// A round is too noisy if the equal sides differ by more than 3 %, either way.
func TestDiffers(t *testing.T) {
	t.Parallel()
	of := func(rates ...float64) *side {
		s := &side{}
		for _, r := range rates {
			s.rounds = append(s.rounds, measured{rate: r})
		}
		return s
	}
	for second, want := range map[float64]bool{1000: false, 1029: false, 971: false, 1031: true, 969: true} {
		if got := (baseline{of(1, 1000), of(2, second)}).differs(); got != want {
			t.Errorf("1000 and %v: got %v, want %v", second, got, want)
		}
	}
}
