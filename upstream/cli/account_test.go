package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// The audit log of the gate names the operator of each command, and the reason.
func TestAccountNamesOperator(t *testing.T) {
	gate := gatetest.Start(t)
	t.Setenv("TOLLGATE_SECRET", gatetest.Secret)
	t.Setenv("SUDO_USER", "bob")
	data := t.TempDir()
	for _, command := range []string{"add --email ada@example.com --plan starter --generate", "set ada@example.com --plan business", "set ada@example.com --disabled",
		"set ada@example.com --operator --reason on-call", "set ada@example.com --operator=false", "reset-link ada@example.com --reason asked", "delete ada@example.com --reason GDPR"} {
		args := append([]string{"account"}, strings.Fields(command)...)
		if status := Run(append(args, "--data", data, "--control", gate.Address), strings.NewReader(""), io.Discard, t.Output()); status != 0 {
			t.Fatalf("%s: status %d", command, status)
		}
	}
	page, err := gate.Client.Audit(t.Context(), client.AuditFilter{}, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range page.Audit {
		got = append(got, strings.TrimSpace(e.Action+" by "+e.Actor.ID+" "+e.Reason))
	}
	want := []string{"account.create by bob", "account.set by bob", "account.set by bob",
		"operator.grant by bob on-call", "operator.revoke by bob", "reset.create by bob asked", "account.delete by bob GDPR"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
