package main

import (
	"math"
	"slices"
)

// samples are repeated measurements of one thing.
type samples []float64

// median is the middle one, or the mean of the two in the middle; NaN of
// nothing.
func (s samples) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread is half the distance from the least to the greatest.
func (s samples) spread() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return (slices.Max(s) - slices.Min(s)) / 2
}

// deviation is the median distance from a value.
func (s samples) deviation(from float64) float64 {
	distances := make(samples, len(s))
	for i, v := range s {
		distances[i] = math.Abs(v - from)
	}
	return distances.median()
}

// ratios divides what was measured in the same round.
func ratios(a, b samples) samples {
	return pairs(a, b, func(a, b float64) float64 { return a / b })
}

// differences subtracts what was measured in the same round.
func differences(a, b samples) samples {
	return pairs(a, b, func(a, b float64) float64 { return a - b })
}

func pairs(a, b samples, combine func(a, b float64) float64) samples {
	list := make(samples, min(len(a), len(b)))
	for i := range list {
		list[i] = combine(a[i], b[i])
	}
	return list
}
