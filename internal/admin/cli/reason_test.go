package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// TestReason: each command that changes something takes a reason, and the audit
// log has it. One that the gate refuses changes nothing.
func TestReason(t *testing.T) {
	t.Parallel()
	s := foreignShell(t)
	var key string
	for i, command := range []string{
		"account set acc_1 --plan starter", "key create acc_1 --name ci", "key set acc_1 KEY --name cd", "key rotate acc_1 KEY",
		"key revoke acc_1 KEY", "limit set acc_1 convert 9", "limit clear acc_1 convert", "account link acc_1",
		"key import -", "account delete acc_1", "account import -",
	} {
		s.input = `{"account":"acc_1","plan":"free"}`
		if strings.HasPrefix(command, "key") {
			s.input = `{"account":"acc_1","token":"sk_live_51NcXhTqP0aZ7"}`
		}
		args := strings.Fields(strings.ReplaceAll(command, "KEY", key))
		for name, reason := range map[string]string{"long": strings.Repeat("x", 201), "invisible": "a\u200bb", "a line break": "a\nb"} {
			if out, _, err := s.run(t, append(args, "--reason", reason)...); err == nil || !strings.Contains(err.Error(), "A reason has at most 200 characters") {
				t.Errorf("%s, %s: got %s%v", command, name, out, err)
			}
		}
		reason := fmt.Sprintf("„%d“", i)
		out, _, err := s.run(t, append(args, "--reason", reason)...)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if id := ids.FindString(out); id != "" {
			key = id
		}
		var page api.AuditPage
		if err := json.Unmarshal([]byte(s.ok(t, "audit", "--json")), &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Audit) != i+1 || page.Audit[i].Reason != reason || page.Audit[i].Actor.ID != operator(t) {
			t.Fatalf("%s: the audit log ends with %+v, want %d entries, the last because of %s", command, page.Audit[max(0, len(page.Audit)-1)], i+1, reason)
		}
	}
}

// TestLink: a script gets the link alone from standard output. People read on
// standard error when it expires.
func TestLink(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if _, _, err := s.run(t, "account", "link", "acc_1"); err == nil || !strings.Contains(err.Error(), "there is no account with this id or label") {
		t.Errorf("an unknown account: got %v", err)
	}
	s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", "ada@example.com")
	out, complaints, err := s.run(t, "account", "link", "ada@example.com")
	if err != nil || complaints != "The link works once, until 2126-11-20T09:05:00Z.\n" || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "http://localhost:8080/portal?link=ey") {
		t.Errorf("got %s%s%v", out, complaints, err)
	}
	var link struct {
		URL     string
		Expires string `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(s.ok(t, "account", "link", "acc_1", "--json")), &link); err != nil || link.Expires != "2126-11-20T09:05:00Z" || !strings.HasPrefix(link.URL, "http://localhost:8080/portal?link=ey") {
		t.Errorf("got %+v, %v", link, err)
	}
	s.ok(t, "account", "set", "acc_1", "--disabled")
	if out, _, err := s.run(t, "account", "link", "acc_1"); err == nil || out != "" || !strings.Contains(err.Error(), "The account is disabled.") {
		t.Errorf("a disabled account: got %s%v", out, err)
	}
}
