// Package secret tells whether a secret is long and random enough to open the
// control API, and to sign assertions that anyone can verify.
package secret

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// New is the next step for a secret of the variable NAME. It is the same in
// the JSON of a log: it has no backslash and no quote.
const New = "export NAME=$(od -An -N32 -tx1 /dev/urandom | tr -dc 0-9a-f)"

// minSecret is the shortest secret, in characters. In hexadecimal digits
// that is 128 bits, which cannot be guessed.
const minSecret = 32

// Check validates a secret. Its errors never contain the secret.
func Check(secret string) error {
	unsendable := func(r rune) bool { return r < ' ' || r > '~' }
	switch n := utf8.RuneCountInString(secret); {
	case secret == "":
		return fmt.Errorf("required: write secret {env.TOLLGATE_SECRET}, and run %s", strings.ReplaceAll(New, "NAME", "TOLLGATE_SECRET"))
	case n < minSecret:
		return fmt.Errorf("too short: %d characters, at least %d are required", n, minSecret)
	case strings.ContainsFunc(secret, unsendable) || strings.TrimSpace(secret) != secret:
		return errors.New("use printable ASCII characters only, without a space at either end")
	}
	return nil
}

// IsRandom tells whether a secret has the form of 32 random bytes: 64
// hexadecimal digits, or Base64.
func IsRandom(secret string) bool {
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
