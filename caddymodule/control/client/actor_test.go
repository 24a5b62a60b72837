package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

// TestActorOfChanges: only calls that change something say who makes the change,
// and why. A reason that cannot be sent makes no call.
func TestActorOfChanges(t *testing.T) {
	t.Parallel()
	gate, sent := controltest.New(t).InProcess(), map[string]string{}
	c := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent[r.Method] = r.Header.Get(api.ActorHeader) + " " + r.Header.Get(api.ReasonHeader)
		gate.ServeHTTP(w, r)
	}))
	ctx := client.WithReason(client.WithActor(t.Context(), "ada"), "gift")
	if _, err := c.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("free")}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Account(ctx, "acc_1"); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteAccount(client.WithReason(ctx, "a\nb"), "acc_1"); err == nil {
		t.Error("a reason with a line break was sent")
	}
	if len(sent) != 2 || sent[http.MethodPut] != "ada gift" || sent[http.MethodGet] != " " {
		t.Errorf("got %q", sent)
	}
}

// TestOperator: a program can name the operator who called it. A name that the
// gate would refuse is left out.
func TestOperator(t *testing.T) {
	c := client.InProcess(controltest.New(t).InProcess())
	for i, name := range []string{"ada", strings.Repeat("a", api.MaxActor+1), "a\nb"} {
		t.Setenv("TOLLGATE_ACTOR", name)
		if _, err := c.PutAccount(client.WithOperator(t.Context()), fmt.Sprint(i), api.AccountChange{}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.Audit(t.Context(), api.AuditQuery{})
	if err != nil || len(page.Audit) != 3 || page.Audit[0].Actor.ID != "ada" || page.Audit[1].Actor.ID+page.Audit[2].Actor.ID != "" {
		t.Errorf("got %+v, %v", page, err)
	}
}
