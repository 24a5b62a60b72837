package main

import (
	"math"
	"slices"
)

// values are repeated measurements of one thing.
type values []float64

// valuesOf takes one value from each item.
func valuesOf[T any](items []T, value func(T) float64) values {
	list := make(values, len(items))
	for i, item := range items {
		list[i] = value(item)
	}
	return list
}

// median returns NaN if there are no values.
func (v values) median() float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(v))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread is half the distance from the smallest to the largest.
func (v values) spread() float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return (slices.Max(v) - slices.Min(v)) / 2
}

// deviation is the median distance from a value.
func (v values) deviation(from float64) float64 {
	return valuesOf(v, func(value float64) float64 { return math.Abs(value - from) }).median()
}

// uncertainty is how far the median of values can be from what it would be
// without noise. Values of equal sides show it: the distance of their median
// from the expected value, or the standard error of the median, if larger.
func (v values) uncertainty(expected float64) float64 {
	const perDeviation = 1.86 // of a normal distribution
	median := v.median()
	return max(math.Abs(median-expected), perDeviation*v.deviation(median)/math.Sqrt(float64(len(v))))
}

// at returns the value that a part of the values are not above.
func (v values) at(part float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[int(part*float64(len(sorted)-1))]
}

// ratios divides the values of each round.
func ratios(a, b values) values {
	return pairs(a, b, func(a, b float64) float64 { return a / b })
}

// differences subtracts the values of each round.
func differences(a, b values) values {
	return pairs(a, b, func(a, b float64) float64 { return a - b })
}

func pairs(a, b values, combine func(a, b float64) float64) values {
	list := make(values, min(len(a), len(b)))
	for i := range list {
		list[i] = combine(a[i], b[i])
	}
	return list
}
