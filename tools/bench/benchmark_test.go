package main

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/benchmark/parse"
)

const benchmarkOutput = `goos: linux
goarch: amd64
pkg: github.com/caddy-tollgate/tollgate/caddymodule/gate
BenchmarkMemory/accounts=10000         	 2000000	       583.5 ns/op	      24 B/op	       1 allocs/op
BenchmarkMemory/accounts=10000         	 2000000	       590.1 ns/op	      24 B/op	       2 allocs/op
BenchmarkDurable/accounts=100/callers=256-2         	  500000	      3100 ns/op	      48 B/op	       1 allocs/op
PASS
`

func TestResults(t *testing.T) {
	t.Parallel()
	set, err := parse.ParseSet(strings.NewReader(benchmarkOutput))
	if err != nil {
		t.Fatal(err)
	}
	var alone, durable benchmark
	if alone.results, err = results(set, "BenchmarkMemory/accounts=10000", 1); err != nil {
		t.Fatal(err)
	}
	if got, want := alone.nanos(), (samples{583.5, 590.1}); !slices.Equal(got, want) {
		t.Errorf("got %v ns, want %v", got, want)
	}
	if got, want := alone.allocations(), (samples{1, 2}); !slices.Equal(got, want) {
		t.Errorf("got %v allocations, want %v", got, want)
	}
	durable.results, err = results(set, "BenchmarkDurable/accounts=100/callers=256", 2)
	if err != nil || !slices.Equal(durable.nanos(), samples{3100}) {
		t.Errorf("got %v ns, %v, want 3100", durable.nanos(), err)
	}
	// A benchmark that was renamed is not a bar that is held.
	if _, err := results(set, "BenchmarkGone", 1); err == nil || !strings.Contains(err.Error(), "BenchmarkDurable/accounts=100/callers=256-2") {
		t.Errorf("got %v, want an error that names what was found", err)
	}
}
