package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/account/gatetest"
)

// The audit log of the gate names the operator of each command.
func TestAccountNamesOperator(t *testing.T) {
	gate := gatetest.Start(t)
	t.Setenv("TOLLGATE_SECRET", gatetest.Secret)
	t.Setenv("SUDO_USER", "bob")
	data := t.TempDir()
	for _, command := range []string{"add --email ada@example.com --plan starter --generate", "set ada@example.com --plan business", "set ada@example.com --disabled", "delete ada@example.com"} {
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
		got = append(got, e.Action+" by "+e.Actor.ID)
	}
	want := []string{"account.create by bob", "account.set by bob", "account.set by bob", "account.delete by bob"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
