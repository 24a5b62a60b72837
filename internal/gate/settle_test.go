package gate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

const rates = "/api/rates/EUR"

// reserving makes a world whose calls to rates take 4 of 20 before they tell
// what they cost.
func reserving(t testing.TB, change func(*policy.Config)) (w *world, bearer string) {
	t.Helper()
	w = newWorld(t, func(c *policy.Config) {
		c.Endpoints[1].CostAnswer = &policy.CostAnswerConfig{Header: "tollgate-cost", Reserve: 4}
		c.Plans[0].Limits["rates"] = number(20)
		if change != nil {
			change(c)
		}
	})
	return w, w.account(t, "acc_1")
}

// telling answers with a status and headers. A value of several lines is several
// headers. Trailers are announced.
func telling(status int, headers, trailers map[string]string) handlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) error {
		h := w.Header()
		for name, value := range headers {
			h[http.CanonicalHeaderKey(name)] = strings.Split(value, "\n")
		}
		for name := range trailers {
			h.Add("Trailer", name)
		}
		w.WriteHeader(status)
		for name, value := range trailers {
			h[name] = strings.Split(value, "\n")
		}
		return nil
	}
}

// TestSettle: the cost that a header or a trailer tells is counted, logged and
// recorded, once. Without it the reservation is the cost.
func TestSettle(t *testing.T) {
	t.Parallel()
	const reserved, limit = 4, 20
	header := func(value string) handlerFunc { return telling(200, map[string]string{"Tollgate-Cost": value}, nil) }
	trailer := func(value string) handlerFunc { return telling(200, nil, map[string]string{"Tollgate-Cost": value}) }
	after := func(first handlerFunc, then func() error) handlerFunc {
		return func(w http.ResponseWriter, r *http.Request) error {
			return errors.Join(first(w, r), then())
		}
	}
	cut := func() error { panic(http.ErrAbortHandler) }
	for name, test := range map[string]struct {
		next    handlerFunc
		refund  policy.Refund
		cost    int64
		trailer bool   // RateLimit shows the reservation
		outcome string // besides admitted
	}{
		"less":                {next: header("1"), cost: 1},
		"nothing":             {next: header("0"), cost: 0},
		"the reservation":     {next: header("4"), cost: reserved},
		"more":                {next: header("9"), cost: 9, outcome: "cost_above"},
		"more than the limit": {next: header("1000000000000"), cost: 1_000_000_000_000, outcome: "cost_above"},
		"leading zeros":       {next: header("007"), cost: 7, outcome: "cost_above"},
		"no header":           {next: header(""), cost: reserved, outcome: "cost_unknown"},
		"too much":            {next: header("1000000000001"), cost: reserved, outcome: "cost_unknown"},
		"below 0":             {next: header("-1"), cost: reserved, outcome: "cost_unknown"},
		"a sign":              {next: header("+1"), cost: reserved, outcome: "cost_unknown"},
		"a fraction":          {next: header("1.0"), cost: reserved, outcome: "cost_unknown"},
		"a list":              {next: header("1, 1"), cost: reserved, outcome: "cost_unknown"},
		"twice":               {next: header("1\n1"), cost: reserved, outcome: "cost_unknown"},
		"a trailer":           {next: trailer("1"), cost: 1, trailer: true},
		"more in a trailer":   {next: trailer("9"), cost: 9, trailer: true, outcome: "cost_above"},
		"a trailer in small letters": {next: func(w http.ResponseWriter, r *http.Request) error {
			err := telling(200, map[string]string{"Trailer": "x-sum, tollgate-cost"}, nil)(w, r)
			w.Header().Set("Tollgate-Cost", "1")
			return err
		}, cost: 1, trailer: true},
		"a trailer as proxies do": {next: unannounced(trailer("x"), "1"), cost: 1, trailer: true},
		"a malformed trailer":     {next: trailer("x"), cost: reserved, outcome: "cost_unknown"},
		"a trailer twice":         {next: trailer("1\n1"), cost: reserved, outcome: "cost_unknown"},
		"a trailer is missing":    {next: telling(200, map[string]string{"Trailer": "X-Sum, Tollgate-Cost"}, nil), cost: reserved, outcome: "cost_unknown"},
		"header and trailer":      {next: telling(200, map[string]string{"Tollgate-Cost": "1"}, map[string]string{"Tollgate-Cost": "2"}), cost: 1},
		"not announced":           {next: unannounced(header(""), "1"), cost: reserved, outcome: "cost_unknown"},
		"not found":               {next: telling(404, map[string]string{"Tollgate-Cost": "0"}, nil), cost: 0},
		"an error of the service": {next: telling(500, map[string]string{"Tollgate-Cost": "1"}, nil), cost: 1, outcome: "failed"},
		"refunded":                {next: telling(500, map[string]string{"Tollgate-Cost": "1"}, nil), refund: policy.RefundServerErrors, cost: 0, outcome: "failed refunded"},
		"refunded trailer":        {next: telling(500, nil, map[string]string{"Tollgate-Cost": "1"}), refund: policy.RefundServerErrors, cost: 0, outcome: "failed refunded"},
		"no answer":               {next: func(http.ResponseWriter, *http.Request) error { return failure(502) }, cost: 0, outcome: "failed refunded"},
		"no refund":               {next: func(http.ResponseWriter, *http.Request) error { return failure(502) }, refund: policy.RefundNever, cost: reserved, outcome: "failed cost_unknown"},
		"no answer but a panic":   {next: func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }, refund: policy.RefundServerErrors, cost: 0, outcome: "failed refunded"},
		"cut off":                 {next: after(header("1"), cut), cost: 1},
		"cut off before trailers": {next: after(trailer("1"), cut), cost: reserved, outcome: "cost_unknown"},
		"fails before trailers":   {next: after(trailer("1"), func() error { return errors.New("broken") }), cost: reserved, outcome: "cost_unknown"},
		"client is gone":          {next: telling(499, nil, nil), cost: reserved, outcome: "cost_unknown"},
		"another protocol":        {next: telling(101, map[string]string{"Tollgate-Cost": "2"}, nil), cost: 2},
		"announces a trailer and writes nothing": {next: func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Trailer", "Tollgate-Cost")
			return nil
		}, cost: reserved, outcome: "cost_unknown"},
		"writes nothing": {next: func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Tollgate-Cost", "2")
			return nil
		}, cost: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, bearer := reserving(t, func(c *policy.Config) {
				c.Refund = test.refund
				c.Endpoints[1].Upgrade = true
			})
			w.next = test.next
			answer := w.broken(t, bearer)
			w.gate.Wait()
			want := map[string]int{"rates admitted": 1}
			for outcome := range strings.FieldsSeq(test.outcome) {
				want["rates "+outcome] = 1
			}
			if used := w.used(t, "acc_1", "rates", noon); used != test.cost || !maps.Equal(w.outcomes, want) {
				t.Errorf("counted %d, want %d; outcomes %v, want %v", used, test.cost, w.outcomes, want)
			}
			shown := test.cost
			if test.trailer {
				shown = reserved
			}
			if got, want := answer.Get("Ratelimit"), fmt.Sprintf(`"rates";r=%d;t=43200`, max(0, limit-shown)); got != want {
				t.Errorf("got RateLimit %s, want %s", got, want)
			}
			for name := range answer {
				if strings.Contains(name, "Tollgate") {
					t.Errorf("the client gets %s", name)
				}
			}
			logged, _ := w.last.Lookup("http.tollgate.call")
			recent, err := w.db.Recent(t.Context(), "acc_1", noon)
			if err != nil || len(recent) != 1 || recent[0].Cost != test.cost && answer.Get("Upgrade") == "" || logged.(gate.Logged).Cost != test.cost {
				t.Errorf("recorded %+v (%v), logged %+v", recent, err, logged)
			}
		})
	}
}

