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
