package book_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// renames are those of a configuration that has renamed what most tests use.
func renames() (n store.Names) {
	for _, r := range []*store.Renames{&n.Endpoints, &n.Abilities} {
		r.Add("convert", []string{"change", "exchange"})
		r.Add("rates", []string{"fixings"})
	}
	return n
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
	wantList(t, "today", shown(t, today), "convert/day 3", "other/day 2", "k1[convert other rates][{convert day 9 false false false false 0 0}]")
	change(today, func(a *book.Account) error {
		a.Overrides = append(a.Overrides, store.Override{Limit: limit("rates", store.Month, 1)})
		return a.Create(named("k2", []store.Limit{limit("rates", store.Day, 8)}, "convert"))
	})
	wantList(t, "before", shown(t, b), "change/day 3", "other/day 2", "fixings/month 1", "k1[change fixings other][{change day 9 false false false false 0 0}]", "k2[change][{fixings day 8 false false false false 0 0}]")

	stored, err := b.Grant(t.Context(), named("k1", nil).Hash, now)
	if err != nil {
		t.Fatal(err)
	}
	stored.Terms.Overrides = append(stored.Terms.Overrides, store.Override{Limit: limit("exchange", store.Day, 5)}) // by a configuration that had no rename yet
	granted := renames().Grant(stored)
	wantList(t, "limits of a grant", []string{fmt.Sprint(granted.Terms.Overrides[2].Limit, len(granted.Terms.Overrides), granted.Restriction.Limits)}, "{convert day 5 false false false false 0 0} 3 [{convert day 9 false false false false 0 0}]")
	if before := fmt.Sprint(stored.Terms.Overrides[0].Endpoint, stored.Restriction.Limits); before != "change[{change day 9 false false false false 0 0}]" {
		t.Errorf("the grant of the store has changed: %s", before)
	}

	call := func(endpoint string, calls int) {
		t.Helper()
		for range calls {
			if got, err := b.Take(t.Context(), store.Call{Account: "acc_1", Endpoint: endpoint, Day: creditDay, At: now}, nil, nil); err != nil || !got {
				t.Errorf("a call of %s: got %v, %v", endpoint, got, err)
			}
		}
	}
	call("change", 3)
	call("exchange", 1)
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
	bills, _, err := today.Bills(t.Context(), "", 9, creditDay, creditDay)
	if err != nil || len(bills) != 1 || bills[0].Endpoint != "convert" || bills[0].Calls != 4 || bills[0].Credited != 2 {
		t.Errorf("got the bills %+v, %v", bills, err)
	}
	err = today.Reset(t.Context(), now, "acc_1", "convert", creditDay, func(_ *book.Account, made []book.Credit) {
		if len(made) != 1 || made[0].Endpoint != "convert" || made[0].Credited != 1 {
			t.Errorf("a reset made %+v", made)
		}
	})
	counts, failed := b.Counts(t.Context(), "acc_1", "", creditDay, creditDay)
	if err := errors.Join(err, failed); err != nil || len(counts) != 1 || counts[0].Endpoint != "exchange" || counts[0].Used != 1 {
		t.Errorf("after a reset: got the counts %+v, %v", counts, err)
	}
}
