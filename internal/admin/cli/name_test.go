package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// made is an id as upstream makes them.
const made = "acc_0123456789abcdefGHIJ"

// TestLabelNamesItsAccount: a label that one account has names this account in
// every command with an account. No command makes another one.
func TestLabelNamesItsAccount(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	urls := s.watch(t)
	s.ok(t, "account", "set", made, "--create", "--plan", "starter", "--label", "ada@example.com")
	expect(t, s.ok(t, "account", "set", "ada@example.com", "--plan", "business"), `
ACCOUNT                   PLAN      STATE   CREATED               LABEL
`+made+`  business  active  2126-11-20T09:00:00Z  ada@example.com
Changed `+made+`.
`)
	first := ids.FindString(s.ok(t, "key", "create", "ada@example.com", "--name", "ci", "--json"))
	for _, args := range []string{
		"account show ada@example.com", "account show ADA@Example.com", "usage show ada@example.com",
		"limit set ada@example.com convert 5", "limit list ada@example.com", "limit clear ada@example.com convert",
		"key list ada@example.com", "key set ada@example.com " + first + " --ttl 1d", "key rotate ada@example.com " + first + " --overlap 1h",
		"key revoke ada@example.com " + first, "explain GET /api/currencies --account ada@example.com",
		"audit --account ada@example.com", "audit --account ada@example.com --limit 1", "usage refused --account ada@example.com",
	} {
		if out := s.ok(t, append(strings.Fields(args), "--json")...); strings.Contains(out, `"account":"`) && !strings.Contains(out, made) {
			t.Errorf("%s: got %s", args, out)
		}
	}
	expect(t, s.ok(t, "usage", "reset", "ada@example.com"), "Nothing changed: no calls of all endpoints count today.\n")
	if out := s.ok(t, "audit", "--account", "ada@example.com"); strings.Count(out, "key.revoke") != 1 {
		t.Errorf("got %s", out)
	}
	if out := s.ok(t, "account", "list"); strings.Count(out, "\n") != 2 {
		t.Errorf("got more than one account:\n%s", out)
	}
	if got := s.offered(t, "account", "show", "ada@"); got != "" {
		t.Errorf("the shell offers %q", got)
	}
	s.offered(t, "key", "revoke", "ada@example.com", "")
	expect(t, s.ok(t, "account", "delete", "ada@example.com"), "Deleted "+made+".\n")
	for _, url := range *urls {
		if strings.Contains(strings.ToLower(url), "ada") {
			t.Errorf("the e-mail address is in the URL %s, which access logs have", url)
		}
	}
	// The log has a deleted account by its id only.
	if out := s.ok(t, "audit", "--account", made); !strings.Contains(out, "account.delete") {
		t.Errorf("got %s", out)
	}
	if out, complaints, err := s.run(t, "audit", "--account", "ada@example.com"); err == nil || out != "" || strings.Contains(complaints, "ada@") {
		t.Errorf("got %v, %s%s", err, out, complaints)
	}
}

// watch returns the URLs that commands ask for from now on.
func (s *shell) watch(t *testing.T) *[]string {
	t.Helper()
	var urls []string
	handler := s.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		urls = append(urls, r.URL.String())
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.base = server.URL
	return &urls
}

// TestLabelOfSeveralAccounts: several matches are an error that lists them.
func TestLabelOfSeveralAccounts(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, account := range [][2]string{{"one", "Shop"}, {"two", "Shop"}, {"three", "SHOP"}, {"shop", "three"}} {
		s.ok(t, "account", "set", account[0], "--create", "--label", account[1])
	}
	for n := range 12 {
		s.ok(t, "account", "set", fmt.Sprintf("many-%d", n+1), "--label", "many")
	}
	if out := s.ok(t, "account", "show", " one "); !strings.Contains(out, "\none ") {
		t.Errorf("got\n%s, want the account one", out)
	}
	for name, want := range map[string]string{
		"Shop": "Error: several accounts have this label: one, two; use an id\n",
		"MANY": "Error: several accounts have this label: many-1, many-10, many-11, many-12, many-2, many-3, many-4, many-5, many-6, many-7, and at least 2 more; use an id\n",
		"sHOP": "Error: several accounts have this label: one, three, two; use an id\n",
	} {
		for _, args := range [][]string{
			{"account", "set", name, "--plan", "starter"}, {"account", "show", name}, {"key", "create", name, "--name", "x"},
			{"audit", "--account", name}, {"usage", "refused", "--account", name}, {"explain", "GET", "/", "--account", name},
		} {
			if name == "sHOP" && args[1] == "set" {
				continue
			}
			if out, complaints, err := s.run(t, args...); err == nil || out != "" || complaints != want {
				t.Errorf("%q: got %v, %s%s", args, err, out, complaints)
			}
		}
	}
	if out := s.ok(t, "account", "list", "--plan", "starter"); !strings.Contains(out, "There are none.") {
		t.Errorf("an account was changed:\n%s", out)
	}
}

// TestAccountSetTellsTypingErrors: an unknown id as upstream makes them is
// refused without --create, and the command says what it did.
func TestAccountSetTellsTypingErrors(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if out, _, err := s.run(t, "account", "set", made, "--plan", "starter"); err == nil || out != "" {
		t.Errorf("got %v, %s", err, out)
	}
	if _, err := s.Opened().Account(t.Context(), made); err == nil {
		t.Error("the account was created")
	}
	for _, c := range []struct{ args, want string }{
		{made + " --create", "Created " + made}, {made + " --create", "Changed " + made}, {made, "Changed " + made},
		{"acc_1", "Created acc_1"}, {made + "x", "Created " + made + "x"}, {"bob@example.com", "Created bob@example.com"}, {"bob@example.com", "Changed bob@example.com"},
	} {
		if out := s.ok(t, append([]string{"account", "set", "--plan", "starter"}, strings.Fields(c.args)...)...); !strings.HasSuffix(out, "\n"+c.want+".\n") {
			t.Errorf("%s: got\n%s, want %s", c.args, out, c.want)
		}
	}
}

// TestListOfUnknownPlan: a plan that the configuration no longer has selects
// the accounts that are still on it. Without any, it is an error.
func TestListOfUnknownPlan(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, plan := range []string{"free", "starter"} {
		if out := s.ok(t, "account", "list", "--plan", plan); !strings.Contains(out, "There are none.") {
			t.Errorf("%s: got %s", plan, out)
		}
	}
	if _, complaints, err := s.run(t, "account", "list", "--plan", "gone"); err == nil || !strings.Contains(complaints, `unknown plan "gone"`) {
		t.Errorf("got %v, %s", err, complaints)
	}
	if _, err := storetest.PutAccount(t.Context(), s.Opened().Book, store.Account{ID: "acc_1", Plan: "gone"}); err != nil {
		t.Fatal(err)
	}
	if out := s.ok(t, "account", "list", "--plan", "gone"); !strings.Contains(out, "acc_1") {
		t.Errorf("got %s", out)
	}
}