// unannounced also sets a trailer as a proxy does that has not announced it.
func unannounced(first handlerFunc, value string) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := first(w, r)
		w.Header().Del("Tollgate-Cost")
		w.Header().Set(http.TrailerPrefix+"Tollgate-Cost", value)
		return err
	}
}

// broken makes a call to rates whose answer can break off, and returns the
// headers of the answer.
func (w *world) broken(t testing.TB, bearer string) (h http.Header) {
	t.Helper()
	next := w.next
	w.next = func(rw http.ResponseWriter, r *http.Request) error {
		h = rw.Header()
		return next(rw, r)
	}
	defer func() {
		if r := recover(); r != nil && r != http.ErrAbortHandler {
			panic(r)
		}
	}()
	_, _ = w.ask("GET", rates, "", "Authorization: Bearer "+bearer) // an error after the answer has begun is the server's
	return h
}

// TestSettleOwnHeader: a header with a name of the service goes on to the client.
func TestSettleOwnHeader(t *testing.T) {
	t.Parallel()
	w, bearer := reserving(t, func(c *policy.Config) { c.Endpoints[1].CostAnswer.Header = "X-Rows" })
	w.next = telling(200, map[string]string{"X-Rows": "3"}, nil)
	answer := w.get(t, rates, bearer)
	w.gate.Wait()
	if used := w.used(t, "acc_1", "rates", noon); used != 3 || answer.Header().Get("X-Rows") != "3" {
		t.Errorf("counted %d, answer %v", used, answer.Header())
	}
}

