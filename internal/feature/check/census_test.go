package check_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature/check"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestCensus counts more accounts than one page has, and only live keys and the
// calls of this month.
func TestCensus(t *testing.T) {
	t.Parallel()
	s, p := storetest.New(memstore.New()), compile(t, policy.Config{Timezone: "Europe/Berlin"})
	defer s.Close()
	spend := func(account, endpoint string, day calendar.Day, calls int64) {
		t.Helper()
		if ok, err := s.Take(t.Context(), store.Call{Account: account, Endpoint: endpoint, Day: day, Cost: calls}, nil, nil); !ok || err != nil {
			t.Fatalf("taking calls: %v, %v", ok, err)
		}
	}
	now := time.Date(2126, 11, 20, 9, 0, 0, 0, time.UTC) // ahead of the clock of the machine
	today := p.Calendar.At(now).Day
	first, last := today.Month()
	const accounts = 450
	for i := range accounts {
		id := fmt.Sprintf("acc_%03d", i)
		err := s.ChangeOne(t.Context(), now, id, func(a *book.Account) error {
			a.Exists, a.Plan = true, []string{"starter", "gone"}[i%2]
			if i == 7 { // its plan has ended
				a.Plan, a.PlanUntil, a.Then = "starter", now, "gone"
			}
			if i == 8 { // it ends later
				a.PlanUntil, a.Then = now.Add(time.Second), "later"
			}
			if i >= 5 {
				return nil
			}
			key := store.Key{ID: id, Name: "ci", Kind: token.Key, Abilities: []string{"convert", "usage"}, CreatedAt: now.Add(-time.Hour)}
			switch i {
			case 1:
				key.Abilities = []string{"convert"}
			case 2:
				key.ExpiresAt = now
			case 3:
				key.Kind, key.ExpiresAt = token.Login, now.Add(time.Hour)
			}
			if err := a.Create(book.Key{Key: key, Hash: sha256.Sum256([]byte(id))}); err != nil || i != 4 {
				return err
			}
			return a.Revoke(id, now)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for day, calls := range map[calendar.Day]int64{first: 2, today: 3, first - 1: 50, last + 1: 60} {
		spend("acc_000", "convert", day, calls)
		spend("acc_449", "old", day, calls)
	}
	if _, err := s.Credit(t.Context(), now, "acc_449", "", []book.Credit{{Day: today, Endpoint: "old", Calls: 3}}, func(*book.Account, []book.Credit) {}); err != nil {
		t.Fatal(err)
	}
	// What the former account with an id called is none of the new one's.
	spend("acc_448", "old", today, 7)
	err := s.CloseAccount(t.Context(), now, "acc_448", first, today, func(*book.Account, []book.Bill) {})
	if err == nil {
		err = s.ChangeOne(t.Context(), now, "acc_448", func(a *book.Account) error {
			a.Exists, a.Plan = true, "starter"
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetTimezone(t.Context(), "UTC"); err != nil {
		t.Fatal(err)
	}
	got, err := check.Census(t.Context(), p, s.Book, now)
	want := api.Census{
		Plans: map[string]int64{"starter": accounts / 2, "gone": accounts / 2}, Then: map[string]int64{"later": 1}, Abilities: map[string]int64{"convert": 2, "usage": 1},
		Endpoints: map[string]int64{"convert": 5, "old": 5}, Timezone: "UTC",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := check.Census(ended, p, s.Book, now); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the configuration: got %v", err)
	}
}
