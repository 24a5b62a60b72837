package gate_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestLogged: an access log and the recent calls get the cost that the store has
// counted, and why a call was refused or failed.
func TestLogged(t *testing.T) {
	t.Parallel()
	away := func(http.ResponseWriter, *http.Request) error { return failure(http.StatusBadGateway) }
	for name, test := range map[string]struct {
		mode  policy.Mode
		used  int
		store func(gate.Store) gate.Store
		next  handlerFunc
		cost  int64
		code  string
	}{
		"served":              {cost: 1},
		"refused":             {used: 5, code: "quota_exceeded"},
		"passed in shadow":    {mode: policy.Shadow, used: 5, code: "quota_exceeded"},
		"refunded":            {next: away, code: "upstream_unreachable"},
		"the store is away":   {store: func(s gate.Store) gate.Store { return takeFails{t, s, store.ErrUnavailable, new(atomic.Int64)} }, code: "unavailable"},
		"shadow and refunded": {mode: policy.Shadow, next: away, code: "upstream_unreachable"},
	} {
		w := newWorld(t, func(c *policy.Config) { c.Mode = test.mode })
		bearer := w.account(t, "acc_1")
		for range test.used {
			w.get(t, convert, bearer)
		}
		if test.store != nil {
			w.store = test.store(w.store)
		}
		if test.next != nil {
			w.next = test.next
		}
		w.get(t, convert, bearer)
		got, _ := w.last.Lookup("http.tollgate.call")
		want := gate.Logged{Account: "acc_1", Key: "key_acc_1", Endpoint: "convert", Day: w.gate.Policy.Calendar.At(noon).Day, Cost: test.cost, Code: test.code}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		recent, err := w.db.Recent(t.Context(), "acc_1", noon)
		recorded := -int64(test.used) // the calls before
		for _, r := range recent {
			recorded += r.Cost
		}
		if err != nil || recorded != test.cost {
			t.Errorf("%s: recorded the cost %d (%v), want %d", name, recorded, err, test.cost)
		}
	}
}
