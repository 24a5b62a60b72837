package e2e_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestNamesOfTwoPeople: ids can be e-mail addresses. A stranger cannot sign up with
// the address that is the id of another account, and no account gets an id that is
// the address of another person: an operator could not name them apart.
func TestNamesOfTwoPeople(t *testing.T) { stack.Forms(t, namesOfTwoPeople) }

func namesOfTwoPeople(t *testing.T, form ...string) {
	s := stack.Start(t, stack.Shipped(t), append(form, "TOLLGATE_SIGNUP=on")...)
	const password = "correct horse battery staple"
	signUp := func(email string) (int, string) {
		response, err := http.PostForm(s.Address+"/signup", url.Values{"email": {email}, "password": {password}})
		must(t, err)
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(page)
	}
	imported := func(email, account string) string {
		out, _ := s.Try("upstream", `{"email":"`+email+`","account":"`+account+`"}`, "account", "import", "-")
		return out
	}
	accounts := func() string { return s.Tollgate("account", "list") + s.Upstream("", "account", "list") }
	s.Tollgate("account", "set", "ada@example.com", "--plan", "starter", "--create")
	if status, page := signUp("bob@example.com"); status != http.StatusOK {
		t.Fatalf("got %d %s", status, page)
	}
	before := accounts()
	if status, page := signUp("Ada@example.com"); status != http.StatusUnprocessableEntity || !strings.Contains(page, "An account with this e-mail address exists") {
		t.Errorf("a stranger with the id of another: got %d %s", status, page)
	}
	if out, err := s.Try("upstream", password+"\n", "account", "add", "ada@example.com", "--plan", "starter"); err == nil {
		t.Errorf("account add with the id of another: got %s", out)
	}
	for email, account := range map[string]string{
		"ada@example.com": "shop-7", "eve@example.com": "bob@example.com", "cleo@example.com": "BOB@example.com",
	} {
		if out := imported(email, account); !strings.Contains(out, `"error":"an account with this e-mail address exists"`) {
			t.Errorf("%s as %s: got %s", email, account, out)
		}
	}
	if after := accounts(); after != before {
		t.Errorf("a refusal changed the accounts:\n%s\nwant\n%s", after, before)
	}
	// One person, and an address that is the name of no other.
	for email, account := range map[string]string{"ada@example.com": "ada@example.com", "dora@example.com": "dora@work.example"} {
		if out := imported(email, account); !strings.Contains(out, "/reset/") {
			t.Errorf("%s as %s: got %s", email, account, out)
		}
		for _, name := range []string{email, account} {
			if out := s.Upstream("", "account", "show", name); !strings.Contains(out, email) || !strings.Contains(out, account) {
				t.Errorf("show %s: got %s", name, out)
			}
		}
	}
	// Ids have upper and lower case, addresses do not: a command refuses such a name.
	imported("fay@example.com", "Gil@example.com")
	if status, page := signUp("gil@example.com"); status != http.StatusOK {
		t.Errorf("got %d %s", status, page)
	}
	if out, err := s.Try("upstream", "", "account", "set", "Gil@example.com", "--operator"); err == nil || !strings.Contains(err.Error(), "the id of one account and the e-mail address of another") {
		t.Errorf("a name of two accounts: got %s, %v", out, err)
	}
	if out := s.Upstream("", "account", "show", "fay@example.com"); !strings.Contains(out, "Gil@example.com") {
		t.Errorf("by the other name: got %s", out)
	}
}
