package main

import (
	"math"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		row  row
		want string
	}{
		"above at least":           {row{bar: atLeast(0.95), measured: samples{0.96}, noise: samples{1}, neutral: 1}, "held"},
		"at the bar":               {row{bar: atLeast(0.95), measured: samples{0.95}, noise: samples{1}, neutral: 1}, "held"},
		"below at least":           {row{bar: atLeast(0.95), measured: samples{0.94}, noise: samples{1.001}, neutral: 1}, "missed"},
		"below by less than noise": {row{bar: atLeast(0.95), measured: samples{0.94}, noise: samples{0.98}, neutral: 1}, "within the noise"},
		"below at most":            {row{bar: atMost(15), measured: samples{14}, noise: samples{0}}, "held"},
		"above at most":            {row{bar: atMost(15), measured: samples{17}, noise: samples{-1}}, "missed"},
		"above by less than noise": {row{bar: atMost(15), measured: samples{17}, noise: samples{-3}}, "within the noise"},
		"repeated alike":           {row{bar: atMost(600), measured: samples{609, 610, 611}}, "missed"},
		"repeated apart":           {row{bar: atMost(600), measured: samples{590, 610, 620}}, "within the noise"},
		"no bar":                   {row{measured: samples{5}}, "no bar"},
		"not a number":             {row{bar: atMost(5), measured: samples{math.NaN()}}, "missed"},
		"nothing measured":         {row{bar: atLeast(5)}, "missed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.row.verdict(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := printTable(&out, []row{
		{what: "rate", bar: atLeast(0.95), unit: asRatio, measured: samples{0.97, 0.99, 0.96}, noise: samples{1.01, 1, 0.98}, neutral: 1},
		{what: "handler", bar: atMost(600), unit: asNanos, measured: samples{500, 520}},
		{what: "start", unit: asSecs, measured: samples{1.5e9}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `what      bar        measured                  noise (A/A)               verdict
rate      ≥ 0.950    0.970 (0.960 … 0.990)     1.000 (0.980 … 1.010)     held
handler   ≤ 600 ns   510 ns (500 ns … 520 ns)  ± 10 ns                   held
start     none       1.50 s                    one run                   no bar
`
	if got := strings.Join(strings.Fields(out.String()), " "); got != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant, whatever the spaces,\n%s", out.String(), want)
	}
}
