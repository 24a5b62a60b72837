package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/tools/benchmark/parse"
)

const gatePackage = "./caddymodule/gate"

// cores is how many the benchmarks run on, as the proxies do.
const cores = 2

// measureHandler runs the benchmarks of the gate's own package. With
// several processors a benchmark tells the time from one call to the next;
// on one of them a call takes that many times as long, or rather less.
func measureHandler(ctx context.Context, s *settings) ([]row, error) {
	memoryTimes, durableTimes := "2000000x", "500000x"
	if s.quick {
		memoryTimes, durableTimes = "100000x", "50000x"
	}
	memory, err := goBenchmark(ctx, s.repeats, "^BenchmarkMemory$/^accounts=(10000|1000000)$", memoryTimes, cores)
	if err != nil {
		return nil, err
	}
	single, err := goBenchmark(ctx, s.repeats, "^BenchmarkMemory$/^accounts=10000$", memoryTimes, 1)
	if err != nil {
		return nil, err
	}
	hash, err := goBenchmark(ctx, s.repeats, "^BenchmarkHash$", memoryTimes, 1)
	if err != nil {
		return nil, err
	}
	durable, err := goBenchmark(ctx, s.repeats, "^BenchmarkDurable$/^callers=256$", durableTimes, cores)
	if err != nil {
		return nil, err
	}
	few, err := results(memory, "BenchmarkMemory/accounts=10000", cores)
	if err != nil {
		return nil, err
	}
	alone, err := results(single, "BenchmarkMemory/accounts=10000", 1)
	if err != nil {
		return nil, err
	}
	hashed, err := results(hash, "BenchmarkHash", 1)
	if err != nil {
		return nil, err
	}
	many, err := results(memory, "BenchmarkMemory/accounts=1000000", cores)
	if err != nil {
		return nil, err
	}
	logged, err := results(durable, "BenchmarkDurable/callers=256", cores)
	if err != nil {
		return nil, err
	}
	return []row{
		{what: "gate handler, 10^4 tokens, in memory", bar: atMost(600), unit: asNanos, measured: nanos(few)},
		{what: "  on one processor alone", unit: asNanos, measured: nanos(alone)},
		{what: "  its allocations", bar: atMost(2), unit: asCount, measured: allocations(few)},
		{what: "  at 10^6 accounts, against 10^4", bar: atMost(2), unit: asRatio, measured: ratios(nanos(many), nanos(few))},
		{what: "gate handler, durable, 256 callers", bar: atMost(6000), unit: asMicros, measured: nanos(logged)},
		{what: "one SHA-256 of a token, to compare machines", unit: asNanos, measured: nanos(hashed)},
	}, nil
}

// goBenchmark runs benchmarks of the gate's package several times, each
// for a fixed number of calls: with a fixed time, go test would prepare
// their accounts anew for each guess at that number.
func goBenchmark(ctx context.Context, count int, pattern, times string, processors int) (parse.Set, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchmem", "-benchtime", times,
		"-count", strconv.Itoa(count), "-cpu", strconv.Itoa(processors), gatePackage)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("running go test: %w: %s", err, output)
	}
	return parse.ParseSet(bytes.NewReader(output))
}

// results are the repetitions of one benchmark on so many processors,
// which go test appends to its name unless it is one.
func results(set parse.Set, name string, processors int) ([]*parse.Benchmark, error) {
	if processors > 1 {
		name += "-" + strconv.Itoa(processors)
	}
	if list := set[name]; len(list) > 0 {
		return list, nil
	}
	var found []string
	for other := range set {
		found = append(found, other)
	}
	return nil, fmt.Errorf("go test ran no %s but [%s]", name, strings.Join(found, " "))
}

func nanos(list []*parse.Benchmark) (s samples) {
	for _, b := range list {
		s = append(s, b.NsPerOp)
	}
	return s
}

func allocations(list []*parse.Benchmark) (s samples) {
	for _, b := range list {
		s = append(s, float64(b.AllocsPerOp))
	}
	return s
}
