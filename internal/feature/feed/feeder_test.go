package feed_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature/feed"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

var formats = []string{"cloudevents", "lago", "metronome"}

func today() calendar.Day { return calendar.In(berlin).At(time.Now()).Day }

// use is what customers and operators do meanwhile.
type use struct {
	t    *testing.T
	book *book.Book
	held []store.Call // that can be refunded
}

func (u *use) call(account, endpoint string, day calendar.Day, cost int64) {
	u.t.Helper()
	if _, err := storetest.PutAccount(u.t.Context(), u.book, store.Account{ID: account, Plan: "starter"}); err != nil {
		u.t.Fatal(err)
	}
	call := store.Call{Account: account, Endpoint: endpoint, Day: day, At: time.Now(), Cost: cost}
	soft := []store.Limit{{Endpoint: endpoint, Period: store.Day, Max: 1 << 40, Included: 5, Soft: true}}
	if admitted, err := u.book.Take(u.t.Context(), call, soft, make([]store.Room, 1)); err != nil || !admitted {
		u.t.Fatal(admitted, err)
	}
	u.held = append(u.held, call)
}

// credit gives calls back, with an entry in the audit log.
func (u *use) credit(account, endpoint string, day calendar.Day, calls int64) {
	u.t.Helper()
	now := time.Now()
	_, err := u.book.Credit(u.t.Context(), now, account, "", []book.Credit{{Day: day, Endpoint: endpoint, Calls: calls}}, func(a *book.Account, made []book.Credit) {
		after, _ := json.Marshal(api.Credit{Account: account, Endpoint: endpoint, Day: day.String(), Calls: calls})
		a.Record(store.Entry{At: now, Action: api.UsageCredit, Account: account, After: after})
	})
	_ = err // there may be nothing to credit
}

// step does something.
func (u *use) step(random *rand.Rand) {
	account, endpoint := fmt.Sprint("acc_", random.IntN(4)), []string{"rates", "convert"}[random.IntN(2)]
	day := today() - calendar.Day(random.IntN(2)*random.IntN(5))
	switch n := random.IntN(20); {
	case n < 12:
		u.call(account, endpoint, day, random.Int64N(4))
	case n < 16 && len(u.held) > 0:
		i := random.IntN(len(u.held))
		call := u.held[i]
		u.held = slices.Delete(u.held, i, i+1)
		soft := []store.Limit{{Endpoint: call.Endpoint, Period: store.Day, Max: 1 << 40, Included: 5, Soft: true}}
		if err := u.book.Settle(u.t.Context(), call, soft, make([]store.Room, 1), 0, true); err != nil {
			u.t.Fatal(err)
		}
	case n < 19:
		u.credit(account, endpoint, day, 1+random.Int64N(5))
	default:
		_ = u.book.CloseAccount(u.t.Context(), time.Now(), account, today()-31, today(), func(*book.Account, []book.Bill) {}) // there may be none
	}
}

// TestNewestSums: two gates feed a receiver that fails, delays, doubles, reorders and
// is away, and they are killed, while there are calls, refunds, credits and accounts
// that are closed. Then the newest messages have the sums of the bills.
func TestNewestSums(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		for seed := range uint64(2) {
			t.Run(fmt.Sprint(format, " ", seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, 0))
					r, engine := receive(t, format), memstore.New()
					gates := []*gate{r.start(engine, zap.NewNop()), r.start(engine, zap.NewNop())}
					var away atomic.Bool
					r.answers(func(w http.ResponseWriter, list []message) {
						switch n := rand.IntN(10); {
						case away.Load() || n == 0:
							w.WriteHeader(http.StatusBadGateway)
						case n == 1: // taken, but the gate does not learn it
							r.accept(w, list)
							panic(http.ErrAbortHandler)
						case n == 2: // too late for the gate
							time.Sleep(20 * time.Second)
							r.accept(w, list)
						case n == 3: // twice, and behind later ones
							r.mu.Lock()
							r.late = append(r.late, append(list, list...)...)
							r.mu.Unlock()
						case n == 4:
							w.Header().Set("Retry-After", "30")
							w.WriteHeader(http.StatusTooManyRequests)
						default:
							r.accept(w, list)
						}
					})
					began := today()
					u := &use{t: t, book: book.New(engine, nil)}
					for i := range 200 {
						u.step(random)
						pass(time.Duration(random.Int64N(int64(10 * time.Minute))))
						away.Store(i/50 == 1)
						if random.IntN(20) == 0 {
							g := random.IntN(2)
							gates[g].killed.Store(true)
							gates[g].Close()
							gates[g] = r.start(engine, zap.NewNop())
						}
					}
					r.answers(r.accept)
					pass(25 * time.Hour) // the next comparison of all days
					r.want(u.book, began-feed.LookBack, today())
				})
			})
		}
	}
}

