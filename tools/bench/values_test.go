package main

import (
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of   values
		want float64
	}{
		"one":   {values{3}, 3},
		"odd":   {values{9, 1, 4}, 4},
		"even":  {values{4, 1, 9, 2}, 3},
		"equal": {values{2, 2, 2, 8}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(test.of)
			if got := test.of.median(); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if !slices.Equal(test.of, before) {
				t.Errorf("median changed the values to %v, from %v", test.of, before)
			}
		})
	}
	if got := (values{}).median(); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestUncertainty(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of   values
		want float64
	}{
		"equal":    {values{1, 1, 1, 1}, 0},
		"shifted":  {values{1.02, 1.02, 1.02, 1.02}, 0.02},
		"apart":    {values{0.9, 0.9, 1.1, 1.1}, 0.093},
		"one":      {values{0.97}, 0.03},
		"outliers": {values{0.5, 1, 1, 1, 1}, 0},
	} {
		if got := test.of.uncertainty(1); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestAt(t *testing.T) {
	t.Parallel()
	v := values{5, 1, 4, 2, 3}
	for part, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 4, 1: 5} {
		if got := v.at(part); got != want {
			t.Errorf("%v: got %v, want %v", part, got, want)
		}
	}
}
