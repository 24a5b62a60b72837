package cli

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
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

// The gate does not answer when the operator changes a password. The password
// is changed and printed with a warning, and the next command that reaches the
// gate ends the login tokens.
func TestPasswordIsChangedWithoutTheGate(t *testing.T) {
	gate := gatetest.Start(t)
	t.Setenv("TOLLGATE_SECRET", gatetest.Secret)
	settings := []string{"--data", t.TempDir(), "--control", gate.Address}
	upstream := func(args ...string) (status int, stdout, stderr string) {
		var out, problems bytes.Buffer
		status = Run(append(args, settings...), strings.NewReader(""), &out, &problems)
		return status, out.String(), problems.String()
	}
	status, added, problems := upstream("account", "add", "--email", "ada@example.com", "--plan", "starter", "--generate")
	if status != 0 {
		t.Fatal(problems)
	}
	id, _, _ := strings.Cut(added, "\n")
	logins := func() int {
		t.Helper()
		logins, err := gate.Client.Keys(t.Context(), id, client.KeyFilter{Kind: "login"})
		if err != nil {
			t.Fatal(err)
		}
		return len(logins)
	}
	// More than there may be.
	for range store.MaxLiveLogins + 20 {
		if _, err := gate.Client.CreateKey(t.Context(), id, api.KeyRequest{Kind: "login"}); err != nil {
			t.Fatal(err)
		}
	}
	gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
	status, printed, problems := upstream("account", "set-password", "ada@example.com", "--generate")
	if !regexp.MustCompile(`^[A-Z2-7]{26}\n$`).MatchString(printed) {
		t.Errorf("got %q on standard output, want the password", printed)
	}
	want := "upstream: account set-password: the password is changed; older login tokens end as soon as the gate is reachable: "
	if status != 0 || !strings.HasPrefix(problems, want) || strings.Count(problems, "\n") != 1 {
		t.Errorf("got status %d, %q; want 0 and %q", status, problems, want)
	}
	gate.Fail(nil)
	if got := logins(); got != store.MaxLiveLogins {
		t.Fatalf("%d login tokens live before the gate was asked, want %d", got, store.MaxLiveLogins)
	}
	if status, _, problems := upstream("account", "list"); status != 0 || problems != "" {
		t.Errorf("got status %d, %q", status, problems)
	}
	if got := logins(); got != 0 {
		t.Errorf("%d login tokens live, want none", got)
	}
}
