package caddymodule_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// TestActors: changes on the admin endpoint are those of an admin, also with
// a name. Changes on the control listener are those of an application, or of
// the person that it names.
func TestActors(t *testing.T) {
	c := newControlledCaddy(t)
	if err := c.load(t, c.gateApp("starter")); err != nil {
		t.Fatal(err)
	}
	admin, application, named := c.adminClient(t), c.client(t, controlSecret), client.WithActor(t.Context(), "acc_7")
	for i, call := range []struct {
		client *client.Client
		ctx    context.Context
	}{{admin, t.Context()}, {admin, named}, {application, t.Context()}, {application, named}} {
		if _, err := call.client.PutAccount(call.ctx, "acc_1", api.AccountChange{Label: new(strconv.Itoa(i))}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := application.Audit(t.Context(), api.AuditQuery{Account: "acc_1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []api.Actor
	for _, e := range page.Audit {
		got = append(got, e.Actor)
	}
	want := []api.Actor{{Kind: "admin"}, {Kind: "admin", ID: "acc_7"}, {Kind: "application"}, {Kind: "person", ID: "acc_7"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
