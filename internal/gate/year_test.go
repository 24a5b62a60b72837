package gate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// year takes a gate with many accounts, and the model of each, through a year that
// has just ended: by then stores keep all counts, and a clock of theirs that is ahead
// does no harm.
type year struct {
	*testing.T
	*rand.Rand
	world    *world
	calendar *calendar.Calendar
	customer []*customer
	called   map[billed]int64 // by what each call cost in the end
	credited map[billed]int64
	overage  int64
	answers  map[string]int // by their code

	dir    string // of the store, if it is Badger
	redis  *redistest.Server
	closes func() error
}

// customer is an account that may be closed.
type customer struct {
	*model
	keys  []*modelKey
	lives int
}

// known is the day since which the account knows the beginnings of its months: the
// first one of the month of the last change.
func (c *customer) known() (day calendar.Day) {
	if n := len(c.billings); n > 0 {
		day = c.month(c.billings[n-1].on).First
	}
	return day
}

// billed is what bills are for.
type billed struct {
	account, endpoint string
	day               calendar.Day
}

// yearPlans are lines of plans, as in a Caddyfile with the endpoint first.
var yearPlans = map[string][]policy.LimitConfig{
	"free": {
		{Endpoint: "convert", Limit: 20, Period: "day"}, {Endpoint: "convert", Limit: 60, Period: "week"}, {Endpoint: "convert", Limit: 8, Period: "day", Calls: true},
		{Endpoint: store.All, Limit: 130, Period: "month", Soft: 160}, {Endpoint: "history", Limit: 40, Period: "week"},
		{Endpoint: store.All, Limit: 40, Period: "minute"}, {Endpoint: "history", Limit: 9, Period: "second"},
	},
	"pro": {
		{Endpoint: "convert", Limit: 25, Period: "day", Soft: 35}, {Endpoint: "history", Limit: 90, Period: "month"},
		{Endpoint: store.All, Limit: 20, Period: "week", Calls: true}, {Endpoint: "convert", Limit: 60, Period: "month", Soft: 120},
		{Endpoint: "history", Limit: 12, Period: "hour"}, {Endpoint: store.All, Limit: 4, Period: "minute", Calls: true},
	},
	"prepaid": {
		{Endpoint: "convert", Limit: 60, Period: "total"}, {Endpoint: store.All, Limit: 400, Period: "total"},
		{Endpoint: "history", Limit: 30, Period: "week", Soft: 50}, {Endpoint: "convert", Limit: 300, Period: "total", Calls: true},
		{Endpoint: store.All, Limit: 50, Period: "month", Calls: true}, {Endpoint: store.All, Limit: 60, Period: "hour"},
	},
}

// config returns the plans, without paces where the store has a clock of its own.
func (y *year) config(paces bool) policy.Config {
	c := policy.Config{
		Timezone: y.calendar.Zone(), Guard: []string{"/api/"}, Usage: "GET /api/usage", Refund: policy.RefundErrors,
		Endpoints: []policy.EndpointConfig{
			{Name: "convert", Patterns: []string{"GET /api/convert"}, Cost: 3},
			{Name: "history", Patterns: []string{"GET /api/history"}, CostAnswer: &policy.CostAnswerConfig{Header: "Tollgate-Cost", Reserve: 5}},
		},
	}
	for _, name := range []string{"free", "pro", "prepaid"} {
		plan := policy.PlanConfig{Name: name, Limits: map[string]*policy.Limit{policy.UsageEndpoint: nil}}
		for _, l := range yearPlans[name] {
			if period, _ := store.ParsePeriod(l.Period); paces || !period.IsPace() {
				plan.MoreLimits = append(plan.MoreLimits, l)
			}
		}
		c.Plans = append(c.Plans, plan)
	}
	return c
}

