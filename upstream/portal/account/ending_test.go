package account_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// counted is a database that lists two accounts at once, and counts how often
// each account is read. With an error, it reads none.
type counted struct {
	account.Store
	reads map[string]int
	err   error
}

func (c counted) LoginsToEnd(ctx context.Context, after string, _ int) ([]account.Credential, error) {
	return c.Store.LoginsToEnd(ctx, after, 2)
}

func (c counted) ByID(ctx context.Context, id string) (account.Credential, error) {
	c.reads[id]++
	if c.err != nil {
		return account.Credential{}, c.err
	}
	return c.Store.ByID(ctx, id)
}

// EndLogins reads each account once, and asks the gate about each once, also
// about those after a refusal.
func TestEndLoginsOfMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	once := map[string]int{}
	for i := range 5 {
		a := account.Account{ID: fmt.Sprint("acc_", i), Email: account.Email(fmt.Sprint(i, "@example.com"))}
		if err := w.store.Add(ctx, a, "x"); err != nil {
			t.Fatal(err)
		}
		if err := w.store.SetPassword(ctx, account.Credential{Identity: account.Identity{Account: a, Version: 1}, Hash: "y"}); err != nil {
			t.Fatal(err)
		}
		once[a.ID] = 1
	}
	asked := map[string]int{}
	var mu sync.Mutex
	w.gate.Fail(&gatetest.Fault{
		Hits: func(r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			id := strings.Split(r.URL.Path, "/")[3]
			asked[id]++
			return id == "acc_1" || id == "acc_2"
		},
		Refusal: apierror.New(http.StatusConflict, "refused", "Not now."),
	})
	store := counted{w.store, map[string]int{}, nil}
	s := service(store, w.gate)
	if err := s.EndLogins(ctx); code(err) != "refused" {
		t.Errorf("got %v, want the refusal", err)
	}
	if !maps.Equal(store.reads, once) || !maps.Equal(asked, once) {
		t.Errorf("read %v, asked about %v, want each once", store.reads, asked)
	}
	left, err := w.store.LoginsToEnd(ctx, "", 10)
	if err != nil || len(left) != 2 {
		t.Errorf("left are %v, %v, want the two that were refused", left, err)
	}
	w.gate.Stop()
	clear(store.reads)
	if err := s.EndLogins(ctx); err == nil || len(store.reads) != 1 {
		t.Errorf("without the gate: got %v after %v, want an error after one account", err, store.reads)
	}
	clear(store.reads)
	store.err = account.ErrDatabase
	if err := service(store, w.gate).EndLogins(ctx); !errors.Is(err, account.ErrDatabase) || len(store.reads) != 1 {
		t.Errorf("without the database: got %v after %v, want an error after one account", err, store.reads)
	}
}
