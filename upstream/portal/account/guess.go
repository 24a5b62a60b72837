package account

import (
	"strings"
	"unicode/utf8"

	zxcvbn "github.com/ccojocar/zxcvbn-go"
	"github.com/ccojocar/zxcvbn-go/matching"
	"golang.org/x/text/unicode/norm"
)

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
