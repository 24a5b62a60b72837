package account

import (
	"regexp"
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

	// maxEstimated is how many characters are estimated: the work grows with
	// more than the square of the length. It is some milliseconds for this
	// length, less than that of a hash.
	maxEstimated = 32

	// maxRead is how many characters are searched for repetitions: this work
	// too grows with the square of the length.
	maxRead = 256
)

// reasons are the patterns of the estimator in words.
var reasons = map[string]string{
	"dictionary": "common words or a common password",
	"spatial":    "neighboring keys of a keyboard",
	"repeat":     "repeated characters",
	"sequence":   sequence,
	"date":       "a date",
}

const (
	sequence = "a sequence of characters, such as 12345"
	repeated = "repeated text"
)

// signs finds digits and signs in a row.
var signs = regexp.MustCompile(`[^\pL\s]+`)

// letters has the digits and signs that people write for letters. The
// estimator can try all such replacements itself, but the number of attempts
// grows exponentially.
var letters = strings.NewReplacer("4", "a", "@", "a", "8", "b", "(", "c", "3", "e", "6", "g", "9", "g",
	"1", "i", "!", "i", "|", "l", "0", "o", "$", "s", "5", "s", "+", "t", "7", "t", "2", "z")

// guessable says why a password is easy to guess, or returns the empty text.
//
// The estimator knows little but Latin letters. So it also estimates the keys
// that type the password, and the password without the characters that follow
// from those before them.
func guessable(password string, known []string) string {
	for i := range known {
		known[i] = inASCII(known[i])
	}
	plain := strings.ToLower(norm.NFKC.String(password))
	simple := strings.ToLower(withoutAccents(plain))
	texts := []string{plain, simple, inLetters(simple)}
	for _, keys := range keyboards {
		texts = append(texts, typed(strings.ToLower(password), keys))
	}
	seen := map[string]bool{}
	for _, text := range texts {
		runes := []rune(text)
		runes = runes[:min(len(runes), maxRead)]
		rest, why := surprising(runes)
		if 2*len(rest) <= len(runes) && weakness(string(rest), known, seen) != "" {
			return why
		}
		if reason := weakness(text, known, seen); reason != "" {
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

// weakness says why the beginning of a text is easy to guess, or returns the
// empty text. It estimates no text again that it has seen.
func weakness(text string, known []string, seen map[string]bool) string {
	runes := []rune(text)
	begin := inASCII(string(runes[:min(len(runes), maxEstimated)]))
	if seen[begin] {
		return ""
	}
	seen[begin] = true
	estimate := zxcvbn.PasswordStrength(begin, known, matching.FilterL33tMatcher)
	if estimate.Score >= minScore {
		return ""
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

// surprising returns the characters of a text that do not follow from those
// before them: it leaves out what repeats an earlier part and what continues a
// sequence. why says what it left out most.
func surprising(text []rune) (rest []rune, why string) {
	const least = 3
	repeats, continues := 0, 0
	for i := 0; i < len(text); {
		again, next := repetition(text, i), continuation(text, i)
		switch {
		case again >= max(least, next):
			repeats, i = repeats+again, i+again
		case next > 0:
			continues, i = continues+next, i+next
		default:
			rest, i = append(rest, text[i]), i+1
		}
	}
	if continues > repeats {
		return rest, sequence
	}
	return rest, repeated
}

// repetition returns how many characters from i on repeat an earlier part.
func repetition(text []rune, i int) (longest int) {
	for start := range i {
		n := 0
		for i+n < len(text) && text[start+n] == text[i+n] {
			n++
		}
		longest = max(longest, n)
	}
	return longest
}

// continuation returns how many characters from i on continue a sequence of the
// characters before them, such as abcd, or of every second one, such as
// a1b2c3. A step is at most 3: a few code points in an alphabet are letters of
// other languages.
func continuation(text []rune, i int) (longest int) {
	const most = 3
	for distance := 1; distance <= 2; distance++ {
		n := 0
		var highest, lowest rune // of the steps
		for k := i; k >= 2*distance && k < len(text); k++ {
			step, before := text[k]-text[k-distance], text[k-distance]-text[k-2*distance]
			highest, lowest = max(highest, step, before), min(lowest, step, before)
			if highest > most || lowest < -most || highest > 0 && lowest < 0 {
				break
			}
			n++
		}
		if n >= 2*distance {
			longest = max(longest, n)
		}
	}
	return longest
}
