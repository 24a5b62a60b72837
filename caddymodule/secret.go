package caddymodule

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// minSecret is the shortest secret, in characters. In hexadecimal digits
// that is 128 bits, which cannot be guessed.
const minSecret = 32

// errNoSecret is for a secret whose placeholder has no value.
var errNoSecret = errors.New("empty or unknown placeholder: is the variable set in the environment of the running Caddy?")

// secrets returns the secret and the old one with their placeholders
// resolved.
func (a *App) secrets() (secret, old string, err error) {
	resolve := func(text string) string {
		resolved, failed := caddy.NewReplacer().ReplaceOrErr(text, true, true)
		if failed != nil {
			err = &policy.Error{Subject: "secret", Err: errNoSecret}
		}
		return resolved
	}
	secret, old = resolve(a.Secret), resolve(a.OldSecret)
	if err == nil {
		err = checkSecret(secret)
	}
	if err == nil && old != "" {
		err = checkSecret(old)
	}
	return secret, old, err
}

// checkSecret validates the secret, which is sent in a header. Its errors
// never contain the secret.
func checkSecret(secret string) error {
	var err error
	unsendable := func(r rune) bool { return r < ' ' || r > '~' }
	switch n := utf8.RuneCountInString(secret); {
	case secret == "":
		err = errors.New("required")
	case n < minSecret:
		err = fmt.Errorf("too short: %d characters, at least %d are required", n, minSecret)
	case strings.ContainsFunc(secret, unsendable) || strings.TrimSpace(secret) != secret:
		err = errors.New("use printable ASCII characters only, without a space at either end")
	default:
		return nil
	}
	return &policy.Error{Subject: "secret", Err: err}
}

// resolveIntrospection replaces the placeholders of the introspection secret,
// and validates it.
func (a *App) resolveIntrospection(others ...string) error {
	if a.IntrospectionSecret == "" {
		return nil
	}
	resolved, err := caddy.NewReplacer().ReplaceOrErr(a.IntrospectionSecret, true, true)
	if err != nil {
		return introspectionMistake(errNoSecret.Error())
	}
	a.IntrospectionSecret = resolved
	return checkIntrospectionSecret(resolved, others...)
}

// checkIntrospectionSecret validates the introspection secret: the others open
// more.
func checkIntrospectionSecret(secret string, others ...string) error {
	if slices.Contains(others, secret) {
		return introspectionMistake("the same as another secret: it must open nothing else")
	}
	var invalid *policy.Error
	if errors.As(checkSecret(secret), &invalid) {
		return introspectionMistake(invalid.Err.Error())
	}
	return nil
}

func introspectionMistake(text string) error {
	return &policy.Error{Subject: "introspection_secret", Err: errors.New(text)}
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
	different := map[byte]bool{}
	for _, c := range b {
		different[c] = true
	}
	return len(different) >= len(b)/2
}
