package main

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stat string
		want time.Duration // 0 for an error
	}{
		"plain":               {"4242 (caddy) S 1 4242 4242 0 -1 4194560 900 0 3 0 250 50 7 8 20 0 12 0 100 1 2\n", 3 * time.Second},
		"name like fields":    {"4242 (a) S 9 (9 9) S 1 4242 4242 0 -1 4194560 900 0 3 0 1 2 0 0 20 0\n", 30 * time.Millisecond},
		"ends before stime":   {"4242 (caddy) S 1 4242 4242 0 -1 4194560 900 0 3 0 250\n", 0},
		"utime is no number":  {"4242 (caddy) S 1 4242 4242 0 -1 4194560 900 0 3 0 x 50 7 8\n", 0},
		"stime is no number":  {"4242 (caddy) S 1 4242 4242 0 -1 4194560 900 0 3 0 250 x 7 8\n", 0},
		"no program's name":   {"4242 caddy S 1", 0},
		"nothing behind name": {"4242 (caddy)", 0},
		"empty":               {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStat(test.stat)
			if got != test.want || (err != nil) != (test.want == 0) {
				t.Errorf("got %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	const status = "Name:\tcaddy\nVmHWM:\t  999 kB\nVmRSS:\t   1234 kB\nRssAnon:\tmany kB\nThreads:\t9\n"
	for name, want := range map[string]int64{"VmRSS": 1234 << 10, "VmHWM": 999 << 10, "RssAnon": -1, "Threads": -1, "VmSwap": -1, "Vm": -1} {
		got, err := parseSize(status, name)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, want)
		}
	}
}

// The parsers meet the kernel that this runs on: this process has used
// some time and some memory.
func TestOwnProcess(t *testing.T) {
	t.Parallel()
	if _, err := processorTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	m, err := memoryOf(os.Getpid())
	if err != nil || min(m.resident, m.proportional, m.anonymous) < 1<<20 {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := memoryOf(-1); err == nil {
		t.Error("a process that cannot be has memory")
	}
}
