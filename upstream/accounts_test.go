package main

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/account/gatetest"
)

// The gate goes away right after a generated password was stored: nobody
// else knows the password, so it is printed, and the command fails all the
// same.
func TestGeneratedPasswordIsNotLost(t *testing.T) {
	gate := gatetest.Start(t)
	t.Setenv("TOLLGATE_SECRET", gatetest.Secret)
	settings := []string{"--data", t.TempDir(), "--control", gate.Address}
	upstream := func(args ...string) (status int, stdout, stderr string) {
		var out, problems bytes.Buffer
		status = run(append(args, settings...), strings.NewReader(""), &out, &problems)
		return status, out.String(), problems.String()
	}
	if status, _, problems := upstream("account", "add", "--email", "ada@example.com", "--plan", "starter", "--generate"); status != 0 {
		t.Fatal(problems)
	}

	var asked atomic.Int32
	lists := gatetest.Requests(http.MethodGet, "/keys")
	gate.Fail(&gatetest.Fault{Hits: func(r *http.Request) bool { return lists(r) && asked.Add(1) > 1 }})
	status, printed, problems := upstream("account", "set-password", "ada@example.com", "--generate")
	if !regexp.MustCompile(`^[A-Z2-7]{26}\n$`).MatchString(printed) {
		t.Errorf("got %q on standard output, want the password", printed)
	}
	if want := "upstream: account set-password: the password is changed, but "; status != 1 || !strings.HasPrefix(problems, want) {
		t.Errorf("got status %d, %q; want 1 and %q", status, problems, want)
	}
}
