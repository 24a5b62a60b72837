package main

import "testing"

func TestParseCPUTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stat string
		want cpuTime // 0 for an error
	}{
		"all":         {"cpu  100 20 30 9999 8888 4 5 41 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n", cpuTime{200, 41}},
		"without any": {"cpu 1 1 1 1 1 1 1 0\n", cpuTime{5, 0}},
		"no steal":    {"cpu 1 1 1 1 1 1 1\n", cpuTime{}},
		"no number":   {"cpu 1 1 x 1 1 1 1 1\n", cpuTime{}},
		"other line":  {"cpu0 1 1 1 1 1 1 1 1\n", cpuTime{}},
		"empty":       {"", cpuTime{}},
	} {
		got, err := parseCPUTime(test.stat)
		if got != test.want && err == nil || (err != nil) != (test.want == cpuTime{}) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, test.want)
		}
	}
}

func TestStolenSince(t *testing.T) {
	t.Parallel()
	before := cpuTime{wanted: 1000, stolen: 50}
	for want, after := range map[float64]cpuTime{0.25: {1400, 150}, 0: before} {
		if got := after.stolenSince(before); got != want {
			t.Errorf("%+v: got %v, want %v", after, got, want)
		}
	}
}