// TestYear: over a year, each answer is that of the model, and at the end of each
// month the bills are what the calls cost. There are credits, top-ups, closed
// accounts, changes of plans and billing days, kills, and moves from Badger to Redis
// and back. Without Long, it is a part of the year.
func TestYear(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if text := os.Getenv("TOLLGATE_YEAR_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	y := &year{
		T: t, Rand: rand.New(rand.NewPCG(seed, 0)), called: map[billed]int64{}, credited: map[billed]int64{}, answers: map[string]int{},
		world: &world{outcomes: map[string]int{}, reservations: gate.NewReservations()},
	}
	y.setZone("America/Santiago", "America/Havana")
	last := y.calendar.At(time.Now()).Day - 2
	first := last - 365
	if !storetest.Long() {
		first += calendar.Day(y.IntN(365 - 30))
		last = first + 30
	}
	t.Logf("TOLLGATE_YEAR_SEED=%d, %s from %s to %s", seed, y.calendar.Zone(), first, last)
	y.world.now = y.calendar.EndOf(first - 1)
	for i := range 50 {
		y.customer = append(y.customer, &customer{model: &model{account: fmt.Sprintf("acc_%02d", i), counts: storetest.Model{}}})
	}
	y.openBadger(t.TempDir())
	for _, c := range y.customer {
		y.open(c)
	}
	part := (last - first) / 6
	for day := first; day <= last; day++ {
		switch {
		case day == first+part: // to the east: no day comes again
			y.setZone("Europe/Berlin", "Australia/Lord_Howe")
			y.configure(true)
		case day == first+2*part:
			y.toRedis()
		case day == first+4*part:
			y.toBadger()
		case y.IntN(12) == 0:
			y.kill()
		}
		y.day(day)
		if (day+1).UTC().Day() == 1 || day == last {
			y.checkBills(first, day)
		}
	}
	y.must(y.closes())
	t.Logf("answers: %v, overage: %d", y.answers, y.overage)
	if min(y.answers[""], y.answers["quota_exceeded"], y.answers["quota_exhausted"], y.answers["rate_limited"], int(y.overage)) == 0 {
		t.Error("something did not happen")
	}
}

// day has some instants, also the first and the last one of the day.
func (y *year) day(day calendar.Day) {
	start, end := y.calendar.EndOf(day-1), y.calendar.EndOf(day)
	for _, now := range []time.Time{start, start.Add(time.Duration(y.Int64N(int64(end.Sub(start))))), end.Add(-1)} {
		if now.Before(y.world.now) { // in the zone before
			continue
		}
		y.world.set(now)
		for _, c := range y.customer {
			y.step(c)
		}
	}
}

// step is what may happen to an account at an instant.
func (y *year) step(c *customer) {
	if !c.life().Open {
		if y.IntN(12) == 0 {
			y.open(c)
		}
		return
	}
	switch n := y.IntN(300); {
	case n < 4:
		c.plan, c.then, c.until = y.plan(), "", time.Time{}
		if y.IntN(2) == 0 {
			c.then, c.until = y.plan(), y.calendar.EndOf(y.today()+calendar.Day(y.IntN(40)))
		}
		y.change(c, func(a *store.Account) { a.Plan, a.Then, a.PlanUntil = c.plan, c.then, c.until })
	case n < 8:
		change := billingChange{y.today(), y.billing()}
		c.billings = append(c.billings, change)
		y.change(c, func(a *store.Account) { a.Billing = a.Billing.Change(change.to, change.on) })
	case n < 12:
		y.override(c)
	case n < 20:
		y.topUp(c)
	case n < 26:
		y.credit(c)
	case n < 27:
		y.must(y.world.db.CloseAccount(context.Background(), y.world.now, c.account, y.today()-400, y.today(), func(*book.Account, []book.Bill) {}))
		c.life().End()
	default:
		for range max(0, y.IntN(6)-1) {
			y.call(c)
		}
	}
}

func (y *year) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatalf("on %s: %v", y.world.now, err)
	}
}

func (y *year) today() calendar.Day { return y.calendar.At(y.world.now).Day }

func (y *year) plan() string { return []string{"free", "pro", "prepaid", "prepaid"}[y.IntN(4)] }

func (y *year) billing() int { return []int{1, 2, 15, 28, 29, 30, 31, 31}[y.IntN(8)] }

// open makes an account with two keys, one with limits of its own.
func (y *year) open(c *customer) {
	c.lives++
	c.modelTerms, c.overrides, c.keys = modelTerms{plan: y.plan(), billing: y.billing()}, nil, nil
	y.change(c, func(a *store.Account) { a.Plan, a.Billing.Day, a.CreatedAt = c.plan, c.billing, y.world.now })
	life := c.counts.Begin(c.account, "")
	for i, limits := range [][]store.Limit{nil, {{Endpoint: "convert", Period: store.Week, Max: 21}, {Endpoint: store.All, Period: store.Total, Max: 500}}} {
		tok := newToken(y.T)
		id := fmt.Sprintf("%s_%d_%d", c.account, c.lives, i)
		key := store.Key{
			ID: id, Account: c.account, Kind: token.Key, Name: id, CreatedAt: y.world.now, Abilities: []string{"convert", "history", "usage"}, Limits: limits,
		}
		y.must(y.world.db.CreateKey(context.Background(), key, tok.Hash()))
		c.keys = append(c.keys, &modelKey{id, id, tok.Reveal(), limits})
		life.Keys = append(life.Keys, id)
	}
}

