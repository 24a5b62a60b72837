package login

import (
	"testing"
)

// The largest rows that limits allow must fit, and a cell has the size that the
// interface states.
func TestLargestRowFits(t *testing.T) {
	t.Parallel()
	client := 8 * maxPerClient * (1 + successesPerAttempt)
	failed, known := failureSize*maxFailures, maxKnown*(knownClientSize+8*maxFailures)
	if largest, fits := max(client, failed, known), slotSizes[len(slotSizes)-1]; largest > fits {
		t.Errorf("got rows of up to %d bytes, want at most %d", largest, fits)
	}
	if largest := 3 + max(client, failed+known); largest > 42<<10 {
		t.Errorf("got cells of up to %d bytes, want at most 42 KiB", largest)
	}
	extreme := Limits{Free: maxFree, FirstWait: 1e9, MaxWait: maxWait, Forget: maxKeep}
	if got := extreme.failuresToMaxWait() + spare; got > maxFailures {
		t.Errorf("got %d failures to remember, want at most %d", got, maxFailures)
	}
}
