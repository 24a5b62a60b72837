package browsertest_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/web/browsertest"
)

// screenshots is where to put the pictures of the README:
//
//	go test ./upstream/web/browsertest -run LivePages -screenshots "$PWD/docs"
var screenshots = flag.String("screenshots", "", "`directory` to write pictures of Settings and My usage to")

// endpoints are those of the shipped Caddyfile, with what an account on
// the plan starter may call in a day.
var endpoints = map[string]int64{"currencies": 100, "convert": 1000, "rates": 1000, "history": 100, "batch": 50, "usage": 1000}

// past is what an account did before the test.
type past struct {
	account string
	keys    []string
	// busy is the part of its limits that it used today, in hundredths.
	busy map[string]int64
}

// live gives an account its past: keys, a month of usage and some recent
// calls, in the gate's own store while the gate is down.
func (p past) live(t *testing.T, db store.Store) {
	t.Helper()
	now := time.Now()
	limited := "" // the id of a key with limits of its own
	for i, name := range p.keys {
		secret, err := token.New(token.Key, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		id, err := token.NewID(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key := store.Key{
			ID: id, Account: p.account, Kind: token.Key, Name: name, Hint: secret.String(),
			Abilities: []string{"convert", "currencies", "history", "rates", "usage"}[i%3:],
			CreatedAt: now.Add(-time.Duration(len(p.keys)-i) * 77 * time.Hour),
		}
		if i == 1 {
			limited = id
			key.Limits = []store.Limit{{Endpoint: "history", Period: store.Month, Max: 1500, OfKey: true}}
			key.Addresses = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
		}
		if i%2 == 0 {
			key.ExpiresAt = now.Add(time.Duration(i*i*20+5) * 24 * time.Hour)
		}
		if err := db.CreateKey(t.Context(), key, secret.Hash()); err != nil {
			t.Fatal(err)
		}
		for n := range 8 {
			db.Record(store.Record{
				Account: p.account, Key: id, KeyName: name, At: now.Add(-time.Duration(n*n*(i+1)*97) * time.Second),
				Endpoint: "convert", Method: "GET", Path: []string{convert, "/api/convert/USD/1250.50/JPY", "/api/rates/GBP"}[n%3],
				Status: []int{200, 200, 304, 200, 200, 404, 200, 429}[n], Duration: time.Duration(900+n*n*170) * time.Microsecond,
				From: netip.AddrFrom4([4]byte{203, 0, 113, byte(7 + i)}),
			})
		}
	}
	days, err := calendar.New("UTC")
	if err != nil {
		t.Fatal(err)
	}
	for daysAgo := range 30 {
		day := days.At(now.AddDate(0, 0, -daysAgo)).Day
		for endpoint, limit := range endpoints {
			calls := limit * p.busy[endpoint] / 100
			if daysAgo > 0 {
				quiet := int64(1)
				if d := now.UTC().AddDate(0, 0, -daysAgo).Weekday(); d == time.Saturday || d == time.Sunday {
					quiet = 4 // weekends
				}
				calls = limit * int64((daysAgo*7+len(endpoint)*5)%19) / 40 / quiet
			}
			p.take(t, db, store.Call{Account: p.account, Endpoint: endpoint, Key: limited, At: now, Day: day}, calls)
		}
	}
}

func (p past) take(t *testing.T, db store.Store, call store.Call, calls int64) {
	t.Helper()
	for range calls {
		if _, err := db.Take(context.Background(), call, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Every page of the running product, with as many keys as an account may
// have and a month of usage, is free of what axe-core finds, in light and
// dark, and weighs at most 50 KB with all that it loads.
func TestLivePages(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	full := past{account: addAccount(s, "starter"), busy: map[string]int64{"convert": 43}}
	for i := range 100 {
		full.keys = append(full.keys, fmt.Sprintf("a program with a name of some length, %d", i))
	}
	demo := past{
		account: strings.TrimSpace(s.Upstream(password+"\n", "account", "add", "--email", "grace@example.com", "--plan", "starter")),
		keys:    []string{"shop backend", "nightly report", "continuous integration"},
		busy:    map[string]int64{"currencies": 12, "convert": 83, "rates": 41, "history": 100, "batch": 24, "usage": 5},
	}
	s.StopCaddy()
	db, shut := controltest.Open(t, filepath.Join(s.Data, "gate"))
	full.live(t, db)
	demo.live(t, db)
	shut()
	s.StartCaddy()

	browser := browsertest.Start(t)
	for look, options := range map[string][]browsertest.Option{"light": nil, "dark": {browsertest.Dark}} {
		p := browser.Person(options...)
		signIn(t, s, p)
		for _, path := range []string{"/usage", "/usage/calls", "/settings/keys", "/settings/keys?page=2", "/settings/keys/new",
			"/settings/plan", "/settings/password", "/settings/sessions", "/docs/go", "/docs/errors", "/nothing"} {
			check(t, s, p, look, path)
		}
		if *screenshots != "" {
			picture(t, s, browser.Person(options...), look)
		}
	}
}

// check looks at one page.
func check(t *testing.T, s *stack.Stack, p *browsertest.Page, look, path string) {
	t.Helper()
	p.Go(s.Address + path)
	for _, violation := range p.Violations() {
		t.Errorf("%s, %s: %s", path, look, violation)
	}
	const loaded = `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
		.filter(e => !e.name.includes("background")).reduce((sum, e) => sum + e.decodedBodySize, 0)`
	weight := browsertest.Evaluate[float64](p, loaded)
	if weight < 1000 || weight > 50<<10 {
		t.Errorf("%s, %s: %.0f bytes with all that it loads, want at most 50 KB", path, look, weight)
	}
	const waited = `(e => e.responseStart - e.requestStart)(performance.getEntriesByType("navigation")[0])`
	t.Logf("%s, %s: %.0f bytes, first byte after %.1f ms", path, look, weight, browsertest.Evaluate[float64](p, waited))
}

// picture takes the pictures of the README.
func picture(t *testing.T, s *stack.Stack, p *browsertest.Page, look string) {
	t.Helper()
	p.Go(s.Address + "/login")
	p.Type("#email", "grace@example.com")
	p.Type("#password", password)
	p.Press("main button")
	p.Await("#calls", "shop backend")
	p.Screenshot(filepath.Join(*screenshots, "usage-"+look+".png"))
	p.Go(s.Address + "/settings/keys")
	p.Screenshot(filepath.Join(*screenshots, "settings-"+look+".png"))
}
