package main

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

const (
	maxSpike = 0.02
	// maxReach is how many neighbours on each side a value is compared with,
	// at most.
	maxReach = 3

	spikeRule = "a value is more than 2 % from the median of its neighbours, one to three on each side, and the next one comes back: to that median, to the value before, or at least half of the way"
)

// series is the values of a currency by day.
type series map[civil.Date]float64

// leaveOutSpikes deletes the values that jump and come back at once from the
// file, the worst first, until none is left. It returns them with their
// percentage. Neighbours are the values of all releases, those of the file,
// and those of the file and the bank together.
func leaveOutSpikes(file, releases, bank series) map[civil.Date]string {
	left := make(map[civil.Date]string)
	served := maps.Clone(bank)
	maps.Copy(served, file)
	for reach := maxReach; reach > 0; {
		date, off := worstSpike(reach, file, releases, file, served)
		if off == 0 {
			reach--
			continue
		}
		left[date] = fmt.Sprintf("%.2f", 100*off)
		for _, view := range []series{file, releases, served} {
			delete(view, date)
		}
		reach = maxReach
	}
	return left
}

// worstSpike returns the value of the file that is furthest from its
// neighbours in one of the views and comes back, 0 without any.
func worstSpike(reach int, file series, views ...series) (worst civil.Date, off float64) {
	for _, view := range views {
		dates := slices.Sorted(maps.Keys(view))
		values := make([]float64, len(dates))
		for i, date := range dates {
			values[i] = view[date]
		}
		for i, date := range dates {
			if _, judged := file[date]; judged {
				if d := spike(values, i, reach); d > off {
					worst, off = date, d
				}
			}
		}
	}
	return worst, off
}

// spike returns how far a value is from the median of its neighbours, reach on
// each side, if the next one is back; or 0. The first and the last value have
// neighbours on one side only.
func spike(values []float64, i, reach int) float64 {
	if i == 0 || i == len(values)-1 {
		return 0
	}
	value, before, after := values[i], values[i-1], values[i+1]
	left, right := values[max(0, i-reach):i], values[i+1:min(len(values), i+1+reach)]
	middle := median(slices.Concat(left, right))
	off := deviation(value, middle)
	if off <= maxSpike {
		return 0
	}
	near := deviation(after, middle) <= maxSpike
	if near && deviation(before, middle) <= maxSpike {
		return off
	}
	// A median of more neighbours on one side is not between the two sides: a
	// step or a drift at the end of the series would be far from it.
	step, next := value-before, after-value
	turned := deviation(value, before) > maxSpike && step*next < 0 && math.Abs(next) >= math.Abs(step)/2
	if len(left) == len(right) && (near || turned || deviation(after, before) <= maxSpike) {
		return off
	}
	return 0
}

// seriesOf returns the values of a currency.
func seriesOf(days []day, code currency.Code) series {
	s := make(series)
	for _, d := range days {
		if value, found := d.values[code]; found {
			s[d.release.date] = number(value)
		}
	}
	return s
}

// bankSeries returns the bank's values of a currency since the first of the
// days. Earlier ones are no neighbours that matter.
func bankSeries(bank *rates.Dataset, days []day, code currency.Code) series {
	s := make(series)
	for published := range bank.All() {
		if published.Date() < days[0].release.date {
			continue
		}
		if value, found := published.Value(code); found {
			s[published.Date()] = number(value.String())
		}
	}
	return s
}