// TestSettleSecondCall: a handler in front of the gate can pass a request to it
// again, after an answer whose trailer told the cost. The second call is settled
// once, by its header.
func TestSettleSecondCall(t *testing.T) {
	t.Parallel()
	w, bearer := reserving(t, nil)
	r := marked(httptest.NewRequest("GET", rates, nil))
	for i, next := range []handlerFunc{
		telling(200, nil, map[string]string{"Tollgate-Cost": "1"}),
		telling(200, map[string]string{"Tollgate-Cost": "2"}, nil),
	} {
		r.Header.Set("Authorization", "Bearer "+bearer)
		if err := w.gate.Serve(httptest.NewRecorder(), r, next); err != nil {
			t.Fatal(err)
		}
		w.gate.Wait()
		if used, want := w.used(t, "acc_1", "rates", noon), int64(1+2*i); used != want || w.outcomes["rates cost_unknown"] != 0 {
			t.Errorf("counted %d after call %d, want %d; outcomes %v", used, i+1, want, w.outcomes)
		}
	}
}

// TestSettleAboveLimit: a call that cost more than its reservation can exceed a
// limit. The next call meets it.
func TestSettleAboveLimit(t *testing.T) {
	t.Parallel()
	w, bearer := reserving(t, func(c *policy.Config) { c.Warn = []int{50, 100} })
	w.next = telling(200, map[string]string{"Tollgate-Cost": "25"}, nil)
	w.get(t, rates, bearer)
	w.gate.Wait()
	if len(w.reached) != 2 || w.reached[1].Used != 20 || w.reached[1].Threshold != 100 {
		t.Errorf("reported %+v", w.reached)
	}
	if answer := w.get(t, rates, bearer); answer.Code != http.StatusTooManyRequests || answer.Header().Get("Ratelimit") != `"rates";r=0;t=43200` {
		t.Errorf("got %d %v", answer.Code, answer.Header())
	}
	if used := w.used(t, "acc_1", "rates", noon); used != 25 {
		t.Errorf("counted %d", used)
	}
}

// TestWarnOfSettled: a call warns by what it cost, not by what it reserved.
func TestWarnOfSettled(t *testing.T) {
	t.Parallel()
	w, bearer := reserving(t, func(c *policy.Config) { c.Warn = []int{20} })
	for i, cost := range []int{3, 0, 1} {
		w.next = telling(200, map[string]string{"Tollgate-Cost": strconv.Itoa(cost)}, nil)
		w.get(t, rates, bearer)
		w.gate.Wait()
		if warned := len(w.reached); warned != i/2 {
			t.Errorf("call %d: %+v", i, w.reached)
		}
	}
	if used := w.reached[0].Used; used != 4 {
		t.Errorf("warned of %d", used)
	}
}

