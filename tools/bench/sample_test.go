package main

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of   samples
		want float64
	}{
		"one":   {samples{3}, 3},
		"odd":   {samples{9, 1, 4}, 4},
		"even":  {samples{4, 1, 9, 2}, 3},
		"alike": {samples{2, 2, 2, 8}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(test.of)
			if got := test.of.median(); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if !slices.Equal(test.of, before) {
				t.Errorf("the samples are %v now, they were %v", test.of, before)
			}
		})
	}
	if got := (samples{}).median(); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

// Half of the samples are at the median or below it and half at it or
// above it, whatever their order.
func TestMedianHalves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := samples(rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 40).Draw(t, "samples"))
		median, below, above := s.median(), 0, 0
		for _, v := range s {
			if v <= median {
				below++
			}
			if v >= median {
				above++
			}
		}
		if 2*below < len(s) || 2*above < len(s) {
			t.Fatalf("%d of %d are at most %v, %d at least", below, len(s), median, above)
		}
	})
}

func TestSpreadAndDeviation(t *testing.T) {
	t.Parallel()
	s := samples{0.9, 1.3, 1}
	if got := s.spread(); math.Abs(got-0.2) > 1e-9 {
		t.Errorf("the spread is %v, want 0.2", got)
	}
	if got := s.deviation(1); math.Abs(got-0.1) > 1e-9 {
		t.Errorf("the deviation from 1 is %v, want 0.1", got)
	}
	if got := (samples{7}).spread(); got != 0 {
		t.Errorf("the spread of one is %v", got)
	}
}

func TestPairs(t *testing.T) {
	t.Parallel()
	a, b := samples{6, 9, 1}, samples{2, 3}
	if got, want := ratios(a, b), (samples{3, 3}); !slices.Equal(got, want) {
		t.Errorf("ratios: got %v, want %v", got, want)
	}
	if got, want := differences(a, b), (samples{4, 6}); !slices.Equal(got, want) {
		t.Errorf("differences: got %v, want %v", got, want)
	}
}
