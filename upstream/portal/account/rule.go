package account

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	zxcvbn "github.com/ccojocar/zxcvbn-go"
	"github.com/ccojocar/zxcvbn-go/matching"
	"golang.org/x/text/unicode/norm"
)

// Bounds of a new password. NIST SP 800-63B-4 (3.1.1.2) asks for at least 15
// characters where a password is the only factor, for room for long phrases,
// for a check against common and guessable passwords, and for no rules of
// composition. The upper bound only keeps the work bounded. The bounds do not
// apply to a login: an older, shorter password still works.
const (
	MinPassword      = 15 // characters
	maxPasswordBytes = 1024
)

// PasswordError says which rule a new password breaks. It wraps ErrPassword.
type PasswordError struct {
	// Advice is for the person who chooses the password: whole sentences,
	// without the password.
	Advice string
}

func (e *PasswordError) Error() string { return ErrPassword.Error() + ": " + e.Advice }

func (*PasswordError) Unwrap() error { return ErrPassword }

const advice = "A phrase of several words is best."

var (
	errShort = &PasswordError{fmt.Sprintf("Use at least %d characters. %s", MinPassword, advice)}
	errLong  = &PasswordError{fmt.Sprintf("Use at most %d bytes.", maxPasswordBytes)}
	errUTF8  = &PasswordError{"Use UTF-8 text."}
	errEmail = &PasswordError{"The password must not be your e-mail address. " + advice}
)

// CheckPassword returns a *PasswordError if a new password of the account with
// this e-mail address is not allowed. The names are other words that an
// attacker would try, such as the name of the product. It does not hash.
func CheckPassword(password string, email Email, names ...string) error {
	switch {
	case len(password) > maxPasswordBytes:
		return errLong
	case !utf8.ValidString(password):
		return errUTF8
	}
	password = norm.NFC.String(password)
	local, _, _ := strings.Cut(string(email), "@")
	switch {
	case email != "" && (strings.EqualFold(password, string(email)) || strings.EqualFold(password, local)):
		return errEmail
	case utf8.RuneCountInString(password) < MinPassword:
		return errShort
	}
	if reason := guessable(password, words(email, names)); reason != "" {
		return &PasswordError{"This password is easy to guess: it contains " + reason + ". " + advice}
	}
	return nil
}

// words returns what an attacker knows about the account, in lower case: the
// names, the e-mail address and their parts.
func words(email Email, names []string) []string {
	known := []string{"tollgate", string(email)}
	for _, name := range append(names, string(email)) {
		parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
		for _, part := range append(parts, strings.Join(parts, "")) {
			if utf8.RuneCountInString(part) > 1 {
				known = append(known, part)
			}
		}
	}
	return known
}

const (
	// minScore is the minimum score of the estimator, of 0 to 4: 3 resists
	// 10^8 guesses against a slow hash.
	minScore = 3

	// minDifferent is the minimum number of different characters. The
	// estimator does not see that a group of characters is repeated.
	minDifferent = 6

	// maxEstimated is how many characters are estimated: the work grows with
	// more than the square of the length. It is some milliseconds for this
	// length, less than that of a hash.
	maxEstimated = 32
)

// reasons are the patterns of the estimator in words.
var reasons = map[string]string{
	"dictionary": "common words or a common password",
	"spatial":    "neighboring keys of a keyboard",
	"repeat":     repeated,
	"sequence":   "a sequence of characters, such as 12345",
	"date":       "a date",
}

const repeated = "repeated text"

// letters has the digits and signs that people write for letters. The
// estimator can try all such replacements itself, but the number of attempts
// grows exponentially.
var letters = strings.NewReplacer("4", "a", "@", "a", "8", "b", "(", "c", "3", "e", "6", "g", "9", "g",
	"1", "i", "!", "i", "|", "l", "0", "o", "$", "s", "5", "s", "+", "t", "7", "t", "2", "z")

// guessable says why a password is easy to guess, or returns the empty text.
func guessable(password string, known []string) string {
	for i := range known {
		known[i] = inASCII(known[i])
	}
	plain := strings.ToLower(withoutAccents(password))
	different := map[rune]bool{}
	for _, r := range plain {
		different[r] = true
	}
	if len(different) < minDifferent {
		return repeated
	}
	for _, text := range []string{plain, letters.Replace(plain)} {
		if reason := weakness(inASCII(text), known); reason != "" {
			return reason
		}
	}
	return ""
}

// withoutAccents decomposes letters and removes their accents.
func withoutAccents(text string) string {
	return strings.Map(func(r rune) rune {
		if '\u0300' <= r && r <= '\u036f' {
			return -1
		}
		return r
	}, norm.NFKD.String(text))
}

// inASCII gives each other character a letter: the estimator counts bytes, and a
// character of other scripts has up to four.
func inASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		return 'a' + r%26
	}, text)
}

// weakness says why the beginning of a text in ASCII is easy to guess, or
// returns the empty text.
func weakness(text string, known []string) string {
	estimate := zxcvbn.PasswordStrength(text[:min(len(text), maxEstimated)], known, matching.FilterL33tMatcher)
	if estimate.Score >= minScore {
		return ""
	}
	reason, longest := repeated, 0
	for _, match := range estimate.MatchSequence {
		found := reasons[match.Pattern]
		if match.DictionaryName == "user_inputs" {
			found = "your e-mail address or the name of this site"
		}
		if found != "" && len(match.Token) > longest {
			reason, longest = found, len(match.Token)
		}
	}
	return reason
}
