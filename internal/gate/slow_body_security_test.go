package gate_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// A client can begin many requests and send their bodies later, all at once. A
// call begins when its body has arrived, so a pace admits no more of them than
// of other calls, and a key that was revoked meanwhile has no access.

// sendSlowly makes a call whose body arrives only after meanwhile has run.
func sendSlowly(t *testing.T, w *world, bearer string, meanwhile func()) *httptest.ResponseRecorder {
	t.Helper()
	r := marked(httptest.NewRequest("POST", batchPath, io.MultiReader(
		readerFunc(func([]byte) (int, error) { meanwhile(); return 0, io.EOF }),
		strings.NewReader(items(1)),
	)))
	r.Header.Set("Authorization", "Bearer "+bearer)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(items(1)))
	answer := httptest.NewRecorder()
	if err := w.gate.Serve(answer, r, w.next); err != nil {
		t.Error(err)
	}
	return answer
}

func TestSlowBodiesSaveNoCallsUp(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(1000)}, policy.LimitConfig{Endpoint: "batch", Period: "second", Limit: 10})
	bearer := w.account(t, "acc_1")
	var admitted atomic.Int64
	var calls sync.WaitGroup
	arrive := make(chan struct{})
	for i := range 30 { // a request each 100 ms, and all bodies at once
		w.set(noon.Add(time.Duration(i) * 100 * time.Millisecond))
		began := make(chan struct{})
		calls.Go(func() {
			answer := sendSlowly(t, w, bearer, func() { close(began); <-arrive })
			if answer.Code == http.StatusOK {
				admitted.Add(1)
			}
		})
		<-began
	}
	close(arrive)
	calls.Wait()
	if got := admitted.Load(); got != 10 {
		t.Errorf("%d calls are admitted at once, want 10", got)
	}
}

func TestSlowBodyCountsWhenItArrives(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(5)})
	bearer := w.account(t, "acc_1")
	midnight := noon.Add(12 * time.Hour)
	w.set(midnight.Add(-time.Second))
	answer := sendSlowly(t, w, bearer, func() { w.set(midnight.Add(30 * time.Second)) })
	if got, want := answer.Header().Get("Ratelimit"), `"batch";r=4;t=86370`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if before, after := w.used(t, "acc_1", "batch", noon), w.used(t, "acc_1", "batch", midnight); before != 0 || after != 1 {
		t.Errorf("got %d and %d calls on the two days, want 0 and 1", before, after)
	}
}

func TestSlowBodyOfRevokedKey(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(5)})
	bearer := w.account(t, "acc_1")
	w.next = noUpstream(t)
	answer := sendSlowly(t, w, bearer, func() {
		if err := w.db.RevokeKey(t.Context(), "acc_1", "key_acc_1", w.clock()); err != nil {
			t.Error(err)
		}
	})
	if answer.Code != http.StatusUnauthorized || w.used(t, "acc_1", "batch", noon) != 0 {
		t.Errorf("got %d and %d calls, want 401 and none", answer.Code, w.used(t, "acc_1", "batch", noon))
	}
}
