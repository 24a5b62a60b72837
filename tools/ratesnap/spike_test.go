package main

import (
	"fmt"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// seriesFrom returns values of consecutive days, without the zeros.
func seriesFrom(first civil.Date, values ...float64) series {
	s := make(series)
	for i, value := range values {
		if value != 0 {
			s[first+civil.Date(i)] = value
		}
	}
	return s
}

// The values are of releases.
func TestSpikes(t *testing.T) {
	t.Parallel()
	first := civil.New(2026, 1, 1)
	tests := []struct {
		name, want string
		file       []float64
		bank       []float64
	}{
		{"MNT: a value of another unit, and none beside it", "map[2026-01-04:99.98]",
			[]float64{3693, 3658, 3675, 0.8267, 3646, 3689, 3614}, nil},
		{"two at once", "map[2026-01-03:5.00 2026-01-04:5.50]", []float64{1, 1, 1.05, 1.055, 1, 1, 1}, nil},
		{"three at once", "map[2026-01-03:5.00 2026-01-04:5.00 2026-01-05:5.00]", []float64{1, 1, 1.05, 1.05, 1.05, 1, 1}, nil},
		{"SSP: before a step", "map[2026-01-04:95.95]", []float64{1658, 1664, 1661, 141, 5301, 5300, 5304}, nil},
		{"IRR: a step", "map[]", []float64{49160, 49340, 1163000, 1163000, 1165000, 1241000}, nil},
		{"EGP: a step that goes on a bit too far", "map[]", []float64{33.54, 33.55, 54.05, 52, 52.02, 51.88, 50.68}, nil},
		{"a drift", "map[]", []float64{1, 1.03, 1.06, 1.09, 1.12, 1.15, 1.18}, nil},
		{"just inside", "map[]", []float64{1, 1, 1, 1.0199, 1, 1, 1}, nil},
		{"the first and the last value", "map[]", []float64{1.5, 1, 1, 1, 1, 1, 1.5}, nil},
		{"a weekend among others", "map[]", []float64{1, 0, 0, 0, 0, 0, 0, 1.03, 0, 0, 0, 0, 0, 0, 1.06}, nil},
		{"a weekend among the bank's days", "map[2026-01-08:3.00]",
			[]float64{1, 0, 0, 0, 0, 0, 0, 1.03, 0, 0, 0, 0, 0, 0, 1.06},
			[]float64{0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file, bank := seriesFrom(first, test.file...), seriesFrom(first, test.bank...)
			before := len(file)
			left := leaveOutSpikes(file, seriesFrom(first, test.file...), bank)
			if got := fmt.Sprint(left); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if len(file) != before-len(left) || len(bank) != len(seriesFrom(first, test.bank...)) {
				t.Errorf("%d values of the file and %d of the bank are left", len(file), len(bank))
			}
		})
	}
}

// The values of the releases that the file has not are neighbours, too.
func TestSpikeAmongReleases(t *testing.T) {
	t.Parallel()
	first := civil.New(2026, 1, 1)
	file := seriesFrom(first, 1, 0, 1.03, 0, 1.06)
	releases := seriesFrom(first, 1, 1, 1.03, 1, 1.06)
	if got, want := fmt.Sprint(leaveOutSpikes(file, releases, series{})), "map[2026-01-03:3.00]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
