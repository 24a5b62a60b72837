// Package heaptest measures how much memory a value keeps, for the tests of
// the bounds in docs/guarantees.md.
package heaptest

import (
	"runtime"
	"testing"
)

// Holds fails the test if what fill returns keeps more than so many bytes of
// the heap: also those of a long text of which it has a part. fill must not
// keep anything else. A test that calls it must not be parallel.
func Holds(t testing.TB, name string, most int64, fill func() (kept any)) {
	t.Helper()
	before := live()
	kept := fill()
	held := live() - before
	runtime.KeepAlive(kept)
	t.Logf("%s: %.1f MiB of %.1f MiB", name, float64(held)/(1<<20), float64(most)/(1<<20))
	if held > most {
		t.Errorf("%s keeps %d bytes, want at most %d", name, held, most)
	}
}

// live returns the bytes of the objects that are still in use.
func live() int64 {
	// The second run frees what the first one moved out of the pools.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
