package account_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// Threat: an account gets the rights of an operator, and the audit log lacks it
// or says the opposite.
func TestSetOperator(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		ctx := client.WithReason(t.Context(), "on call")
		set := func(id string, operator bool, want error) {
			t.Helper()
			if err := f.SetOperator(ctx, id, operator); !errors.Is(err, want) {
				t.Errorf("%s, %t: got %v, want %v", id, operator, err, want)
			}
		}
		wantOperator := func(want bool) {
			t.Helper()
			if who, err := f.Identify(ctx, f.ada.ID); err != nil || who.Operator != want {
				t.Errorf("got %+v, %v; want operator %t", who, err, want)
			}
		}
		set(f.ada.ID, true, nil)
		wantOperator(true)
		f.gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
		set(f.ada.ID, false, account.ErrGate)
		f.gate.Fail(nil)
		wantOperator(true)
		set(f.ada.ID, false, nil)
		wantOperator(false)
		if _, err := f.gate.Client.PutAccount(ctx, "shop-7", api.AccountChange{}); err != nil {
			t.Fatal(err)
		}
		set("shop-7", true, account.ErrNotFound) // only the gate knows it
		log, err := f.gate.Client.Audit(ctx, client.AuditFilter{}, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range log.Audit {
			if e.Action == api.OperatorGrant || e.Action == api.OperatorRevoke {
				got = append(got, e.Action+" "+e.Account+" "+e.Reason)
			}
		}
		if want := []string{api.OperatorGrant + " " + f.ada.ID + " on call", api.OperatorRevoke + " " + f.ada.ID + " on call"}; !slices.Equal(got, want) {
			t.Errorf("got the entries %q, want %q", got, want)
		}
	})
}