// TestSettleInShadow: a call that enforce admits is settled. Another one counts
// nothing.
func TestSettleInShadow(t *testing.T) {
	t.Parallel()
	w, bearer := reserving(t, func(c *policy.Config) {
		c.Mode = policy.Shadow
		c.Plans[0].Limits["rates"] = number(5)
		delete(c.Plans[1].Limits, "rates")
	})
	w.next = telling(200, map[string]string{"Tollgate-Cost": "3"}, nil)
	for range 3 {
		if answer := w.get(t, rates, bearer); answer.Code != 200 || answer.Header().Get("Tollgate-Cost") != "" {
			t.Errorf("got %d %v", answer.Code, answer.Header())
		}
		w.gate.Wait()
	}
	if _, err := storetest.PutAccount(t.Context(), w.db.Book, store.Account{ID: "acc_1", Plan: "other"}); err != nil {
		t.Fatal(err)
	}
	w.get(t, rates, bearer) // its cost is not above a reservation: it has none
	if used := w.used(t, "acc_1", "rates", noon); used != 3 || w.outcomes["rates cost_above"] > 0 || len(w.refused) != 3 {
		t.Errorf("counted %d, want 3; outcomes %v, refused %v", used, w.outcomes, w.refused)
	}
}

// failing is a store whose settlements fail, or wait.
type failing struct {
	gate.Store
	errs  []error       // of the first ones
	block chan struct{} // if not nil, until it is closed
	tries atomic.Int64
}

func (f *failing) Settle(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room, cost int64, refund bool) error {
	if f.block != nil {
		<-f.block
	}
	if n := int(f.tries.Add(1)); n <= len(f.errs) {
		return f.errs[n-1]
	}
	return f.Store.Settle(ctx, call, limits, rooms, cost, refund)
}

// TestSettleFails: a settlement that the store has not made is tried again, and
// one that it may have made is not.
func TestSettleFails(t *testing.T) {
	t.Parallel()
	told := telling(200, map[string]string{"Tollgate-Cost": "1"}, nil)
	away := func(http.ResponseWriter, *http.Request) error { return failure(502) }
	for name, test := range map[string]struct {
		next  handlerFunc
		errs  []error
		used  int64
		tries int
	}{
		"works again":        {told, []error{store.ErrUnavailable, store.ErrUnavailable}, 1, 3},
		"unknown":            {told, []error{store.ErrUnknown}, 4, 1},
		"closed":             {told, []error{store.ErrClosed}, 4, 1},
		"refund works again": {away, []error{store.ErrUnavailable, store.ErrUnavailable}, 0, 3},
		"unknown refund":     {away, []error{store.ErrUnknown}, 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, bearer := reserving(t, nil)
			fails := &failing{Store: w.store, errs: test.errs}
			w.store = fails
			w.next = test.next
			w.get(t, rates, bearer)
			w.gate.Wait()
			unsettled := 0
			if test.used == 4 {
				unsettled = 1
			}
			if used := w.used(t, "acc_1", "rates", noon); used != test.used || int(fails.tries.Load()) != test.tries || w.outcomes["rates unsettled"] != unsettled {
				t.Errorf("counted %d after %d tries, outcomes %v", used, fails.tries.Load(), w.outcomes)
			}
		})
	}
}

// TestSettleBesideAnswer: an answer waits neither for its settlement nor for
// those that Wait waits for.
func TestSettleBesideAnswer(t *testing.T) {
	t.Parallel()
	w, bearer := reserving(t, nil)
	blocked := &failing{Store: w.store, block: make(chan struct{})}
	w.store = blocked
	w.next = telling(200, map[string]string{"Tollgate-Cost": "1"}, nil)
	if answer := w.get(t, rates, bearer); answer.Header().Get("Ratelimit") != `"rates";r=19;t=43200` {
		t.Errorf("got %v", answer.Header())
	}
	if used := w.used(t, "acc_1", "rates", noon); used != 4 {
		t.Errorf("counted %d before the settlement", used)
	}
	waited, waiting := make(chan int64), make(chan struct{})
	go func() {
		close(waiting)
		w.gate.Wait()
		waited <- w.used(t, "acc_1", "rates", noon)
	}()
	<-waiting
	for range 3 {
		w.get(t, rates, bearer)
	}
	close(blocked.block)
	if used := <-waited; used != 4 {
		t.Errorf("counted %d after Wait", used)
	}
}