func (y *year) change(c *customer, change func(*store.Account)) {
	y.must(y.world.db.ChangeOne(context.Background(), y.world.now, c.account, func(a *book.Account) error {
		a.Exists = true
		change(&a.Account)
		return nil
	}))
}

func (y *year) override(c *customer) {
	limits := []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: 9}, {Endpoint: store.All, Period: store.Week, Max: 70},
		{Endpoint: "convert", Period: store.Total, Max: 90}, {Endpoint: store.All, Period: store.Month, Max: store.Unlimited},
	}
	o := store.Override{Limit: limits[y.IntN(len(limits))], CreatedAt: y.world.now.UTC()}
	if y.IntN(4) > 0 {
		o.ExpiresAt = y.world.now.Add(time.Duration(1 + y.Int64N(int64(30*24*time.Hour)))).UTC()
	}
	c.overrides = append(slices.DeleteFunc(c.overrides, func(other store.Override) bool { return other.Same(o.Limit) }), o)
	y.change(c, func(a *store.Account) { a.Overrides = slices.Clone(c.overrides) })
}

func (y *year) topUp(c *customer) {
	t := book.TopUp{Endpoint: []string{"convert", "convert", store.All}[y.IntN(3)], Calls: 1 + y.Int64N(60)}
	if y.IntN(4) > 0 {
		t.ExpiresAt = y.calendar.EndOf(y.today() + calendar.Day(y.IntN(25)))
	}
	c.topUp(t.Endpoint, t.Calls, t.ExpiresAt, y.world.now)
	for range 2 { // once for an id
		_, _, err := y.world.db.TopUp(context.Background(), y.world.now, c.account, fmt.Sprint(len(c.topUps)), t, policy.UsageEndpoint, func(*book.Account) error { return nil }, func(*book.Account) {})
		y.must(err)
	}
}

func (y *year) credit(c *customer) {
	of := billed{c.account, []string{"convert", "history"}[y.IntN(2)], y.today() - calendar.Day(y.IntN(20))}
	calls := 1 + y.Int64N(9)
	made, err := y.world.db.Credit(context.Background(), y.world.now, c.account, "", []book.Credit{{Day: of.day, Endpoint: of.endpoint, Calls: calls}}, func(*book.Account, []book.Credit) {})
	want := c.counts.Credit(c.account, of.endpoint, of.day, calls)
	if len(made) != 1 || made[0].Credited != want || errors.Is(err, book.ErrNothingLeft) != (want == 0) || want > 0 && err != nil {
		y.Fatalf("credit of %d of %+v: got %+v, %v, want %d", calls, of, made, err, want)
	}
	y.credited[of] += want
}

// call makes a call. Some are refunded, and some of history tell a cost.
func (y *year) call(c *customer) {
	endpoint, key, now := []string{"convert", "convert", "history", policy.UsageEndpoint}[y.IntN(4)], c.keys[y.IntN(2)], y.world.now
	cost, told, status := int64(3), y.Int64N(12), []int{200, 200, 200, 200, 404, 503}[y.IntN(6)]
	tells := endpoint == "history" && y.IntN(4) > 0
	reached := false
	y.world.next = func(w http.ResponseWriter, _ *http.Request) error {
		if reached = true; tells {
			w.Header().Set("Tollgate-Cost", strconv.FormatInt(told, 10))
		}
		w.WriteHeader(status)
		return nil
	}
	want, settle := c.take(endpoint, key, now, 0)
	got, err := y.world.ask("GET", "/api/"+endpoint, "", "Authorization: Bearer "+key.bearer)
	y.must(err)
	y.world.gate.Wait()
	y.answers[want.code]++
	if settle != nil && endpoint != policy.UsageEndpoint {
		if endpoint == "history" {
			cost = 5
		}
		switch {
		case status >= 400:
			cost = 0
			want = settle(0, true, now)
		case tells:
			cost = told
			want = settle(told, false, now)
		case endpoint == "history":
			settle(cost, false, now)
		}
		want.status = status
	} else if cost = 0; settle != nil {
		cost = 1
	}
	y.called[billed{c.account, endpoint, y.today()}] += cost
	if answer, err := readAnswer(got); err != nil || answer != want || reached != (settle != nil && endpoint != policy.UsageEndpoint) {
		y.Fatalf("%s of %s at %s with key %s:\n got %+v, %v, upstream %t\nwant %+v\nlimits %+v of plan %s\n%s", endpoint, c.account, now, key.id,
			answer, err, reached, want, c.inForce(now), c.planAt(now), got.Body)
	}
}

