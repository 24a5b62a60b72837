package gate_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// floor is the smallest handler with the results of an admitted call: the same
// token, count, assertion and headers. It checks no path, plan, ability or
// address, refuses nothing, gives nothing back and records nothing. It shows
// what of a gate's time is the work itself.
type floor struct {
	memory
	signer   *assertion.Signer
	calendar *calendar.Calendar
	limits   []store.Limit
}

// floorCall is what the floor keeps of a call.
type floorCall struct {
	http.ResponseWriter
	values [9]string
	rooms  [1]store.Room
	day    *calendar.Span
	began  time.Time
}

func (f *floor) Serve(w http.ResponseWriter, r *http.Request, next gate.Handler) error {
	c := &floorCall{ResponseWriter: w, began: time.Now()}
	hash, err := token.Parse(r.Header["Authorization"][0][len("Bearer "):])
	if err != nil {
		return err
	}
	grant, err := f.Grant(context.Background(), hash, c.began)
	if err != nil {
		return err
	}
	c.day = f.calendar.At(c.began)
	counted := store.Call{
		Account: grant.Account, Endpoint: "convert", At: c.began, Day: c.day.Day, Cost: 1, Handle: grant.Handle, Until: c.day.End,
	}
	if _, err := f.Take(context.Background(), counted, f.limits, c.rooms[:]); err != nil {
		return err
	}
	h := r.Header
	sent := h["Authorization"]
	delete(h, "Authorization")
	by := assertion.Caller{Account: grant.Account, Plan: grant.Plan, Key: grant.Key, Abilities: grant.Abilities}
	c.set(h, 0, "Tollgate-Account", by.Account)
	c.set(h, 1, "Tollgate-Plan", by.Plan)
	c.set(h, 2, "Tollgate-Key", by.Key)
	c.set(h, 3, "Tollgate-Abilities", by.Abilities)
	c.set(h, 4, assertion.Header, f.signer.Call(hash, r.Host, by, c.began))
	err = next.ServeHTTP(c, r)
	for _, name := range [...]string{"Tollgate-Account", "Tollgate-Plan", "Tollgate-Key", "Tollgate-Abilities", assertion.Header} {
		delete(h, name)
	}
	h["Authorization"] = sent // for the handlers in front
	return err
}

func (c *floorCall) set(h http.Header, at int, name, value string) {
	c.values[at] = value
	h[name] = c.values[at : at+1 : at+1]
}

func (c *floorCall) WriteHeader(status int) {
	h := c.Header()
	c.set(h, 5, "Cache-Control", "no-store")
	c.set(h, 6, "Vary", "Authorization")
	c.set(h, 7, "Ratelimit-Policy", `"convert";q=1000000000;w=86400`)
	b := strconv.AppendInt(append(make([]byte, 0, 32), `"convert";r=`...), c.rooms[0].Remaining, 10)
	b = strconv.AppendInt(append(b, ";t="...), c.day.RetryAfter(c.began), 10)
	c.set(h, 8, "Ratelimit", string(b))
	c.ResponseWriter.WriteHeader(status)
}

// BenchmarkFloor is BenchmarkMemory with 10^4 accounts and the floor in the
// place of the gate.
func BenchmarkFloor(b *testing.B) {
	l, bearers := newLedger(b, 10_000, 10_000)
	days, err := calendar.New("UTC")
	if err != nil {
		b.Fatal(err)
	}
	reportPerCall(b, serveInProcess(b, &floor{
		memory: memory{ledger: l}, signer: newSigner(b), calendar: days,
		limits: []store.Limit{{Endpoint: "convert", Period: store.Day, Max: int64(ample)}},
	}, bearers))
}
