package gate_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// simulation takes a gate and the model through the same events.
type simulation struct {
	*rapid.T
	t       *testing.T
	db      *storetest.Store
	model   *model
	world   *world
	account string
	first   calendar.Day
	keys    []*modelKey
}

// eras are zones and times near which clocks change in unusual ways.
var eras = []struct{ zone, start string }{ // UTC
	{"Pacific/Apia", "2011-12-28T12:00:00Z"},   // a day is skipped
	{"America/Havana", "2127-03-08T12:00:00Z"}, // midnight is skipped
	{"America/Havana", "2127-10-31T12:00:00Z"}, // an hour of the night is repeated
	{"Australia/Lord_Howe", "2127-04-05T00:00:00Z"},
	{"Europe/Berlin", "2127-03-29T12:00:00Z"},
	{"America/Santiago", "2127-09-05T12:00:00Z"},
	{"Asia/Kathmandu", "2128-02-28T12:00:00Z"},
}

// TestModel takes random plans, costs, overrides and limits of keys through
// random calls, reservations, changes, refunds, resets, steps of the clock and reloads. The
// model agrees on each answer, its fields and each count.
func TestModel(t *testing.T) {
	t.Parallel()
	rounds, checks := 1, "40"
	if storetest.Long() {
		rounds, checks = 20, "100"
	}
	if err := flag.Set("rapid.checks", checks); err != nil { // nothing else here uses it
		t.Fatal(err)
	}
	db := openStore(t)
	for range rounds {
		rapid.Check(t, func(r *rapid.T) {
			s := newSimulation(r, t, db)
			r.Repeat(map[string]func(*rapid.T){
				"":       s.with(s.checkCounts),
				"call":   s.with(s.call),
				"call 2": s.with(s.call),
				"call 3": s.with(s.call),
				"call 4": s.with(s.call),
				"call 5": s.with(s.call),
				"wait":   s.with(s.wait),
				"wait 2": s.with(s.wait),
				"change": s.with(s.change),
				"terms":  s.with(s.changeTerms),
				"reload": s.with(s.reload),
			})
		})
	}
}

// with runs a step with the state of its own draws.
func (s *simulation) with(step func()) func(*rapid.T) {
	return func(r *rapid.T) {
		s.T = r
		step()
	}
}

func newSimulation(r *rapid.T, t *testing.T, db *storetest.Store) *simulation {
	era := rapid.SampledFrom(eras).Draw(r, "era")
	start, err := time.Parse(time.RFC3339, era.start)
	s := &simulation{
		T: r, t: t, db: db, account: newID(t),
		model: &model{modelTerms: modelTerms{plan: "one"}, counts: storetest.Model{}},
		world: &world{now: start, outcomes: map[string]int{}, store: db, db: db, reservations: gate.NewReservations()},
	}
	s.must(err)
	s.model.account = s.account
	s.model.calendar, err = calendar.New(era.zone)
	s.must(err)
	s.first = s.today()
	s.model.config = s.config(era.zone)
	s.world.configure(t, s.model.config)
	s.createAccount()
	return s
}

// createAccount makes the account with two keys.
func (s *simulation) createAccount() {
	s.model.modelTerms = modelTerms{plan: s.model.plan, billing: s.billingDay()}
	s.changeAccount(func(a *store.Account) {
		a.Plan, a.Overrides, a.Billing.Day = s.model.plan, slices.Clone(s.model.overrides), s.model.billing
	})
	s.keys = nil
	life := s.model.counts.Begin(s.account, s.model.plan)
	for range 2 {
		key := &modelKey{limits: s.keyLimits()}
		s.keys = append(s.keys, key)
		stored := s.newKey(key)
		tok := newToken(s.t)
		s.must(s.db.CreateKey(context.Background(), stored, tok.Hash()))
		key.id, key.root, key.bearer = stored.ID, stored.ID, tok.Reveal()
		life.Keys = append(life.Keys, key.root)
	}
}

func (s *simulation) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("unexpected error: %v", err)
	}
}

