package gate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// held is a service whose calls run until they are let go.
type held struct {
	began chan struct{}
	end   chan func(http.ResponseWriter) error
}

// hold makes the service of a world one whose calls run until they are let go.
func hold(w *world) held {
	h := held{make(chan struct{}), make(chan func(http.ResponseWriter) error)}
	w.next = func(w http.ResponseWriter, _ *http.Request) error {
		h.began <- struct{}{}
		return (<-h.end)(w)
	}
	return h
}

// atOnce makes a world with limits of calls at once, and a daily one of rates.
func atOnce(t testing.TB, change func(*policy.Config)) *world {
	return newWorld(t, func(c *policy.Config) {
		c.Plans[0].Limits = map[string]*policy.Limit{"rates": new(policy.Limit(1)), "usage": new(policy.Limit(store.Unlimited))}
		c.Plans[0].Concurrent = []policy.ConcurrentConfig{{Endpoint: "convert", Limit: 1}, {Endpoint: "all", Limit: 2}}
		if change != nil {
			change(c)
		}
	})
}

// begin starts a call and waits until the service has it.
func (w *world) begin(h held, target, bearer string) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }() // the service can break off
		_, _ = w.ask("GET", target, "", "Authorization: Bearer "+bearer)
	}()
	<-h.began
	return ended
}

func (w *world) running(t testing.TB, list string) int64 {
	t.Helper()
	n, err := w.db.Running(t.Context(), "acc_1", []string{list})
	if err != nil {
		t.Fatal(err)
	}
	return n[0]
}

// TestConcurrent: a call too many is refused with what helps a client, and makes no
// event. A call runs until its handler returns, however it ends.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	w := atOnce(t, func(c *policy.Config) { c.Warn = []int{50} })
	bearer := w.account(t, "acc_1")
	h := hold(w)
	ends := map[string]func(http.ResponseWriter) error{
		"an answer":                   func(w http.ResponseWriter) error { _, err := w.Write([]byte("ok")); return err },
		"an error":                    func(http.ResponseWriter) error { return failure(http.StatusBadGateway) },
		"an error of the service":     func(w http.ResponseWriter) error { w.WriteHeader(http.StatusInternalServerError); return nil },
		"an answer that breaks off":   func(http.ResponseWriter) error { panic(http.ErrAbortHandler) },
		"a panic behind other panics": func(http.ResponseWriter) error { panic("no") },
	}
	for name, end := range ends {
		ended := w.begin(h, convert, bearer)
		answer := w.get(t, convert, bearer)
		want := `{"message":"Too many calls at once to convert: at most 1 of this account. Try again when one of them has ended.",` +
			`"code":"too_many_concurrent","endpoint":"convert","period":"concurrent","limit":1,"of":"account"`
		header := answer.Header()
		if answer.Code != 429 || !strings.HasPrefix(answer.Body.String(), want) || header.Get("Retry-After") != "1" || header.Get("X-Should-Retry") != "true" {
			t.Errorf("got %d %s %v", answer.Code, answer.Body, header)
		}
		if got := rateLimit(answer); got != `"convert-concurrent";q=1, "all-concurrent";q=2 "convert-concurrent";r=0, "all-concurrent";r=1` {
			t.Errorf("got %s", got)
		}
		if usage := w.get(t, "/api/usage", bearer).Body.String(); !strings.Contains(usage, `{"period":"concurrent","limit":1,"used":1,"remaining":0,"resets_at":null,"calls":true}`) ||
			!strings.Contains(usage, `{"period":"concurrent","limit":2,"used":1,"remaining":1,"resets_at":null,"calls":true}`) {
			t.Errorf("got the usage %s", usage)
		}
		h.end <- end
		<-ended
		if n, all := w.running(t, "convert"), w.running(t, store.All); n != 0 || all != 0 {
			t.Errorf("after %s, %d calls run, %d in all", name, n, all)
		}
	}
	if len(w.reached) > 0 || w.outcomes["convert rate_limited"] != len(ends) {
		t.Errorf("got the events %v, and %v", w.reached, w.outcomes)
	}
}

// TestConcurrentAllOrNothing: a call that another limit refuses takes no room, and one
// that has no room counts nothing. The longest wait answers.
func TestConcurrentAllOrNothing(t *testing.T) {
	t.Parallel()
	w := atOnce(t, nil)
	bearer := w.account(t, "acc_1")
	h := hold(w)
	first := w.begin(h, convert, bearer)
	second := w.begin(h, "/api/rates/EUR", bearer)
	for range 3 { // the day and all calls at once are full
		if answer := w.get(t, "/api/rates/EUR", bearer); !strings.Contains(answer.Body.String(), `"quota_exceeded"`) {
			t.Errorf("got %s", answer.Body)
		}
	}
	h.end <- func(http.ResponseWriter) error { return nil }
	h.end <- func(http.ResponseWriter) error { return nil }
	<-first
	<-second
	if answer := w.get(t, "/api/rates/EUR", bearer); answer.Code != 429 { // the day is full
		t.Errorf("got %d", answer.Code)
	}
	if n, all := w.running(t, "rates"), w.running(t, store.All); n != 0 || all != 0 {
		t.Errorf("%d calls run, %d in all", n, all)
	}
	w.gate.Wait()
	if convert, rates := w.used(t, "acc_1", "convert", noon), w.used(t, "acc_1", "rates", noon); convert != 1 || rates != 1 {
		t.Errorf("used %d and %d, want 1 and 1", convert, rates)
	}
}

