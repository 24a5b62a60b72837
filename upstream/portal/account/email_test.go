package account_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

func TestParseEmail(t *testing.T) {
	t.Parallel()
	domain := strings.Repeat(strings.Repeat("d", 59)+".", 3) + "example" // 187 bytes
	cases := map[string]struct {
		text string
		want account.Email // empty: refused
	}{
		"plain":                {"ada@example.com", "ada@example.com"},
		"upper case":           {"Ada@Example.COM", "ada@example.com"},
		"tag and dots":         {"ada.l+news@mail.example.co", "ada.l+news@mail.example.co"},
		"longest local part":   {strings.Repeat("a", 64) + "@example.com", account.Email(strings.Repeat("a", 64) + "@example.com")},
		"longest":              {strings.Repeat("a", 64) + "@a." + domain, account.Email(strings.Repeat("a", 64) + "@a." + domain)},
		"too long":             {strings.Repeat("a", 64) + "@ab." + domain, ""},
		"local part too long":  {strings.Repeat("a", 65) + "@example.com", ""},
		"empty":                {"", ""},
		"two at":               {"ada@b@example.com", ""},
		"nothing after the at": {"ada@", ""},
		"display name":         {"Ada <ada@example.com>", ""},
		"two addresses":        {"ada@example.com,bob@example.com", ""},
		"quoted local part":    {`"ada l"@example.com`, ""},
		"address literal":      {"ada@[127.0.0.1]", ""},
		"line break inside":    {"ada@example.com\r\nBcc: bob@example.com", ""},
		"NUL":                  {"ada\x00@example.com", ""},
		"dot at the end":       {"ada@example.com.", ""},
		"hyphen first":         {"ada@-example.com", ""},
		"Kelvin sign for k":    {"\u212aarl@example.com", ""},
		"invalid UTF-8":        {"ada\xff@example.com", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := account.ParseEmail(c.text)
			if got != c.want {
				t.Errorf("ParseEmail(%q) = %q, %v; want %q", c.text, got, err, c.want)
			}
			if (err != nil) != (c.want == "") || err != nil && !errors.Is(err, account.ErrEmail) {
				t.Errorf("ParseEmail(%q): error %v", c.text, err)
			}
		})
	}
}

// Threat: an address is spelled in a way that this side takes for the
// account's and the gate's throttle for another one, so that guesses at one
// password are counted apart.
func TestParseEmailAgreesWithTheThrottle(t *testing.T) {
	t.Parallel()
	spaces := rapid.SampledFrom([]string{"", " ", "\t", "\r\n", "\u00a0", "\u2003", "\u3000", "\u0085", "\u200b", "\ufeff"})
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("aAkKsSiI1.+-'_\u212a\u017f\u0130\u0131\uff41\u00df")), 1, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		text := spaces.Draw(t, "before") + letters.Draw(t, "local") + "@" + letters.Draw(t, "domain") + spaces.Draw(t, "behind")
		email, err := account.ParseEmail(text)
		if err == nil && login.AccountOf(text) != login.AccountOf(string(email)) {
			t.Fatalf("%q is %q here and another account for the throttle", text, email)
		}
	})
}

// The canonical form is a fixed point, whatever comes in, and an error
// never repeats what was typed, as it may end in a log: it is one of a few
// texts, whatever came in.
func FuzzParseEmail(f *testing.F) {
	reasons := []string{
		"longer than 254 bytes",
		"only printable ASCII without spaces",
		"not of the form name@example.com",
		"more than 64 bytes before the @",
		"no host name after the @",
	}
	for _, seed := range []string{"ada@example.com", " Ada@Example.com ", `"a b"@c`, "a@[::1]", "\u212a@k", "a@b@c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		email, err := account.ParseEmail(text)
		if err != nil {
			_, reason, _ := strings.Cut(err.Error(), ": ")
			if !errors.Is(err, account.ErrEmail) || !slices.Contains(reasons, reason) {
				t.Errorf("ParseEmail(%q): error %v", text, err)
			}
			return
		}
		again, err := account.ParseEmail(string(email))
		if err != nil || again != email {
			t.Errorf("ParseEmail(%q) = %q, but that parses to %q, %v", text, email, again, err)
		}
	})
}