// TestOldCredit: a credit for a day that is not compared any more is fed.
func TestOldCredit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, engine := receive(t, "cloudevents"), memstore.New()
		u := &use{t: t, book: book.New(engine, nil)}
		old := today() - feed.LookBack - 20
		u.call("acc_1", "rates", old, 10)
		u.call("acc_10", "rates", old, 3)
		u.call("acc_1", "rates", today(), 1)
		g := r.start(engine, zap.NewNop())
		pass(10 * time.Minute)
		r.want(u.book, today()-feed.LookBack, today())
		u.credit("acc_1", "rates", old, 4)
		g.Close()
		g = r.start(engine, zap.NewNop())
		pass(10 * time.Minute)
		m := r.newest[of{"acc_1", "rates", old.String()}]
		if m.sums != (sums{10, 4, 5}) || len(r.newest) != 2 {
			t.Errorf("got %v in %v", m, r.newest)
		}
		if n := g.counts.Get(feed.Delivered); n != 1 {
			t.Errorf("%d messages were delivered, want the credit alone", n)
		}
	})
}

// TestSumsReturn: a call raises the sums, the receiver learns it, the gate is killed
// before it knows that, and the call is refunded: the sums are those that the gate
// knows to be delivered. The receiver gets them again, under another id.
func TestSumsReturn(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, engine := receive(t, format), memstore.New()
				u := &use{t: t, book: book.New(engine, nil)}
				u.call("acc_1", "rates", today(), 3)
				g := r.start(engine, zap.NewNop())
				pass(2 * time.Minute)
				r.want(u.book, today(), today())
				u.call("acc_1", "rates", today(), 1)
				r.answers(func(w http.ResponseWriter, list []message) {
					r.accept(w, list)
					g.killed.Store(true)
					panic(http.ErrAbortHandler)
				})
				pass(2 * time.Minute)
				g.Close()
				if m := r.newest[of{"acc_1", "rates", today().String()}]; m.Calls != 4 {
					t.Fatalf("got %v", m)
				}
				if err := u.book.Settle(t.Context(), u.held[1], nil, nil, 0, true); err != nil {
					t.Fatal(err)
				}
				r.answers(r.accept)
				r.start(engine, zap.NewNop())
				pass(2 * time.Minute)
				r.want(u.book, today(), today())
			})
		})
	}
}

// TestTimes: times stay on their day for 400 days, and ascend, also if the store has
// forgotten the message before.
func TestTimes(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 12, 1, 0, 0, 0, 0, berlin)
	begin := end.Add(-25 * time.Hour)
	if got := feed.TimeOf(end.Add(-4*time.Hour), end, 0); got != end.Add(-4*time.Hour).Unix() {
		t.Errorf("got %v", time.Unix(got, 0))
	}
	last := begin.Unix() - 1
	for at := begin; at.Before(end); at = at.Add(2 * time.Second) { // an account that always calls
		before := last
		if last = feed.TimeOf(at, end, before); last <= before || last >= end.Unix() {
			t.Fatalf("at %v: got %v", at, time.Unix(last, 0))
		}
	}
	before := last
	if last = feed.TimeOf(end.Add(time.Hour), end, 0); last <= before || last >= end.Unix() {
		t.Errorf("an hour after the day, when the store has forgotten it: got %v after %v", time.Unix(last, 0), time.Unix(before, 0))
	}
	if got := feed.TimeOf(end, end.Add(-9*time.Hour), last); got <= last {
		t.Errorf("in a zone whose day ends before: got %v", time.Unix(got, 0))
	}
	for at := end.AddDate(0, 0, 40); at.Before(end.AddDate(0, 0, 400)); at = at.AddDate(0, 0, 40) {
		before := last
		if last = feed.TimeOf(at, end, 0); last <= before || last >= end.Unix() {
			t.Errorf("at %v: got %v", at, time.Unix(last, 0))
		}
	}
}

// TestRenamed: the sums of an endpoint with a new name replace those of the old one.
func TestRenamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, engine := receive(t, "cloudevents"), memstore.New()
		u := &use{t: t, book: book.New(engine, nil)}
		u.call("acc_1", "rates", today()-3, 3)
		u.call("acc_1", "rates", today(), 7)
		r.start(engine, zap.NewNop())
		pass(10 * time.Minute)
		r.want(u.book, today()-3, today())
		var names store.Names
		names.Endpoints.Add("fixings", []string{"rates"})
		reloaded := *r.feed
		r.names.Store(&names)
		r.inForce.Store(&reloaded)
		pass(10 * time.Minute)
		if len(r.newest) != 4 {
			t.Errorf("got %v, want the sums of both names on both days", r.newest)
		}
		r.want(u.book.Renamed(names), today()-3, today())
	})
}

// TestReload: a pass ends when the feed is removed, and goes on with a new token.
func TestReload(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]string{"a new token": "rotated", "no feed": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, engine := receive(t, "cloudevents"), memstore.New()
				u := &use{t: t, book: book.New(engine, nil)}
				for day := today() - 3; day <= today(); day++ {
					u.call("acc_1", "rates", day, 1)
				}
				r.answers(func(w http.ResponseWriter, list []message) {
					if len(r.posts) == 1 {
						var next *feed.Feed
						if token != "" {
							other := *r.feed
							other.Token, next = token, &other
						}
						r.inForce.Store(next)
					}
					r.accept(w, list)
				})
				r.start(engine, zap.NewNop())
				pass(10 * time.Minute)
				want := 1
				if token != "" {
					want = 4
					r.want(u.book, today()-3, today())
				}
				if len(r.posts) != want {
					t.Errorf("got %d posts, want %d", len(r.posts), want)
				}
				for _, p := range r.posts[1:] {
					if got := p.Header.Get("Authorization"); got != "Bearer "+token {
						t.Errorf("got the authorization %q", got)
					}
				}
			})
		})
	}
}
