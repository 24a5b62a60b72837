package account

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlineOfPage: the calls of a page have one deadline, which begins with
// the first call and not with the work before it.
func TestDeadlineOfPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page := OfPage(t.Context())
		time.Sleep(time.Minute)
		want := time.Now().Add(gateTimeout)
		for range 2 {
			call, cancel := OfCall(page)
			cancel()
			if got, _ := call.Deadline(); !got.Equal(want) {
				t.Errorf("got %v, want %v", got, want)
			}
			time.Sleep(time.Second)
		}
	})
}
