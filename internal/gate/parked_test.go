package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/heaptest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestParkedAreBounded: calls that programs do not settle, each of an account of its
// own with six limits, and what calls of theirs hold after that.
func TestParkedAreBounded(t *testing.T) {
	heaptest.Holds(t, "calls that are not settled", 48<<20, func() any {
		r, began := NewReservations(), time.Now()
		for i := range 2 * maxParked {
			account := fmt.Sprintf("acc_%060d", i)
			own := r.begin(&store.Call{Account: account, Endpoint: "convert", At: began})
			r.decided(own, true)
			r.park(callName{byte(i), byte(i >> 8), byte(i >> 16)}.of(account), own, make([]store.Room, 6), began.Add(settledWithin))
		}
		if n := len(r.accounts); n != maxParked {
			t.Errorf("%d accounts hold reservations", n)
		}
		return r
	})
}

// TestParkedAgain: a call of the next account with an id ends the reservation of the
// call that had its name.
func TestParkedAgain(t *testing.T) {
	t.Parallel()
	r, began := NewReservations(), time.Now()
	for range 2 {
		own := r.begin(&store.Call{Account: "acc_1", Endpoint: "convert", At: began})
		r.decided(own, true)
		r.park("call_x", own, nil, began.Add(settledWithin))
	}
	r.end("call_x")
	if n := len(r.accounts); n != 0 {
		t.Errorf("%d accounts hold reservations", n)
	}
}
