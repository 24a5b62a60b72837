package login_test

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

func TestClientOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, a, b string
		same       bool
	}{
		{"IPv4", "192.0.2.1", "192.0.2.1", true},
		{"IPv6 within a /64", "2001:db8:1:2::1", "2001:0DB8:1:2:ffff:ffff:ffff:ffff", true},
		{"IPv6 of two /64", "2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"IPv4-mapped", "::ffff:192.0.2.1", "192.0.2.1", true},
		{"IPv4-mapped in hex", "::ffff:c000:201", "192.0.2.1", true},
		{"zone", "fe80::1%eth0", "fe80::1%eth1", true},
		{"IPv4 is not the IPv6 of the same bytes", "32.1.13.184", "2001:db8::", false},
		{"garbage", "", "not an address", true},
		{"port", "192.0.2.1:80", "", true},
		{"garbage is not zero", "", "0.0.0.0", false},
	} {
		a, b := login.ClientOf(test.a), login.ClientOf(test.b)
		if got := a == b; got != test.same {
			t.Errorf("%s: %q and %q: got same client %v, want %v", test.name, test.a, test.b, got, test.same)
		}
	}
}

func TestAccountOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, a, b          string
		same, countTogether bool
	}{
		{"case", "A@Example.COM", "a@example.com", true, true},
		{"space around", " \ta@example.com\r\n", "a@example.com", true, true},
		{"normal form", "jos\u00e9@example.com", "jose\u0301@example.com", true, true},
		{"accent", "jos\u00e9@example.com", "jose@example.com", false, true},
		{"dotless i", "m\u0131ke@example.com", "mike@example.com", false, true},
		{"dotted capital I", "M\u0130KE@example.com", "mike@example.com", false, true},
		{"Kelvin sign", "\u212aim@example.com", "kim@example.com", true, true},
		{"zero-width space", "a\u200b@example.com", "a@example.com", false, true},
		{"another", "b@example.com", "a@example.com", false, false},
		{"empty and blank", "", " ", true, true},
		{"empty and nothing visible", "", "\u200b", false, false},
	} {
		a, b := login.AccountOf(test.a), login.AccountOf(test.b)
		if got := a == b; got != test.same {
			t.Errorf("%s: got same account %v, want %v", test.name, got, test.same)
		}
		if got := login.CountTogether(a, b); got != test.countTogether {
			t.Errorf("%s: got counted together %v, want %v", test.name, got, test.countTogether)
		}
	}
}

// However a service normalizes e-mails, failures at the normalized e-mail and
// at the typed one count together.
func TestSpellingsCountTogether(t *testing.T) {
	t.Parallel()
	ways := []func(string) string{
		strings.TrimSpace, strings.ToLower, strings.ToUpper,
		norm.NFC.String, norm.NFD.String, norm.NFKC.String, norm.NFKD.String,
	}
	check := func(t rapid.TB, typed string, order []int) {
		stored := typed
		for _, way := range order {
			stored = ways[way](stored)
		}
		if stored == typed {
			return
		}
		if !login.CountTogether(login.AccountOf(typed), login.AccountOf(stored)) {
			t.Fatalf("%+q and %+q are counted apart", typed, stored)
		}
	}
	t.Run("one rune", func(t *testing.T) {
		t.Parallel()
		for r := rune(1); r <= unicode.MaxRune; r++ {
			// The ideographs and what is behind them are sampled.
			if sampled := r < 0x3400 || r%16 == 0 || storetest.Long(); sampled && unicode.IsGraphic(r) {
				for way := range ways {
					check(t, "a"+string(r)+"@example.com", []int{way})
				}
			}
		}
	})
	t.Run("strings", rapid.MakeCheck(func(t *rapid.T) {
		typed := "x" + rapid.String().Draw(t, "typed") + "@"
		check(t, typed, rapid.SliceOfN(rapid.IntRange(0, len(ways)-1), 1, 4).Draw(t, "ways"))
	}))
}

// An owner can type the e-mail in any case and normal form.
func TestTypedInAnyCase(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		email := rapid.StringMatching(`[a-zäöüéøåñçčžа-яα-ρ0-9.+_-]{1,20}@[a-z]{1,10}\.org`).Draw(t, "email")
		typed := " " + norm.NFD.String(strings.ToUpper(email))
		if login.AccountOf(typed) != login.AccountOf(email) {
			t.Fatalf("%+q and %+q are two accounts", typed, email)
		}
	})
}
