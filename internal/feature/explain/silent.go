package explain

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// errNoRequest is for a method and a target that the web server refuses before
// the gate.
var errNoRequest = apierror.New(http.StatusBadRequest, "invalid_request", "The method and the target are not an HTTP request: the web server refuses them before the gate.")

// request makes the request as a server would read it from a client.
func (q *Question) request(ctx context.Context) (*http.Request, error) {
	if strings.ContainsFunc(q.Method+q.Target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return nil, errNoRequest
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(q.Method + " " + q.Target + " HTTP/1.1\r\nHost: gate\r\n\r\n")))
	if err != nil {
		return nil, errNoRequest
	}
	if q.Account != nil {
		tok, err := token.New(token.Key, rand.Reader)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+tok.Reveal())
	}
	return r.WithContext(ctx), nil
}

// silent is the server, the reporter and the store of an explained request. It
// has the grant of the question, and counts and reports nothing.
type silent struct {
	gate.Server
	gate.Store
	question Question
	policy   *policy.Policy
	err      error // of the store
}

// Mark implements gate.Server.
func (s *silent) Mark(r *http.Request) *gate.Mark {
	return &gate.Mark{Target: r.RequestURI, Client: s.question.From.String()}
}

// Identity implements gate.Server.
func (*silent) Identity(*http.Request, string) string { return "" }

// Placeholder implements gate.Server.
func (*silent) Placeholder(*http.Request, string) string { return "" }

// Identified implements gate.Server.
func (*silent) Identified(*http.Request, *gate.Call) {}

// Ended implements gate.Server.
func (*silent) Ended(*http.Request, string, string) {}

// Count implements gate.Server.
func (*silent) Count(*policy.Endpoint, outcome.Call) {}

// Refused implements gate.Reporter.
func (*silent) Refused(string, *policy.Endpoint, string, store.NoGrant) {}

// Reached implements gate.Reporter.
func (*silent) Reached(store.Quota) {}

// Grant implements gate.Store: it returns what the store returns for the token of
// the key. Without an address of the client, the key allows all.
func (s *silent) Grant(_ context.Context, _ token.Hash, now time.Time) (store.Grant, error) {
	account, key := s.question.Account, s.question.Key
	why := store.NoGrant("")
	if key != nil {
		why = key.NoGrant(now, account.Disabled)
	} else if account.Disabled {
		why = store.Disabled
	}
	if why != "" {
		return store.Grant{}, refusal.Ended(why, key == nil && s.policy.Identity != nil)
	}
	grant := store.Grant{Account: account.ID, Plan: account.Plan, Terms: &account.Terms}
	if key == nil {
		if plan := s.policy.Plan(account.Plan); plan != nil {
			grant.Abilities = plan.All
		}
		return grant, nil
	}
	grant.Key, grant.KeyName, grant.Abilities = key.ID, key.Name, strings.Join(key.Abilities, " ")
	grant.Restriction, grant.Until = key.Restriction(), key.ExpiresAt
	if grant.Restriction != nil && !s.question.From.IsValid() {
		grant.Restriction.Addresses = nil
	}
	return grant, nil
}

// Take implements gate.Store.
func (s *silent) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	err := s.Rooms(ctx, call, limits, rooms)
	for i := range limits {
		if rooms[i].Remaining < limits[i].Weight(call.Cost) {
			return false, err
		}
	}
	return true, err
}

// Rooms implements gate.Store.
func (s *silent) Rooms(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	if len(limits) == 0 {
		return nil
	}
	err := s.Store.Rooms(ctx, call, limits, rooms)
	s.err = cmp.Or(s.err, err)
	return err
}

// Running implements gate.Store.
func (s *silent) Running(ctx context.Context, account string, lists []string) ([]int64, error) {
	running, err := s.Store.Running(ctx, account, lists)
	s.err = cmp.Or(s.err, err)
	return running, err
}
