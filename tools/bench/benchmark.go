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
	few := benchmark{name: "BenchmarkMemory/accounts=10000", calls: 2_000_000, processors: cores}
	quiet := benchmark{name: "BenchmarkMemoryQuiet", calls: few.calls, processors: 1}
	alone := benchmark{name: few.name, calls: few.calls, processors: 1}
	many := benchmark{name: "BenchmarkMemory/accounts=1000000", calls: few.calls, processors: cores}
	durable := benchmark{name: "BenchmarkDurable/accounts=100/callers=256", calls: 500_000, processors: cores}
	active := benchmark{name: "BenchmarkDurable/accounts=10000/callers=256", calls: 500_000, processors: cores}
	hash := benchmark{name: "BenchmarkHash", calls: few.calls, processors: 1}
	for _, b := range []*benchmark{&few, &quiet, &alone, &many, &durable, &active, &hash} {
		if s.quick {
			b.calls = 100_000
		}
		if err := b.run(ctx, s.repeats); err != nil {
			return nil, err
		}
	}
	return []row{
		{what: "gate handler, 10^4 tokens, in memory", bar: atMost(600), unit: asNanos, measured: few.nanos()},
		{what: "  on one processor alone", unit: asNanos, measured: alone.nanos()},
		{what: "  on one, in the quietest tenth of its batches", unit: asNanos, measured: quiet.nanos()},
		{what: "  its allocations", bar: atMost(2), unit: asCount, measured: few.allocations()},
		{what: "  at 10^6 accounts, against 10^4", bar: atMost(2), unit: asRatio, measured: ratios(many.nanos(), few.nanos())},
		{what: "gate handler, durable, 256 callers", bar: atMost(6000), unit: asMicros, measured: durable.nanos()},
		{what: "  with 10,000 active accounts", unit: asMicros, measured: active.nanos()},
		{what: "one SHA-256 of a token, to compare machines", unit: asNanos, measured: hash.nanos()},
	}, nil
}

// benchmark is one of the gate's package.
type benchmark struct {
	name       string
	calls      int
	processors int
	results    []*parse.Benchmark
}

// run runs the benchmark several times, each for a fixed number of calls:
// with a fixed time, go test would prepare its accounts anew for each
// guess at that number.
func (b *benchmark) run(ctx context.Context, count int) error {
	pattern := "^" + strings.ReplaceAll(b.name, "/", "$/^") + "$"
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchmem", "-benchtime", strconv.Itoa(b.calls)+"x",
		"-count", strconv.Itoa(count), "-cpu", strconv.Itoa(b.processors), gatePackage)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running go test: %w: %s", err, output)
	}
	set, err := parse.ParseSet(bytes.NewReader(output))
	if err != nil {
		return err
	}
	b.results, err = results(set, b.name, b.processors)
	return err
}

func (b *benchmark) nanos() (s samples) {
	for _, result := range b.results {
		s = append(s, result.NsPerOp)
	}
	return s
}

func (b *benchmark) allocations() (s samples) {
	for _, result := range b.results {
		s = append(s, float64(result.AllocsPerOp))
	}
	return s
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
