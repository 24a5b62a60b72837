package policy_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/policy"
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
