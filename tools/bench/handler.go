package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/benchmark/parse"
)

// handlerRuns are the runs of benchmarks of a package, with two processors: a
// benchmark measures the time from one call to the next. The number of calls is
// fixed: with a fixed duration, each benchmark would create its accounts for
// each estimate of that number.
var handlerRuns = []struct {
	in, pattern string
	calls       int
}{
	{"gate", "^BenchmarkMemory$/^accounts=(10000|1000000)$", 2_000_000},
	{"gate", "^BenchmarkFloor$", 2_000_000},
	{"gate", "^BenchmarkDurable$", 500_000},
	{"policy", "^BenchmarkMatch$/^hit$/^routes=(10|1000)$", 10_000_000},
	{"tell", "^BenchmarkScanner$/^(events|chat)$", 20_000},
}

// measureHandler runs the benchmarks of the gate, its routes and its scanner of costs.
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
	nanos := func(name string) values {
		list := results["Benchmark"+name+"-2"]
		if len(list) == 0 && err == nil {
			err = fmt.Errorf("no result of %s in\n%s", name, output)
		}
		return valuesOf(list, func(r *parse.Benchmark) float64 { return r.NsPerOp })
	}
	few, floor, many := nanos("Memory/accounts=10000"), nanos("Floor"), nanos("Memory/accounts=1000000")
	one, four := nanos("Durable/accounts=100/limits=1"), nanos("Durable/accounts=100/limits=4")
	oneActive, fourActive := nanos("Durable/accounts=10000/limits=1"), nanos("Durable/accounts=10000/limits=4")
	fewRoutes, manyRoutes := nanos("Match/hit/routes=10"), nanos("Match/hit/routes=1000")
	scanned := func(shape string) values {
		nanos("Scanner/" + shape)
		return valuesOf(results["BenchmarkScanner/"+shape+"-2"], func(r *parse.Benchmark) float64 { return 1024e3 / r.MBPerS })
	}
	events, documents := scanned("events"), scanned("chat")
	allocations := valuesOf(results["BenchmarkMemory/accounts=10000-2"], func(r *parse.Benchmark) float64 { return float64(r.AllocsPerOp) })
	return []row{
		{what: "gate handler, 10^4 tokens, in memory", unit: asNanos, in: in, measured: few},
		{what: "  the smallest handler with the same results", unit: asNanos, in: in, measured: floor},
		{what: "  the one against the other", target: atMost(1.75), unit: asRatio, measured: ratios(few, floor)},
		{what: "  allocations", target: atMost(3), unit: asCount, measured: allocations},
		{what: "  10^6 accounts against 10^4", target: atMost(1.5), unit: asRatio, measured: ratios(many, few)},
		{what: "gate handler, durable, 256 callers", target: atMost(25), unit: asNanos, in: in, measured: one},
		{what: "  four limits against one, added time", target: atMost(12), unit: asNanos, in: in, measured: differences(four, one)},
		{what: "  10,000 active accounts, four limits against one", target: atMost(12), unit: asNanos, in: in, measured: differences(fourActive, oneActive)},
		{what: "finding an endpoint, 1,000 routes against 10", target: atMost(1.5), unit: asRatio, measured: ratios(manyRoutes, fewRoutes)},
		{what: "a KB of an answer in events, searched for its cost", target: atMost(1), unit: asNanos, in: in, measured: events},
		{what: "  in a JSON document", unit: asNanos, in: in, measured: documents},
	}, err
}

// runBenchmarks builds the benchmarks once and repeats all of them in turn,
// and returns what they print, and H of each repetition.
func runBenchmarks(ctx context.Context, b *bench) (output string, hashes values, err error) {
	if text, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", b.dir, "./internal/gate", "./internal/policy", "./internal/gate/tell").CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("building the benchmarks: %w: %s", err, text)
	}
	var all bytes.Buffer
	for range b.repeats {
		near := values{hashTime()}
		for _, r := range handlerRuns {
			if b.quick {
				r.calls = min(r.calls, 100_000)
			}
			text, err := exec.CommandContext(ctx, filepath.Join(b.dir, r.in+".test"), "-test.run", "^$", "-test.bench", r.pattern, "-test.benchmem",
				"-test.benchtime", strconv.Itoa(r.calls)+"x", "-test.cpu", "2").CombinedOutput()
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