func newID(t *testing.T) string {
	t.Helper()
	id, err := token.NewID(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *simulation) newKey(key *modelKey) store.Key {
	id := newID(s.t)
	return store.Key{
		ID: id, Account: s.account, Kind: token.Key, Name: id, CreatedAt: s.world.now,
		Abilities: []string{"batch", "convert", "history", "usage"}, Limits: key.limits,
	}
}

// changeAccount changes the account by the clock of the simulation.
func (s *simulation) changeAccount(change func(*store.Account)) {
	s.must(s.db.ChangeOne(context.Background(), s.world.now, s.account, func(a *book.Account) error {
		a.Exists = true
		change(&a.Account)
		return nil
	}))
}

// call makes equal calls with one key, one after the other.
func (s *simulation) call() {
	endpoint := rapid.SampledFrom([]string{"convert", "history", "batch", policy.UsageEndpoint}).Draw(s.T, "endpoint")
	key := rapid.SampledFrom(s.keys).Draw(s.T, "key")
	elements := rapid.IntRange(0, 5).Draw(s.T, "elements")
	for range rapid.IntRange(1, 8).Draw(s.T, "calls") {
		told := tells{
			how:    rapid.SampledFrom([]string{"header", "header", "trailer", "trailer", "no", "malformed"}).Draw(s.T, "tells"),
			cost:   int64(rapid.IntRange(0, 9).Draw(s.T, "told cost")),
			status: rapid.SampledFrom([]int{200, 200, 200, 404, 500}).Draw(s.T, "status"),
		}
		if rapid.IntRange(0, 3).Draw(s.T, "holds") == 0 {
			other := rapid.SampledFrom(s.keys).Draw(s.T, "other key")
			told.meanwhile = rapid.SampledFrom([]func(){
				func() { s.one("convert", other, 0, false, 0, tells{status: http.StatusOK}) },
				s.change,
				s.changeTerms,
				s.reload,
			}).Draw(s.T, "meanwhile")
		}
		fails, during := rapid.IntRange(0, 5).Draw(s.T, "fails") == 0, time.Duration(0)
		if rapid.IntRange(0, 7).Draw(s.T, "slow") == 0 || fails && rapid.Bool().Draw(s.T, "fails late") {
			during = s.step()
		}
		s.one(endpoint, key, int64(elements), fails, during, told)
		if !slices.Contains(s.keys, key) { // of an account that was deleted meanwhile
			return
		}
	}
}

// tells is how an answer tells the cost of its call, and what happens before.
type tells struct {
	how       string
	cost      int64
	status    int
	meanwhile func()
}

// header writes an answer.
func (t tells) header(w http.ResponseWriter) {
	const name = "Tollgate-Cost"
	cost := strconv.FormatInt(t.cost, 10)
	switch t.how {
	case "header":
		w.Header().Set(name, cost)
	case "malformed":
		w.Header().Set(name, cost+".0")
	case "trailer":
		w.Header().Set("Trailer", name)
		defer w.Header().Set(name, cost)
	}
	w.WriteHeader(t.status)
}

// one makes a call and compares the answer.
func (s *simulation) one(endpoint string, key *modelKey, elements int64, fails bool, during time.Duration, told tells) {
	s.Helper()
	now, reached := s.world.now, 0
	s.world.next = func(w http.ResponseWriter, _ *http.Request) error {
		reached++
		s.world.now = now.Add(during)
		if told.meanwhile != nil {
			told.meanwhile()
		}
		if fails {
			return failure(http.StatusBadGateway)
		}
		told.header(w)
		return nil
	}
	body, method := "", "GET"
	if endpoint == "batch" {
		body, method = `{"items":[`+strings.TrimSuffix(strings.Repeat(`{"a":[1]},`, int(elements)), ",")+`]}`, "POST"
	}
	gate, costHeader, reservation, refund := s.world.gate, s.model.reserves(endpoint), costOf(s.model.endpoint(endpoint)), s.model.config.Refund
	want, settle := s.model.take(endpoint, key, now, elements)
	got, err := s.world.ask(method, "/api/"+endpoint, body, "Authorization: Bearer "+key.bearer, "Content-Type: application/json")
	s.must(err)
	gate.Wait()
	wantReached := 0
	if want.status == http.StatusOK && endpoint != policy.UsageEndpoint {
		wantReached = 1
		switch {
		case fails && refund != policy.RefundNever, told.status >= 500 && refund == policy.RefundServerErrors, told.status >= 400 && refund == policy.RefundErrors:
			want = settle(0, true, s.world.now)
		case !costHeader:
		case told.how == "header" && !fails:
			want = settle(told.cost, false, s.world.now)
		case told.how == "trailer" && !fails:
			settle(told.cost, false, s.world.now)
		case told.status >= 400 && !fails:
			want = settle(0, false, s.world.now)
		default:
			settle(reservation, false, s.world.now)
		}
		if want.status = told.status; fails {
			want.status, want.code = http.StatusBadGateway, "upstream_unreachable"
		}
	}
	if answer := s.read(got); answer != want || reached != wantReached {
		s.Fatalf("%s at %s (%s) with %s, cost of %d elements:\n got %+v, upstream %d\nwant %+v, upstream %d\nlimits %+v, of the key %+v\n%s", endpoint,
			now.Format(time.RFC3339Nano), s.model.config.Timezone, key.id, elements, answer, reached, want, wantReached, s.model.inForce(now), key.limits, got.Body)
	}
	if want.retry > 0 && want.code != "quota_reserved" {
		s.checkWait(endpoint, key, elements, time.Duration(want.retry)*time.Second)
	}
}

// checkWait: a client that waits as long as a refusal says is admitted, and more
// than a second less is too short. Sometimes the client waits.
func (s *simulation) checkWait(endpoint string, key *modelKey, elements int64, wait time.Duration) {
	now, cost := s.world.now, costOf(s.model.endpoint(endpoint))
	rooms := s.model.rooms(endpoint, key, now, 1)
	if endpoint == "batch" && !slices.ContainsFunc(rooms, lacks(1)) {
		cost = max(1, elements)
	}
	changes := slices.ContainsFunc(rooms, func(r modelRoom) bool { return r.Max == 0 }) || // never admits
		s.model.changes(now, now.Add(wait)) ||
		slices.ContainsFunc(s.model.rooms(endpoint, key, now, cost), func(r modelRoom) bool { return r.reserved }) || // calls in progress go on
		slices.ContainsFunc(s.model.overrides, func(o store.Override) bool { return o.ExpiresAt.After(now) && !o.ExpiresAt.After(now.Add(wait)) })
	for _, after := range []time.Duration{max(0, wait-time.Second-1), wait} {
		admits := !slices.ContainsFunc(s.model.rooms(endpoint, key, now.Add(after), cost), lacks(cost))
		if !changes && admits != (after == wait) {
			s.Fatalf("%s at %s, Retry-After %s: admitted after %s: %t", endpoint, now, wait, after, admits)
		}
	}
	if rapid.IntRange(0, 3).Draw(s.T, "wait for it") == 0 {
		s.world.now = now.Add(wait)
	}
}

// read reads an answer. Refusals for other reasons have no limit.
func (s *simulation) read(got *httptest.ResponseRecorder) modelAnswer {
	answer, err := readAnswer(got)
	s.must(err)
	return answer
}

func readAnswer(got *httptest.ResponseRecorder) (answer modelAnswer, err error) {
	answer = modelAnswer{status: got.Code, policy: got.Header().Get("Ratelimit-Policy"), rateLimit: got.Header().Get("Ratelimit")}
	if got.Body.Len() == 0 || got.Code == http.StatusOK {
		return answer, nil // the usage, or the answer of the service
	}
	var body struct {
		Code, Endpoint, Period, Of string
		Limit                      int64
		ResetsAt                   string `json:"resets_at"`
	}
	if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
		return answer, err
	}
	answer.code, answer.endpoint, answer.period, answer.limit, answer.of, answer.resets = body.Code, body.Endpoint, body.Period, body.Limit, body.Of, body.ResetsAt
	if retry := got.Header().Get("Retry-After"); retry != "" {
		answer.retry, err = strconv.ParseInt(retry, 10, 64)
	}
	return answer, err
}

