package account

import (
	"fmt"
	"regexp"
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

const (
	// minScore is the minimum score of the estimator, of 0 to 4: 3 resists
	// 10^8 guesses against a slow hash.
	minScore = 3

	// maxEstimated is how many characters are estimated: the work grows with
	// more than the square of the length. It is some milliseconds for this
	// length, less than that of a hash.
	maxEstimated = 32
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

// reasons are the patterns of the estimator in words.
var reasons = map[string]string{
	"dictionary": "common words or a common password",
	"spatial":    "neighboring keys of a keyboard",
	"repeat":     "repeated characters",
	"sequence":   "a sequence of characters, such as 12345",
	"date":       "a date",
}

// signs finds digits and signs in a row.
var signs = regexp.MustCompile(`[^\pL\s]+`)

// letters has the digits and signs that people write for letters. The
// estimator can try all such replacements itself, but the number of attempts
// grows exponentially.
var letters = strings.NewReplacer("4", "a", "@", "a", "8", "b", "(", "c", "3", "e", "6", "g", "9", "g",
	"1", "i", "!", "i", "|", "l", "0", "o", "$", "s", "5", "s", "+", "t", "7", "t", "2", "z")

// guessable says why a password is easy to guess, or returns the empty text.
// It estimates a repeated text once: the estimator knows only repeated
// characters.
func guessable(password string, known []string) string {
	unit := period(password)
	repeated := len(unit) < len(password)
	runes := []rune(unit)
	begin := string(runes[:min(len(runes), maxEstimated)])
	estimate := zxcvbn.PasswordStrength(begin, known, matching.FilterL33tMatcher)
	if estimate.Score >= minScore {
		estimate = zxcvbn.PasswordStrength(inLetters(begin), known, matching.FilterL33tMatcher)
	}
	switch {
	case estimate.Score >= minScore:
		return ""
	case repeated:
		return "repeated text"
	}
	reason, longest := "few different characters", 0
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

// inLetters replaces up to three digits and signs in a row by letters. More in
// a row are a number.
func inLetters(text string) string {
	return signs.ReplaceAllStringFunc(text, func(row string) string {
		if len(row) > 3 {
			return row
		}
		return letters.Replace(row)
	})
}

// period returns the shortest text whose repetition is the password, or
// begins with it. A text that is not repeated in full at least once is the
// whole password.
func period(password string) string {
	// The prefix function of Knuth, Morris and Pratt: border[i] is the length
	// of the longest text that the first i bytes both begin and end with.
	border := make([]int, len(password)+1)
	for i, k := 1, 0; i < len(password); i++ {
		for k > 0 && password[i] != password[k] {
			k = border[k]
		}
		if password[i] == password[k] {
			k++
		}
		border[i+1] = k
	}
	length := len(password) - border[len(password)]
	if 2*length > len(password) {
		return password
	}
	return password[:length]
}
