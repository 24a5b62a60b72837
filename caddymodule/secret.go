package caddymodule

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/block"
)

// newSecret is the next step for a secret of the variable NAME. It is the same in
// the JSON of a log: it has no backslash and no quote.
const newSecret = "export NAME=$(od -An -N32 -tx1 /dev/urandom | tr -dc 0-9a-f)"

// minSecret is the shortest secret, in characters. In hexadecimal digits
// that is 128 bits, which cannot be guessed.
const minSecret = 32

// resolveSecrets replaces the placeholders of all secrets.
func (a *App) resolveSecrets() error {
	secrets := map[string]*string{"secret": &a.Secret, "old_secret": &a.OldSecret, "introspection_secret": &a.IntrospectionSecret}
	if a.Webhook != nil {
		secrets["webhook secret"] = &a.Webhook.Secret
	}
	var errs []error
	for option, secret := range secrets {
		hint := ", as in " + newSecret
		if option == "webhook secret" {
			hint = "" // it has another form
		}
		resolved, err := block.Resolve(*secret, hint, nil)
		if err != nil {
			errs = append(errs, mistake(option, "%w", err))
		}
		*secret = resolved
	}
	return errors.Join(errs...)
}

// checkSecrets validates the secrets that are sent in a header. Only secret is
// required.
func (a *App) checkSecrets(written bool) error {
	checked := func(secret string) bool { return !written || !strings.Contains(secret, "}") }
	var errs []error
	if checked(a.Secret) {
		errs = append(errs, checkSecret("secret", a.Secret))
	}
	if a.OldSecret != "" && checked(a.OldSecret) {
		errs = append(errs, checkSecret("old_secret", a.OldSecret))
	}
	switch s := a.IntrospectionSecret; {
	case s == "" || !checked(s):
	case s == a.Secret || s == a.OldSecret:
		errs = append(errs, mistake("introspection_secret", "the same as another secret: it must open nothing else"))
	default:
		errs = append(errs, checkSecret("introspection_secret", s))
	}
	return errors.Join(errs...)
}

// checkSecret validates a secret. Its errors never contain the secret.
func checkSecret(option, secret string) error {
	unsendable := func(r rune) bool { return r < ' ' || r > '~' }
	switch n := utf8.RuneCountInString(secret); {
	case secret == "":
		return mistake(option, "required: write secret {env.TOLLGATE_SECRET}, and run %s", strings.ReplaceAll(newSecret, "NAME", "TOLLGATE_SECRET"))
	case n < minSecret:
		return mistake(option, "too short: %d characters, at least %d are required", n, minSecret)
	case strings.ContainsFunc(secret, unsendable) || strings.TrimSpace(secret) != secret:
		return mistake(option, "use printable ASCII characters only, without a space at either end")
	}
	return nil
}

// warnOfWeakSecrets logs which secrets are not random by their form.
func (a *App) warnOfWeakSecrets() {
	for option, secret := range map[string]string{"secret": a.Secret, "old_secret": a.OldSecret} {
		if secret != "" && !isRandom(secret) {
			a.log.Warn("the secret may be weak: anyone can test guesses with the public key of assertions; use 64 random hexadecimal digits",
				zap.String("option", option))
		}
	}
}

// isRandom tells whether a secret has the form of 32 random bytes: 64
// hexadecimal digits, or Base64.
func isRandom(secret string) bool {
	const size = 32
	if b, err := hex.DecodeString(secret); err == nil {
		return len(b) == size && hasVariety(b)
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := encoding.DecodeString(strings.TrimRight(secret, "=")); err == nil && len(b) == size {
			return hasVariety(b)
		}
	}
	return false
}

// hasVariety finds repetitions such as 64 zeros. Of 32 random bytes, less
// than 16 are different with a probability below 2^-60.
func hasVariety(b []byte) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(b)))) >= len(b)/2
}