// wait moves the clock forward.
func (s *simulation) wait() { s.world.now = s.world.now.Add(s.step()) }

// change changes the account, a key, or the counts of the day.
func (s *simulation) change() { s.changeOne(rapid.IntRange(0, 7).Draw(s.T, "what")) }

// changeOne makes one change, by its number. From 6 on, it gives calls back.
func (s *simulation) changeOne(what int) {
	ctx := context.Background()
	switch what {
	case 0:
		s.setPlan()
	case 1, 2:
		s.override()
	case 3:
		key := rapid.SampledFrom(s.keys).Draw(s.T, "key")
		key.limits = s.keyLimits()
		_, err := s.db.ChangeKey(ctx, s.account, key.id, s.world.now, func(k *store.Key) error {
			k.Limits = key.limits
			return nil
		})
		s.must(err)
	case 4:
		key := rapid.SampledFrom(s.keys).Draw(s.T, "key")
		next, tok := s.newKey(key), newToken(s.t)
		_, err := s.db.RotateKey(ctx, s.account, key.id, next, tok.Hash(), next.CreatedAt)
		s.must(err)
		key.id, key.bearer = next.ID, tok.Reveal()
	case 5:
		if rapid.Bool().Draw(s.T, "delete") {
			s.must(s.db.DeleteAccount(ctx, s.account))
			s.model.life().End()
			s.model.progress = nil
			s.createAccount()
		}
	case 6:
		endpoint, calls := rapid.SampledFrom([]string{"convert", "history", "batch"}).Draw(s.T, "endpoint"), rapid.Int64Range(1, 9).Draw(s.T, "credit")
		made, err := s.db.Credit(ctx, s.db.Now(), s.account, "", []book.Credit{{Day: s.today(), Endpoint: endpoint, Calls: calls}}, func(*book.Account, []book.Credit) {})
		if want := s.model.counts.Credit(s.account, endpoint, s.today(), calls); made[0].Credited != want || (err != nil) != (want == 0) {
			s.Fatalf("credit of %d: got %+v, %v, want %d", calls, made, err, want)
		}
	default:
		endpoint := rapid.SampledFrom([]string{"", "convert", "batch"}).Draw(s.T, "endpoint")
		s.must(s.db.ResetCounts(ctx, s.account, endpoint, s.today()))
		for _, c := range s.model.life().Counts("") {
			if c.Day == s.today() && (endpoint == "" || c.Endpoint == endpoint) {
				s.model.counts.Credit(s.account, c.Endpoint, c.Day, c.Used)
			}
		}
	}
}

