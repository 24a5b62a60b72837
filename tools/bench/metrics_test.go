package main

import (
	"slices"
	"testing"
)

func TestFindMetrics(t *testing.T) {
	t.Parallel()
	const text = "# TYPE commit_calls histogram\ncommit_calls_bucket{le=\"1\"} 3\ncommit_calls_sum 12.5\ncommit_calls_count 4\nbytes 1e+06\nempty \n"
	got, err := findMetrics(text, "commit_calls_count", "bytes", "commit_calls_sum")
	if want := (values{4, 1e6, 12.5}); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, name := range []string{"commit_calls", "calls_sum", "empty"} {
		if got, err := findMetrics(text, name); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}