// checkBills compares the bills of all accounts with the models, and with what the
// calls cost.
func (y *year) checkBills(first, last calendar.Day) {
	y.Helper()
	got, next, err := y.world.db.Bills(context.Background(), "", len(y.customer), first, last)
	y.must(err)
	var want []book.Bill
	for _, c := range y.customer {
		for _, b := range c.counts.Bills(c.account) {
			b.Period = 0 // see below
			want = append(want, b)
		}
	}
	called, credited, overage := map[billed]int64{}, map[billed]int64{}, int64(0)
	for i := range got {
		b := &got[i]
		c := y.customer[slices.IndexFunc(y.customer, func(c *customer) bool { return c.account == b.Account })]
		if period := c.month(b.Day).First; !b.Closed && b.Day >= c.known() && b.Period != period {
			y.Errorf("%+v: want the period from %s", *b, period)
		}
		b.Plan, b.Period = "", 0 // the plan changes
		of := billed{b.Account, b.Endpoint, b.Day}
		called[of], credited[of], overage = called[of]+b.Calls, credited[of]+b.Credited, overage+b.Overage
	}
	if !slices.Equal(got, want) || next != "" {
		y.Fatalf("bills from %s to %s, next %q:\n got %+v\nwant %+v", first, last, next, got, want)
	}
	for of, calls := range y.called {
		if called[of] != calls || credited[of] != y.credited[of] {
			y.Errorf("bill of %+v: got %d, %d of them credited, want %d, %d", of, called[of], credited[of], calls, y.credited[of])
		}
	}
	y.overage = overage
}

func (y *year) setZone(zones ...string) {
	var err error
	y.calendar, err = calendar.New(zones[y.IntN(len(zones))])
	y.must(err)
}

// configure loads the configuration.
func (y *year) configure(paces bool) {
	config := y.config(paces)
	y.world.configure(y.T, config)
	for _, c := range y.customer {
		c.config, c.calendar = config, y.calendar
	}
}

// opened makes the gate use a store that has just been opened.
func (y *year) opened(db *storetest.Store, engine io.Closer, of gate.Store, paces bool) {
	y.world.db, y.world.store = db, of
	y.closes = func() error { return errors.Join(db.Close(), engine.Close()) }
	y.configure(paces)
	for _, c := range y.customer {
		c.counts.Restart()
	}
}

func (y *year) openBadger(dir string) {
	engine, err := badgerstore.Open(dir, badgerstore.Options{Reserve: 1 << 20})
	y.must(err)
	db := storetest.New(engine)
	y.dir = dir
	y.opened(db, engine, db, true)
}

func (y *year) openRedis() {
	engine, err := redisstore.Open(redisstore.Options{URL: y.redis.URL(), Timeout: 10 * time.Second})
	y.must(err)
	for deadline := time.Now().Add(30 * time.Second); engine.Check(context.Background()) != nil && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	db := storetest.New(engine)
	y.dir = ""
	y.opened(db, engine, undated{db}, false)
}

// undated takes the end from the decisions about calls: by the clock of the server,
// it is over.
type undated struct{ *storetest.Store }

func (u undated) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	call.Until = time.Time{}
	return u.Store.Take(ctx, call, limits, rooms)
}

func (u undated) Rooms(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	call.Until = time.Time{}
	return u.Store.Rooms(ctx, call, limits, rooms)
}

// pieces closes the store and returns what it has.
func (y *year) pieces() iter.Seq2[book.Piece, error] {
	list := storetest.Pieces(y.T, y.world.db.Book)
	y.must(y.closes())
	return func(yield func(book.Piece, error) bool) {
		for _, p := range list {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func (y *year) toRedis() {
	y.redis = redistest.Start(y.T, "appendonly yes", "appendfsync always")
	y.must(redisstore.Restore(context.Background(), redisstore.Options{URL: y.redis.URL()}, y.pieces()))
	y.openRedis()
}

func (y *year) toBadger() {
	dir := y.TempDir()
	y.must(badgerstore.Restore(dir, badgerstore.Options{Reserve: 1 << 20}, y.pieces()))
	y.openBadger(dir)
}

// kill ends the store without closing it: its files are those of the moment.
func (y *year) kill() {
	if y.dir == "" {
		y.must(y.redis.Kill())
		_ = y.closes() // it says that the server is gone
		y.must(y.redis.Restart())
		y.openRedis()
		return
	}
	left := y.TempDir()
	y.must(os.CopyFS(left, os.DirFS(y.dir)))
	y.must(y.closes())
	y.openBadger(left)
}
