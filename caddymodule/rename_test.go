package caddymodule_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestRenamedReports: refused calls and events of a limit are the same ones
// after a rename.
func TestRenamedReports(t *testing.T) {
	handled.Lock()
	handled.events, handled.takes = nil, 0
	handled.Unlock()
	before := "guard /api/\nendpoint convert GET /api/convert/{from}/{amount}/{to}\nplan small {\nconvert 2\n}\nwarn 80"
	s := start(t, setup{
		zone: calmZone(), port: freePort(t), gate: before,
		global: "events {\n\ton tollgate.quota_exceeded tollgate_test\n\ton tollgate.quota_warning tollgate_test\n\ton tollgate.account_changed tollgate_test\n}",
	})
	account, bearer := s.account(t, "small", "convert")
	refused := func() {
		t.Helper()
		if got := s.get(t, convert, bearer); got.code() != "quota_exceeded" {
			t.Fatalf("got %+v", got)
		}
		if err := app(t).FlushReports(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.get(t, convert, bearer)
	s.get(t, convert, bearer)
	refused()
	s.gate = strings.NewReplacer("{to}", "{to} {\nrename convert\n}", "endpoint convert", "endpoint exchange", "\nconvert 2", "\nexchange 2").Replace(before)
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	refused()
	changeAccount(t, "acc_last") // its event comes behind those of calls
	app(t).Follow()
	want := []string{"tollgate.quota_warning " + account + " 80", "tollgate.quota_exceeded " + account + " 100", "tollgate.account_changed acc_last "}
	var got []string
	eventually(t, "the last event", func() bool {
		handled.Lock()
		defer handled.Unlock()
		got = slices.Clone(handled.events)
		return len(got) > 0 && got[len(got)-1] == want[2]
	})
	if !slices.Equal(got, want) {
		t.Errorf("got the events %q, want %q", got, want)
	}
	day := compiled(t).Calendar.At(time.Now()).Day
	rows, err := s.store(t).ListRefused(t.Context(), account, day, day, store.Refused{}, 9)
	if err != nil || len(rows) != 1 || rows[0].Endpoint != "convert" || rows[0].Calls != 2 {
		t.Errorf("got the refused calls %+v, %v", rows, err)
	}
}

// TestRenameUnderLoad renames an endpoint while calls run, and takes that back,
// several times: keys work, no call is lost, and a limit is exact.
func TestRenameUnderLoad(t *testing.T) {
	const limit = 300
	before := fmt.Sprintf(`guard /api/
		endpoint convert GET /api/convert/{from}/{amount}/{to}
		endpoint batch POST /api/convert/batch {
			ability convert
		}
		plan limited {
			convert %d
		}
		plan business {
			convert unlimited
			convert 100000 month
		}`, limit)
	after := strings.NewReplacer(
		"endpoint convert", "endpoint exchange", "{to}", "{to} {\n rename convert change\n}",
		"ability convert", "ability exchange", "\tconvert ", "\texchange ",
	).Replace(before)
	s := start(t, setup{zone: calmZone(), port: freePort(t), gate: before})
	business, bearer := s.account(t, "business", "convert")
	limited, other := s.account(t, "limited", "convert")
	restricted := s.key(t, store.Key{ID: "key_restricted", Account: business, Name: "own limit", Abilities: []string{"convert"},
		Limits: []store.Limit{{Endpoint: "convert", Period: store.Month, Max: limit, OfKey: true}}})

	var admitted, cut, ofLimited, ofRestricted atomic.Int64
	done := make(chan struct{})
	var running sync.WaitGroup
	var limitedRefused, restrictedRefused atomic.Int64
	call := func(bearer string, answered, refused *atomic.Int64) {
		for {
			select {
			case <-done:
				return
			default:
			}
			got, err := s.try(t.Context(), http.MethodGet, convert, "", "Authorization: Bearer "+bearer)
			switch {
			case err != nil:
				cut.Add(1)
			case got.status == http.StatusOK:
				answered.Add(1)
			case got.status == http.StatusTooManyRequests && refused != nil:
				refused.Add(1)
			default:
				t.Errorf("got %d %s", got.status, got.body)
				return
			}
		}
	}
	for range 2 {
		running.Go(func() { call(bearer, &admitted, nil) })
		running.Go(func() { call(other, &ofLimited, &limitedRefused) })
		running.Go(func() { call(restricted, &ofRestricted, &restrictedRefused) })
	}
	for i := range 7 {
		if s.gate = before; i%2 == 0 {
			s.gate = after
		}
		if err := s.reload(); err != nil {
			t.Fatal(err)
		}
		already := ofLimited.Load() + ofRestricted.Load() + admitted.Load()
		eventually(t, "calls with the configuration", func() bool {
			return admitted.Load()+ofLimited.Load()+ofRestricted.Load() > already+50
		})
	}
	eventually(t, "the limits", func() bool { return limitedRefused.Load() > 0 && restrictedRefused.Load() > 0 })
	close(done)
	running.Wait()

	all, connections := admitted.Load()+ofRestricted.Load(), cut.Load()
	if n := s.used(t, business, "exchange"); n < all || n > all+connections {
		t.Errorf("counted %d calls, answered %d, cut off %d", n, all, connections)
	}
	if n := s.used(t, limited, "exchange"); n != limit || ofLimited.Load() > limit || ofLimited.Load() < limit-connections {
		t.Errorf("counted %d calls, answered %d, cut off %d, want %d counted", n, ofLimited.Load(), connections, limit)
	}
	got := s.get(t, convert, other)
	if policy := got.header.Get("Ratelimit-Policy"); got.status != 429 || !strings.Contains(got.body, `"endpoint":"exchange"`) || !strings.HasPrefix(policy, `"exchange";q=300`) {
		t.Errorf("got %d, %s, %s", got.status, policy, got.body)
	}
	got = s.get(t, convert, restricted)
	if policy := got.header.Get("Ratelimit-Policy"); got.status != 429 || !strings.Contains(policy, `"key-exchange-month";q=300`) || ofRestricted.Load() > limit {
		t.Errorf("a key with a limit: got %d, %s after %d calls", got.status, policy, ofRestricted.Load())
	}
	if got := s.get(t, convert, bearer); got.status != 200 {
		t.Errorf("the key of before: got %d %s", got.status, got.body)
	}
	if n := s.used(t, business, "convert"); n != 0 {
		t.Errorf("%d calls have the name of before", n)
	}
}
