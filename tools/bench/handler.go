package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/benchmark/parse"
)

// cores is the number of processors of a benchmark, unless it uses one.
const cores = 2

// handlerRuns are the runs of the gate's benchmarks. The number of calls is
// fixed: with a fixed duration, each benchmark would create its accounts
// for each estimate of that number.
var handlerRuns = []struct {
	pattern           string
	calls, processors int
}{
	{"^BenchmarkMemory$/^accounts=(10000|1000000)$", 2_000_000, cores},
	{"^BenchmarkFloor$", 2_000_000, cores},
	{"^BenchmarkMemory$/^accounts=10000$", 2_000_000, 1},
	{"^BenchmarkMemoryQuiet$", 2_000_000, 1},
	{"^BenchmarkDurable$", 500_000, cores},
}

// measureHandler runs the benchmarks of the gate's package. With two
// processors a benchmark measures the time from one call to the next.
func measureHandler(ctx context.Context, b *bench) ([]row, error) {
	output, hashes, err := runBenchmarks(ctx, b)
	if err != nil {
		return nil, err
	}
	return handlerRows(output, inH(hashes))
}

// handlerRows reads the output of the benchmarks.
func handlerRows(output string, in timeUnit) ([]row, error) {
	results, err := parse.ParseSet(strings.NewReader(output))
	if err != nil {
		return nil, err
	}
	few, alone := name("Memory/accounts=10000", cores), name("Memory/accounts=10000", 1)
	floor := name("Floor", cores)
	many, quiet := name("Memory/accounts=1000000", cores), name("MemoryQuiet", 1)
	one, four := name("Durable/accounts=100/limits=1", cores), name("Durable/accounts=100/limits=4", cores)
	oneActive, fourActive := name("Durable/accounts=10000/limits=1", cores), name("Durable/accounts=10000/limits=4", cores)
	for _, name := range []string{few, floor, alone, many, quiet, one, four, oneActive, fourActive} {
		if len(results[name]) == 0 {
			return nil, fmt.Errorf("no result of %s, only of %q", name, slices.Sorted(maps.Keys(results)))
		}
	}
	nanos := func(name string) values {
		return valuesOf(results[name], func(r *parse.Benchmark) float64 { return r.NsPerOp })
	}
	allocations := valuesOf(results[few], func(r *parse.Benchmark) float64 { return float64(r.AllocsPerOp) })
	return []row{
		{what: "gate handler, 10^4 tokens, in memory", unit: asNanos, in: in, measured: nanos(few)},
		{what: "  against the smallest handler with the same results", target: atMost(1.75), unit: asRatio, measured: ratios(nanos(few), nanos(floor))},
		{what: "  the smallest handler", unit: asNanos, in: in, measured: nanos(floor)},
		{what: "  on one processor", unit: asNanos, in: in, measured: nanos(alone)},
		{what: "  on one processor, fastest tenth of the batches", unit: asNanos, in: in, measured: nanos(quiet)},
		{what: "  allocations", target: atMost(3), unit: asCount, measured: allocations},
		{what: "  10^6 accounts against 10^4", target: atMost(1.5), unit: asRatio, measured: ratios(nanos(many), nanos(few))},
		{what: "gate handler, durable, 256 callers", target: atMost(25), unit: asNanos, in: in, measured: nanos(one)},
		{what: "  four limits against one, added time", target: atMost(12), unit: asNanos, in: in, measured: differences(nanos(four), nanos(one))},
		{what: "  10,000 active accounts", unit: asNanos, in: in, measured: nanos(oneActive)},
		{what: "  10,000 active accounts, four limits against one", target: atMost(12), unit: asNanos, in: in, measured: differences(nanos(fourActive), nanos(oneActive))},
		{what: "SHA-256 of a token (H)", unit: asNanos, measured: in.sizes},
	}, nil
}

// name is the name of a result: go test appends the number of processors,
// unless it is one.
func name(benchmark string, processors int) string {
	if processors > 1 {
		benchmark += "-" + strconv.Itoa(processors)
	}
	return "Benchmark" + benchmark
}

// runBenchmarks builds the benchmarks once and repeats all of them in turn,
// and returns what they print, and H of each repetition.
func runBenchmarks(ctx context.Context, b *bench) (output string, hashes values, err error) {
	program := filepath.Join(b.dir, "gate.test")
	if text, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./internal/gate").CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("building the benchmarks: %w: %s", err, text)
	}
	var all bytes.Buffer
	for range b.repeats {
		near := values{hashTime()}
		for _, r := range handlerRuns {
			if b.quick {
				r.calls = 100_000
			}
			text, err := exec.CommandContext(ctx, program, "-test.run", "^$", "-test.bench", r.pattern, "-test.benchmem",
				"-test.benchtime", strconv.Itoa(r.calls)+"x", "-test.cpu", strconv.Itoa(r.processors)).CombinedOutput()
			if err != nil {
				return "", nil, fmt.Errorf("running %s: %w: %s", r.pattern, err, text)
			}
			all.Write(text)
			near = append(near, hashTime())
		}
		hashes = append(hashes, near.median())
	}
	return all.String(), hashes, nil
}
