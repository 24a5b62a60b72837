package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestFullBucketsAreRemoved: the number of buckets follows those in use, not
// all that were ever used.
func TestFullBucketsAreRemoved(t *testing.T) {
	t.Parallel()
	const inUse, rounds = 1000, 20
	l := New(nil)
	limits, rooms := []store.Limit{{Endpoint: "convert", Period: store.Second, Max: 1}}, make([]store.Room, 1)
	at := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	for i := range rounds * inUse {
		call := store.Call{Account: fmt.Sprintf("acc_%d", i), Endpoint: "convert", At: at}
		if admitted, err := l.Take(call, limits, rooms); !admitted || err != nil {
			t.Fatalf("take %d: %v, %v", i, admitted, err)
		}
		at = at.Add(time.Second / inUse)
	}
	if got := len(l.counts.paces.buckets); got < inUse || got > 2*inUse {
		t.Errorf("got %d buckets, want about %d", got, inUse)
	}
}

// TestClockOfPaces: the clock of paces is monotonic. A date that is set back
// empties no pace for days.
func TestClockOfPaces(t *testing.T) {
	t.Parallel()
	l := New(nil)
	limits, rooms := []store.Limit{{Endpoint: "convert", Period: store.Second, Max: 1}}, make([]store.Room, 1)
	if _, err := l.Take(store.Call{Account: "acc_1", Endpoint: "convert", At: time.Now()}, limits, rooms); err != nil {
		t.Fatal(err)
	}
	if epoch := l.counts.paces.epoch.String(); !strings.Contains(epoch, " m=") {
		t.Errorf("%s has no monotonic reading", epoch)
	}
}
