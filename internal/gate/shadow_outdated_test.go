package gate_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// flawed is a store with a cache. Some of its methods fail.
type flawed struct {
	*caching
	take, confirm error
}

func (f *flawed) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	if f.take != nil {
		return false, f.take
	}
	return f.caching.Take(ctx, call, limits, rooms)
}

func (f *flawed) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	if f.confirm != nil {
		return store.Grant{}, f.confirm
	}
	return f.caching.Confirm(ctx, hash, now)
}

// TestShadowConfirms: shadow passes a refused call with an identity only if the
// store says that the token is valid. A cached grant does not.
func TestShadowConfirms(t *testing.T) {
	t.Parallel()
	get := []string{http.MethodGet, convert, ""}
	noJSON := []string{http.MethodPost, "/api/batch", `{"items":1}`}
	for _, test := range []struct {
		name          string
		request       []string // method, target, body
		disabled      bool     // and the cache does not know it
		plan          string   // of the account; the cache does not know it
		take, confirm error
		status        int
		code          string // as reported
	}{
		{name: "the store cannot count", request: get, take: store.ErrUnavailable, status: http.StatusTeapot, code: "acc_1 convert unavailable"},
		{name: "the store fails", request: get, take: store.ErrUnavailable, confirm: store.ErrUnavailable, status: 503, code: "acc_1 convert unavailable"},
		{name: "disabled, the store cannot count", request: get, disabled: true, take: store.ErrUnavailable, status: 401, code: "acc_1 convert invalid_token disabled"},
		{name: "disabled, the store fails", request: get, disabled: true, take: store.ErrUnavailable, confirm: store.ErrUnavailable, status: 503, code: "acc_1 convert unavailable"},
		{name: "deleted since the grant", request: get, take: store.ErrNoGrant, status: 401, code: "acc_1 convert invalid_token"},
		{name: "revoked since the grant", request: get, take: store.Revoked, status: 401, code: "acc_1 convert invalid_token revoked"},
		{name: "without access now", request: get, plan: "none", take: store.ErrUnavailable, status: http.StatusTeapot, code: "acc_1 convert unavailable"},
		{name: "body", request: noJSON, status: http.StatusTeapot, code: "acc_1 batch invalid_request"},
		{name: "body, confirming fails", request: noJSON, confirm: store.ErrUnavailable, status: 503, code: "acc_1 batch unavailable"},
		{name: "body, disabled", request: noJSON, disabled: true, status: 401, code: "acc_1 batch invalid_token disabled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newMode(t, policy.Shadow)
			bearer := w.account(t, "acc_1")
			f := &flawed{caching: &caching{Store: w.store, grants: map[token.Hash]store.Grant{}}}
			w.store = f
			w.get(t, convert, bearer)
			if test.disabled {
				disable(t, w)
			}
			if test.plan != "" {
				onPlan(test.plan)(t, w)
			}
			// The version stays: Rooms succeeds, as if the change came while the
			// body did.
			f.take, f.confirm, w.refused = test.take, test.confirm, nil
			var seen http.Header
			w.next = func(rw http.ResponseWriter, r *http.Request) error {
				seen = r.Header.Clone()
				rw.WriteHeader(http.StatusTeapot)
				return nil
			}
			answer, err := w.ask(test.request[0], test.request[1], test.request[2], "Authorization: Bearer "+bearer, "Content-Type: application/json")
			if err != nil || answer.Code != test.status || len(w.refused) != 1 || w.refused[0] != test.code {
				t.Errorf("got %d, %v, reported %q, want %d, %q", answer.Code, err, w.refused, test.status, test.code)
			}
			if (seen != nil) != (test.status == http.StatusTeapot) {
				t.Errorf("the service got %v", seen)
			}
			if seen != nil && test.plan != "" && (seen.Get("Tollgate-Plan") != test.plan || seen.Get("Tollgate-Abilities") != "") {
				t.Errorf("the service got %v, want the plan %q", seen, test.plan)
			}
		})
	}
}
