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
	const output = `BenchmarkMemory/accounts=10000-2 2000000 600 ns/op 24 B/op 1 allocs/op
BenchmarkFloor-2 2000000 400 ns/op 24 B/op 1 allocs/op
BenchmarkMemory/accounts=1000000-2 2000000 1200 ns/op 24 B/op 1 allocs/op
BenchmarkDurable/accounts=100/limits=1-2 500000 1600 ns/op 48 B/op 1 allocs/op
BenchmarkDurable/accounts=100/limits=4-2 500000 2000 ns/op 48 B/op 1 allocs/op
BenchmarkDurable/accounts=10000/limits=1-2 500000 1700 ns/op 48 B/op 1 allocs/op
BenchmarkDurable/accounts=10000/limits=4-2 500000 2500 ns/op 48 B/op 1 allocs/op
BenchmarkMatch/hit/routes=10-2 10000000 50 ns/op 0 B/op 0 allocs/op
BenchmarkMatch/hit/routes=1000-2 10000000 60 ns/op 0 B/op 0 allocs/op
BenchmarkScanner/events-2 20000 10000 ns/op 10240.00 MB/s 1 B/op 1 allocs/op
BenchmarkScanner/chat-2 20000 10000 ns/op 5120.00 MB/s 1 B/op 1 allocs/op
PASS
`
	rows, err := handlerRows(output+strings.ReplaceAll(output, " 2000 ns/op", " 2100 ns/op"), inH(values{80, 100}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []values{{600, 600}, {400, 400}, {1.5, 1.5}, {1, 1}, {2, 2}, {1600, 1600}, {400, 500}, {800, 800}, {1.2, 1.2}, {100, 100}, {200, 200}} {
		if r := rows[i]; !slices.Equal(r.measured, want) {
			t.Errorf("%s: got %v, want %v", r.what, r.measured, want)
		}
	}
	if got := rows[6].multiples(rows[6].measured); math.Abs(got.median()-5) > 1e-9 {
		t.Errorf("four limits: got %v H, want 5", got)
	}
	if _, err := handlerRows(strings.ReplaceAll(output, "BenchmarkFloor", "BenchmarkGround"), inH(nil)); err == nil || !strings.Contains(err.Error(), "BenchmarkGround") {
		t.Errorf("got %v, want an error that lists the results", err)
	}
}
