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
		"above at least":           {row{target: atLeast(0.95), measured: values{0.96}, noise: values{1}, expected: 1}, "reached"},
		"at the limit":             {row{target: atLeast(0.95), measured: values{0.95}, noise: values{1}, expected: 1}, "reached"},
		"below at least":           {row{target: atLeast(0.95), measured: values{0.94}, noise: values{1.001}, expected: 1}, "missed"},
		"below by less than noise": {row{target: atLeast(0.95), measured: values{0.94}, noise: values{0.98}, expected: 1}, "within the noise"},
		"below at most":            {row{target: atMost(15), measured: values{14}, noise: values{0}}, "reached"},
		"above at most":            {row{target: atMost(15), measured: values{17}, noise: values{-1}}, "missed"},
		"above by less than noise": {row{target: atMost(15), measured: values{17}, noise: values{-3}}, "within the noise"},
		"repeated, close":          {row{target: atMost(600), measured: values{609, 610, 611}}, "missed"},
		"repeated, apart":          {row{target: atMost(600), measured: values{590, 610, 620}}, "within the noise"},
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