// today returns the day of the model's calendar.
func (s *simulation) today() calendar.Day {
	return s.model.calendar.At(s.world.now).Day
}

// override sets or removes an override.
func (s *simulation) override() {
	o := store.Override{Limit: s.limitOrNone(), CreatedAt: s.world.now}
	if rapid.Bool().Draw(s.T, "ends") {
		o.ExpiresAt = s.world.now.Add(1 + s.step())
	}
	at := slices.IndexFunc(s.model.overrides, func(other store.Override) bool { return same(o.Limit, other.Limit) })
	switch {
	case at < 0:
		s.model.overrides = append(s.model.overrides, o)
	case rapid.Bool().Draw(s.T, "remove"):
		s.model.overrides = slices.Delete(s.model.overrides, at, at+1)
	default:
		s.model.overrides[at] = o
	}
	s.changeAccount(func(a *store.Account) { a.Overrides = slices.Clone(s.model.overrides) })
}

// reload loads the same or another configuration.
func (s *simulation) reload() {
	if rapid.Bool().Draw(s.T, "other") {
		if len(s.model.billings) == 0 && rapid.IntRange(0, 3).Draw(s.T, "other zone") == 0 {
			other, err := calendar.New(rapid.SampledFrom(eras).Draw(s.T, "zone").zone)
			if s.must(err); other.At(s.world.now).Day >= s.today() { // otherwise a day comes again, with its counts
				s.model.calendar = other
			}
		}
		s.model.config = s.config(s.model.calendar.Zone())
	}
	s.world.configure(s.t, s.model.config)
}

// checkCounts compares the counts of the account and of each key.
func (s *simulation) checkCounts() {
	for _, key := range append([]*modelKey{{}}, s.keys...) {
		got, err := s.db.Counts(context.Background(), s.account, key.root, s.first-2, s.today()+2)
		s.must(err)
		slices.SortFunc(got, func(a, b store.Count) int {
			return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Endpoint, b.Endpoint))
		})
		if want := s.model.life().Counts(key.root); !slices.Equal(got, want) {
			s.Fatalf("counts of key %q: got %+v, want %+v", key.root, got, want)
		}
	}
}
