package main

import (
	"math"
	"strings"
	"testing"
)

func TestResult(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		row  row
		want string
	}{
		"multiples":            {row{target: atMost(9), in: inH(values{80, 100, 90}), measured: values{710, 910, 800}}, "reached"},
		"multiples, far above": {row{target: atMost(9), in: inH(values{80, 100, 90}), measured: values{800, 1000, 900}}, "missed"},
		"multiples of a pair":  {row{target: atMost(0.1), in: inP(values{100}), measured: values{13}, noise: values{2}}, "missed"},
		"reached, too noisy":   {row{target: atLeast(0.95), measured: values{1}, noise: values{1.04}, ratio: true}, "too noisy"},
		"rounds far apart":     {row{target: atLeast(0.95), measured: values{1}, noise: values{0.9, 1, 1.1}, ratio: true}, "too noisy"},
		"a ratio above 1":      {row{target: atLeast(2.8), measured: values{2.75}, noise: values{1.02}, ratio: true}, "within the noise"},
		"at the limit":         {row{target: atLeast(0.95), measured: values{0.95}, noise: values{1}, ratio: true}, "reached"},
		"below at least":       {row{target: atLeast(0.95), measured: values{0.94}, noise: values{1.001}, ratio: true}, "missed"},
		"above at most":        {row{target: atMost(15), measured: values{17}, noise: values{-1}}, "missed"},
		"repeated, apart":      {row{target: atMost(600), measured: values{590, 610, 620}}, "within the noise"},
		"repeated, far apart":  {row{target: atMost(600), measured: values{300, 500, 700}}, "too noisy"},
		"no target":            {row{measured: values{5}}, "no target"},
		"NaN":                  {row{target: atMost(5), measured: values{math.NaN()}}, "missed"},
	} {
		if got := test.row.result(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// A row shows a time and its multiple; its target is a multiple.
func TestRow(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]row{
		"| handler | ≤ 9 H | 850 ns = 9.5 H | ± 0.5 H | within the noise |": {what: "handler", target: atMost(9), unit: asNanos, in: inH(values{80, 100}), measured: values{800, 900}},
		"| proxy | ≥ 0.970 | 0.980 | ± 0.010 | reached |":                   {what: "proxy", target: atLeast(0.97), unit: asRatio, measured: values{0.98}, noise: values{1.01}, ratio: true},
		"| p99 | none | 2.00 ms | one run | no target |":                    {what: "p99", unit: asMillis, measured: values{2e6}},
	} {
		if got := strings.ReplaceAll(r.String(), "\t", " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Each row compares the side that it names with the first of the equal ones. A
// round is too noisy if these differ by more than 3 %, either way.
func TestBaseline(t *testing.T) {
	t.Parallel()
	of := func(rate float64) *side {
		return &side{rounds: []measured{{rate: 1}, {rate: rate, resident: 2 * rate}}}
	}
	b, s, other := baseline{of(1000), of(990)}, of(800), of(1600)
	for name, test := range map[string]struct {
		row             row
		measured, noise float64
	}{
		"ratio":   {b.ratio("", target{}, rate, s), 0.8, 0.99},
		"between": {b.between("", target{}, rate, s, other), 0.5, 0.99},
		"added":   {b.added("", target{}, s), -400, -20},
	} {
		if got, noise := test.row.measured[1], test.row.noise[1]; got != test.measured || noise != test.noise {
			t.Errorf("%s: got %v and the noise %v", name, got, noise)
		}
	}
	for second, want := range map[float64]bool{1000: false, 1029: false, 971: false, 1031: true, 969: true} {
		if got := (baseline{of(1000), of(second)}).differs(); got != want {
			t.Errorf("1000 and %v: got %v, want %v", second, got, want)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	v := values{5, 1, 4, 2}
	if v.median() != 3 || v.spread() != 2 || v.at(0) != 1 || v.at(0.99) != 4 || v.at(1) != 5 || v[0] != 5 || !math.IsNaN(values{}.median()) {
		t.Errorf("got the median %v, the spread %v and 99 %% at %v", v.median(), v.spread(), v.at(0.99))
	}
	for want, v := range map[float64]values{
		0: {0.5, 1, 1, 1, 1}, 0.02: {1.02, 1.02, 1.02, 1.02}, 0.093: {0.9, 0.9, 1.1, 1.1}, 0.03: {0.97},
	} {
		if got := v.uncertainty(1); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: got %v, want %v", v, got, want)
		}
	}
}

// H is of a text as long as a token.
func TestTokenLength(t *testing.T) {
	t.Parallel()
	if token, _, err := newKey(); err != nil || len(token.Reveal()) != tokenLength {
		t.Errorf("a token has %d bytes, %v, want %d", len(token.Reveal()), err, tokenLength)
	}
}
