package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

const loginsPath = "/tollgate/accounts/acc_1/logins"

// One call ends all login tokens of an account, and nothing else.
func TestEndLogins(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.refused(t, http.StatusNotFound, "not_found", "DELETE", loginsPath, "")
	g.account(t, "acc_1", "starter")
	g.must(t, http.StatusNoContent, "DELETE", loginsPath, "") // there are none
	key := g.issue(t, `{"name":"ci"}`)
	first, second := g.issue(t, `{"kind":"login"}`), g.issue(t, `{"kind":"login"}`)
	g.must(t, http.StatusNoContent, "DELETE", loginsPath, "")
	for name, ended := range map[string]string{"first": first.Token, "second": second.Token} {
		if _, opens := g.opens(t, ended); opens {
			t.Errorf("the %s login token lives", name)
		}
	}
	if _, opens := g.opens(t, key.Token); !opens {
		t.Error("the key has ended")
	}
	if got := g.names(t, "?kind=login"); len(got) != 0 {
		t.Errorf("listed: %v, want none", got)
	}
	if got := g.names(t, "?kind=login&include=revoked"); len(got) != 2 {
		t.Errorf("listed with revoked ones: %v, want 2", got)
	}
	next := g.issue(t, `{"kind":"login"}`)
	if _, opens := g.opens(t, next.Token); !opens {
		t.Error("a login token that was made afterwards does not open anything")
	}
	g.refused(t, http.StatusBadRequest, "invalid_account", "DELETE", "/tollgate/accounts/a!/logins", "")
}

// The login token that is one too many ends the oldest.
func TestLoginLimit(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	var tokens []string
	for range store.MaxLiveLogins + 1 {
		tokens = append(tokens, g.issue(t, `{"kind":"login"}`).Token)
		g.Advance(time.Millisecond)
	}
	for i, secret := range tokens {
		if _, opens := g.opens(t, secret); opens != (i > 0) {
			t.Errorf("login token %d of %d opens something: %v", i+1, len(tokens), opens)
		}
	}
}

// crowded is a gate whose store has tens of thousands of login tokens for
// each account, as an earlier version could leave them.
type crowded struct{ *gate }

type crowdedStore struct{ control.Store }

func (c crowded) Store() (control.Store, error) {
	opened, err := c.gate.Store()
	return crowdedStore{opened}, err
}

func (s crowdedStore) ListKeys(_ context.Context, account string) ([]store.Key, error) {
	keys := make([]store.Key, 29_400)
	for i := range keys {
		keys[i] = store.Key{
			ID: fmt.Sprintf("key_%022d", i), Account: account, Kind: token.Login, Name: "login", Hint: "tgl_…abcd",
			Abilities: []string{"batch", "convert", "currencies", "history", "rates", "usage"},
			CreatedAt: controltest.Start.Add(time.Duration(i) * time.Millisecond), ExpiresAt: controltest.Start.Add(time.Hour),
		}
	}
	return keys, nil
}

// A list of very many login tokens is not longer than the client reads.
func TestListOfVeryManyLogins(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	server := httptest.NewServer(control.New(crowded{g}, slog.New(slog.DiscardHandler)))
	defer server.Close()
	c, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	logins, err := c.Keys(t.Context(), "acc_1", client.KeyFilter{Kind: "login"})
	if err != nil || len(logins) == 0 || logins[len(logins)-1].ID != fmt.Sprintf("key_%022d", 29_399) {
		t.Errorf("got %d login tokens, %v; want the newest", len(logins), err)
	}
}
