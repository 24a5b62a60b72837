package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The handler rows have the values of the gate's benchmarks. A renamed
// benchmark is an error and not a missing row.
func TestHandlerRows(t *testing.T) {
	t.Parallel()
	var output strings.Builder
	for _, line := range []string{
		"Memory/accounts=10000-2 2000000 583.5 ns/op 24 B/op 1 allocs/op",
		"Floor-2 2000000 389 ns/op 24 B/op 1 allocs/op",
		"Memory/accounts=1000000-2 2000000 1167 ns/op 24 B/op 1 allocs/op",
		"Memory/accounts=10000 2000000 900 ns/op 24 B/op 1 allocs/op",
		"MemoryQuiet 2000000 800 ns/op 24 B/op 1 allocs/op",
		"Durable/accounts=100/limits=1-2 500000 1600 ns/op 48 B/op 1 allocs/op",
		"Durable/accounts=100/limits=4-2 500000 2000 ns/op 48 B/op 1 allocs/op",
		"Durable/accounts=10000/limits=1-2 500000 1700 ns/op 48 B/op 1 allocs/op",
		"Durable/accounts=10000/limits=4-2 500000 2500 ns/op 48 B/op 1 allocs/op",
	} {
		output.WriteString("Benchmark" + line + "\n")
	}
	repeated := output.String() + "PASS\n" + strings.ReplaceAll(output.String(), " 2000 ns/op", " 2100 ns/op")
	rows, err := handlerRows(repeated, inH(values{80, 100}))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]values{}
	for _, r := range rows {
		got[strings.TrimSpace(r.what)] = r.measured
	}
	for what, want := range map[string]values{
		"gate handler, 10^4 tokens, in memory":               {583.5, 583.5},
		"against the smallest handler with the same results": {1.5, 1.5},
		"the smallest handler":                               {389, 389},
		"allocations":                                        {1, 1},
		"10^6 accounts against 10^4":                         {2, 2},
		"four limits against one, added time":                {400, 500},
		"10,000 active accounts, four limits against one":    {800, 800},
		"SHA-256 of a token (H)":                             {80, 100},
		"on one processor, fastest tenth of the batches":     {800, 800},
		"gate handler, durable, 256 callers":                 {1600, 1600},
		"on one processor":                                   {900, 900},
		"10,000 active accounts":                             {1700, 1700},
	} {
		if !slices.Equal(got[what], want) {
			t.Errorf("%s: got %v, want %v", what, got[what], want)
		}
	}
	for what, want := range map[string]float64{"gate handler, 10^4 tokens, in memory": (583.5/80 + 583.5/100) / 2, "four limits against one, added time": 5} {
		i := slices.IndexFunc(rows, func(r row) bool { return strings.TrimSpace(r.what) == what })
		if got := rows[i].multiples(rows[i].measured).median(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: got %v H, want %v", what, got, want)
		}
	}
	_, err = handlerRows(strings.ReplaceAll(repeated, "BenchmarkMemoryQuiet", "BenchmarkCalm"), inH(values{80}))
	if err == nil || !strings.Contains(err.Error(), "BenchmarkCalm") {
		t.Errorf("got %v, want an error that lists the results", err)
	}
}
