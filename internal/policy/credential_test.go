package policy_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestAccountsOfUsers: the account of a user never changes: it has counts,
// limits and a plan. The users are subjects as providers write them.
func TestAccountsOfUsers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prefix, user, want string }{
		{"", "ada", "ada"},
		{"staff.", "ada@example.com", "staff.ada@example.com"},
		{"", "auth0|5f7c8ec7c33c6c004bbafe82", "auth0-5f7c8ec7c33c6c004bbafe82--igveq6eh4pcfygnsisfs6a3fklyawldy"},
		{"", "https://accounts.example.com/users/1", "https---accounts.example.com-u--wsc3kwnndjlfijadovtkw76s6ypp3lew"},
		{"", "ada+x@example.com", "ada-x@example.com--4hkhvoyswhyqtwar7buufdgvyot4botl"},
		{"staff.", "ann lee", "staff.ann-lee--2tzcsz2b3klhnrpvxks63iql2bj2h4pj"},
		{"", "..", "..--l3a7pzya6n6d2czjqhieqvp4gs4uvkqv"},
		{"", strings.Repeat("a", 65), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa--mnjwdrelxhvlcqmy45xkrk37djawqxlk"},
		{"", "auth0-5f7c8ec7c33c6c004bbafe82--igveq6eh4pcfygnsisfs6a3fklyawldy", "auth0-5f7c8ec7c33c6c004bbafe82--txmc3rolqfwpalzn4vej263hubhv2xmf"},
	} {
		if got := (&policy.IdentityConfig{Prefix: c.prefix}).Account(c.user); got != c.want {
			t.Errorf("%q and %q: got %q, want %q", c.prefix, c.user, got, c.want)
		}
	}
}

// TestAccountsOfUsersAreTheirOwn: a user cannot choose a name that has the
// account of another one, also not the account id of the other one.
func TestAccountsOfUsersAreTheirOwn(t *testing.T) {
	t.Parallel()
	withHash := regexp.MustCompile(`--[a-z2-7]{32}$`)
	rapid.Check(t, func(t *rapid.T) {
		identity := &policy.IdentityConfig{Prefix: rapid.SampledFrom([]string{"", "staff.", "a--", strings.Repeat("p", 63)}).Draw(t, "prefix")}
		name := rapid.OneOf(rapid.StringMatching(`[a-b|.é -]{1,4}`), rapid.String().Filter(func(s string) bool { return s != "" }), rapid.StringN(60, 80, -1),
			rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 1, 80).Draw(t, "bytes")) }))
		one := name.Draw(t, "one")
		account := identity.Account(one)
		other := rapid.OneOf(name, rapid.Just(account), rapid.Just(strings.TrimPrefix(account, identity.Prefix)), rapid.Just(one+" "), rapid.Just(strings.ToUpper(one))).Draw(t, "other")
		if got := identity.Account(other); (got == account) != (one == other) {
			t.Errorf("%q has the account %q, %q has %q", one, account, other, got)
		}
		if !api.ValidAccount(account) {
			t.Errorf("%q is no account id", account)
		}
		plain := identity.Prefix + one
		if api.ValidAccount(plain) && !withHash.MatchString(plain) && account != plain {
			t.Errorf("%q has the account %q", plain, account)
		}
	})
}

// TestTokenPrefix: a plan has its own word, or that of the app. Two can be equal.
func TestTokenPrefix(t *testing.T) {
	t.Parallel()
	c := policy.Config{TokenPrefix: "acme_live", Plans: []policy.PlanConfig{{Name: "own", TokenPrefix: "acme_test"}, {Name: "app"}, {Name: "equal", TokenPrefix: "acme_live"}}}
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for plan, want := range map[string]token.Word{"own": "acme_test", "app": "acme_live", "equal": "acme_live"} {
		if got := p.Plan(plan).Word; got != want {
			t.Errorf("plan %s: got %s, want %s", plan, got, want)
		}
	}
	for text, want := range map[string]bool{"acme_live_": true, "acme_live_login_x": true, "acme_test_x": true, "tgk_x": true, "tgl_x": true, "acme_other_x": false, "acme_live": false, "_": false, "": false} {
		if got := p.IsOwn(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
	c.TokenPrefix, c.Plans[0].TokenPrefix = "Acme", "acme_login"
	if _, err := policy.New(c); policy.Subject(err) != "token_prefix" || !strings.Contains(err.Error(), "plan own token_prefix: ") {
		t.Errorf("got %v, want two mistakes", err)
	}
	if p, err := policy.New(policy.Config{}); err != nil || p.IsOwn("_") || p.IsOwn("_login_") {
		t.Errorf("no word: got %v, and other tokens are the gate's", err)
	}
}
