package book_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// renames are those of a configuration that has renamed what most tests use.
func renames() (n store.Names) {
	for _, r := range []*store.Renames{&n.Endpoints, &n.Abilities} {
		r.Add("convert", []string{"change", "exchange"})
		r.Add("rates", []string{"fixings"})
	}
	return n
}

// TestRenamedEngine: a book with other names keeps all promises of a store. The
// abilities of grants have the names of the store.
func TestRenamedEngine(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) book.Engine {
		return book.New(memstore.New(), slog.New(slog.DiscardHandler)).Renamed(store.Names{Endpoints: renames().Endpoints}).Engine
	})
}

// shown is what a document says about endpoints and abilities.
func shown(t *testing.T, b *book.Book) (list []string) {
	t.Helper()
	a, err := b.Get(t.Context(), "acc_1")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range a.Overrides {
		list = append(list, fmt.Sprintf("%s/%s %d", o.Endpoint, o.Period, o.Max))
	}
	for _, k := range a.Keys {
		list = append(list, fmt.Sprintf("%s%v%v", k.Name, k.Abilities, k.Limits))
	}
	return list
}

func wantList(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestRenamed: gates with the names of before and of today share accounts, keys,
// limits and counts.
func TestRenamed(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	today := b.Renamed(renames())
	change := func(b *book.Book, edit func(a *book.Account) error) {
		t.Helper()
		if err := b.ChangeOne(t.Context(), now, "acc_1", edit); err != nil {
			t.Fatal(err)
		}
	}
	limit := func(endpoint string, period store.Period, most int64) store.Limit {
		return store.Limit{Endpoint: endpoint, Period: period, Max: most}
	}
	named := func(id string, limits []store.Limit, abilities ...string) book.Key {
		k := key(id, 0)
		k.Account, k.Abilities, k.Limits = "acc_1", abilities, limits
		return k
	}
	change(b, func(a *book.Account) error {
		a.Exists, a.Plan = true, "starter"
		a.Overrides = []store.Override{{Limit: limit("change", store.Day, 4)}, {Limit: limit("exchange", store.Day, 3)}, {Limit: limit("other", store.Day, 2)}}
		return a.Create(named("k1", []store.Limit{limit("change", store.Day, 9)}, "change", "exchange", "fixings", "other"))
	})
	wantList(t, "today", shown(t, today), "convert/day 3", "other/day 2", "k1[convert other rates][{convert day 9 false}]")
	change(today, func(a *book.Account) error {
		a.Overrides = append(a.Overrides, store.Override{Limit: limit("rates", store.Month, 1)})
		return a.Create(named("k2", []store.Limit{limit("rates", store.Day, 8)}, "convert"))
	})
	wantList(t, "before", shown(t, b), "change/day 3", "other/day 2", "fixings/month 1", "k1[change fixings other][{change day 9 false}]", "k2[change][{fixings day 8 false}]")

	for want, of := range map[string]*book.Book{"convert": today, "change": b} {
		hash := named("k1", nil).Hash
		g, err := of.Grant(t.Context(), hash, now)
		confirmed, err2 := of.Confirm(t.Context(), hash, now)
		ofAccount, err3 := of.GrantAccount(t.Context(), "acc_1", true)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		if g.Overrides[0].Endpoint != want || g.Restriction.Limits[0].Endpoint != want || ofAccount.Overrides[0].Endpoint != want ||
			!gocmp.Equal(g.Overrides, confirmed.Overrides) || !gocmp.Equal(g.Restriction.Limits, confirmed.Restriction.Limits) {
			t.Errorf("got the grants %+v, %+v and %+v, want those of %s", g, confirmed, ofAccount, want)
		}
	}

	take := func(b *book.Book, endpoint string, want bool) {
		t.Helper()
		call := store.Call{Account: "acc_1", Endpoint: endpoint, Day: creditDay, At: now}
		got, err := b.Take(t.Context(), call, []store.Limit{limit(endpoint, store.Day, 3), limit(endpoint, store.Hour, 9)}, make([]store.Room, 2))
		if err != nil || got != want {
			t.Errorf("a call of %s: got %v, %v, want %v", endpoint, got, err, want)
		}
		b.Record(store.Record{Account: "acc_1", Endpoint: endpoint, At: time.Now(), Status: 200})
	}
	take(b, "change", true)
	take(today, "convert", true)
	take(b, "change", true)
	take(today, "convert", false)
	if err := today.Settle(t.Context(), store.Call{Account: "acc_1", Endpoint: "convert", Day: creditDay}, 0); err != nil {
		t.Error(err)
	}
	take(b, "change", true)
	take(b, "change", false)
	take(b, "exchange", true) // by a configuration that had no rename yet
	take(today, "other", true)

	counts, err := today.CountsOfAccounts(t.Context(), []string{"acc_1"}, creditDay, creditDay)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(counts, func(x, y store.StoredCount) int { return cmp.Compare(x.Endpoint, y.Endpoint) })
	wantList(t, "counts", []string{fmt.Sprint(counts)}, fmt.Sprintf("[{acc_1  {%[1]v convert 4}} {acc_1  {%[1]v other 1}}]", creditDay))
	recent, err := today.Recent(t.Context(), "acc_1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var endpoints []string
	for _, r := range recent {
		endpoints = append(endpoints, r.Endpoint)
	}
	slices.Sort(endpoints)
	wantList(t, "recent calls", slices.Compact(endpoints), "convert", "other")
	for _, of := range []struct {
		book     *book.Book
		endpoint string
	}{{today, "convert"}, {b, "change"}} { // once, as it has an id
		credit := []book.Credit{{Day: creditDay, Endpoint: of.endpoint, Calls: 2}}
		want := []book.Credit{{Day: creditDay, Endpoint: of.endpoint, Calls: 2, Credited: 2, Called: 3}}
		made, err := of.book.Credit(t.Context(), now, "acc_1", "credit_1", credit, func(_ *book.Account, recorded []book.Credit) {
			if !slices.Equal(recorded, want) {
				t.Errorf("a credit of %s: recorded %+v", of.endpoint, recorded)
			}
		})
		if err != nil || !slices.Equal(made, want) {
			t.Errorf("a credit of %s: got %+v, %v", of.endpoint, made, err)
		}
	}
	take(today, "convert", true)
	take(today, "convert", true)
	take(today, "convert", false)
	if stored, err := today.AsStored().Counts(t.Context(), "acc_1", "", creditDay, creditDay); err != nil || len(stored) != 3 {
		t.Errorf("got %v, %v, want the counts of three names", stored, err)
	}
}