// TestConcurrentPolicyAfterTake: a program, whose calls these limits do not cover, does
// not change the field of requests.
func TestConcurrentPolicyAfterTake(t *testing.T) {
	t.Parallel()
	w := atOnce(t, nil)
	bearer := w.account(t, "acc_1")
	w.account(t, "acc_2")
	for _, want := range []string{"admitted acc_2", "429 quota_exceeded"} {
		if taken, err := w.take(t, gate.Taking{Account: "acc_2"}, "rates"); err != nil || codeOf(taken) != want {
			t.Errorf("got %s, %v, want %s", codeOf(taken), err, want)
		}
	}
	const want = `"rates";q=1;w=86400, "all-concurrent";q=2`
	if got := w.get(t, "/api/rates/EUR", bearer).Header().Get("Ratelimit-Policy"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestConcurrentForeseen: what Foresee looks at does not run.
func TestConcurrentForeseen(t *testing.T) {
	t.Parallel()
	w := atOnce(t, nil)
	bearer := w.account(t, "acc_1")
	h := hold(w)
	foresee := func() gate.Foreseen {
		r := marked(httptest.NewRequest("GET", convert, nil))
		r.Header.Set("Authorization", "Bearer "+bearer)
		return w.gate.Foresee(r, 0)
	}
	ended := w.begin(h, convert, bearer)
	if x := foresee(); x.Step != "quota" || x.Refusal.Code != "too_many_concurrent" || x.Rooms[0].Used(&x.Limits[0]) != 1 {
		t.Errorf("got %+v", x)
	}
	h.end <- func(http.ResponseWriter) error { return nil }
	<-ended
	if x := foresee(); x.Refusal != nil || x.Rooms[0].Remaining != 1 || w.running(t, "convert") != 0 {
		t.Errorf("got %+v", x)
	}
}

// TestConcurrentShadow: mode shadow passes a call too many. It does not run as one of
// those that are limited, and the others end.
func TestConcurrentShadow(t *testing.T) {
	t.Parallel()
	w := atOnce(t, func(c *policy.Config) { c.Mode = policy.Shadow })
	bearer := w.account(t, "acc_1")
	h := hold(w)
	first, second := w.begin(h, convert, bearer), w.begin(h, convert, bearer)
	if got := w.running(t, "convert"); got != 1 {
		t.Errorf("%d calls run, want 1", got)
	}
	h.end <- func(http.ResponseWriter) error { return nil }
	h.end <- func(http.ResponseWriter) error { return nil }
	<-first
	<-second
	if got := w.running(t, "convert"); got != 0 || len(w.refused) != 1 || !strings.Contains(w.refused[0], "too_many_concurrent") {
		t.Errorf("%d calls run, refused %q", got, w.refused)
	}
}

// noLists is a store whose server for running calls is away.
type noLists struct{ gate.Store }

func (noLists) Enter(context.Context, string, []string, []int64, int64) ([]int64, func(), error) {
	return nil, nil, store.ErrUnavailable
}

// TestConcurrentUnavailable: without the lists of running calls, no call passes.
func TestConcurrentUnavailable(t *testing.T) {
	t.Parallel()
	w := atOnce(t, nil)
	bearer := w.account(t, "acc_1")
	w.store = noLists{w.store}
	if answer := w.get(t, convert, bearer); answer.Code != 503 || w.used(t, "acc_1", "convert", noon) != 0 {
		t.Errorf("got %d", answer.Code)
	}
}

// TestConcurrentAfterOthers: a call that another limit refuses does not run, also not
// in what its refusal says. The shorter wait of a pace is not hidden.
func TestConcurrentAfterOthers(t *testing.T) {
	t.Parallel()
	w := atOnce(t, func(c *policy.Config) {
		c.Plans[0].MoreLimits = []policy.LimitConfig{{Endpoint: "convert", Period: "second", Limit: 5}}
	})
	bearer := w.account(t, "acc_1")
	for range 5 {
		w.get(t, convert, bearer)
	}
	answer := w.get(t, convert, bearer)
	if answer.Code != 429 || !strings.Contains(answer.Body.String(), `"rate_limited"`) {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
	if got := rateLimit(answer); !strings.HasSuffix(got, `"convert-concurrent";r=1, "all-concurrent";r=2`) {
		t.Errorf("got %s", got)
	}
	w.next = func(http.ResponseWriter, *http.Request) error { return failure(http.StatusBadGateway) }
	w.get(t, "/api/rates/EUR", bearer)
	if got := rateLimit(w.get(t, "/api/rates/EUR", bearer)); !strings.HasSuffix(got, `"rates";r=1;t=43200, "all-concurrent";r=1`) {
		t.Errorf("after a refund, got %s", got)
	}
}

// TestConcurrentLastByte: a call has ended before the client has the last byte of an
// answer of known length, and not before. It ends once.
func TestConcurrentLastByte(t *testing.T) {
	t.Parallel()
	w := atOnce(t, nil)
	bearer := w.account(t, "acc_1")
	for length, want := range map[string][3]int64{"4": {1, 1, 0}, "5": {1, 1, 1}, "": {1, 1, 1}, "-4": {1, 1, 1}} {
		var got [3]int64
		w.next = func(rw http.ResponseWriter, _ *http.Request) error {
			if length != "" {
				rw.Header().Set("Content-Length", length)
			}
			rw.WriteHeader(http.StatusOK)
			for i, part := range []string{"", "no", "ok"} {
				_, _ = rw.Write([]byte(part))
				got[i] = w.running(t, "convert")
			}
			return nil
		}
		if w.get(t, convert, bearer); got != want {
			t.Errorf("length %q: %v calls run, want %v", length, got, want)
		}
		if n := w.running(t, "convert"); n != 0 {
			t.Errorf("length %q: %d calls run after the answer", length, n)
		}
	}
}
