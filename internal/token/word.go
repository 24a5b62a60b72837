package token

import (
	"fmt"
	"io"
	"strings"
)

// Word is what the tokens of a seller begin with, such as acme_live: keys with
// acme_live_, and login tokens with acme_live_login_. The zero Word is the default:
// tgk_ and tgl_.
type Word string

const (
	minWord   = 2
	maxWord   = 24
	loginPart = "_login"
	minPrefix = minWord + len("_")
	maxPrefix = maxWord + len(loginPart) + len("_")
)

// Check refuses a word that is not 2 to 24 of a-z, 0-9 and _, and one whose keys
// would look like the login tokens of another word.
func (w Word) Check() error {
	text := string(w)
	switch _, valid := sums.ofPrefix(text[:min(len(text), maxWord)]); {
	case w == "":
	case len(text) < minWord || len(text) > maxWord || !valid:
		return fmt.Errorf("%.64q is not 2 to %d of a-z, 0-9 and _, such as acme_live", text, maxWord)
	case strings.HasSuffix(text, loginPart) || text+"_" == loginPrefix:
		return fmt.Errorf("keys with the word %s would look like login tokens: use another word", text)
	}
	return nil
}

// New makes a token of the kind from 32 bytes of random, which should be
// crypto/rand's Reader. It fails if the word or the kind is invalid or random ends.
func (w Word) New(kind Kind, random io.Reader) (Token, error) {
	if !kind.isValid() {
		return Token{}, fmt.Errorf("making a token: invalid kind %d", kind)
	}
	if err := w.Check(); err != nil {
		return Token{}, fmt.Errorf("making a token: %w", err)
	}
	var secret [randomBytes]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return Token{}, fmt.Errorf("reading random bytes for a token: %w", err)
	}
	prefix := w.prefix(kind)
	buffer := make([]byte, len(prefix)+digitsLength)
	copy(buffer, prefix)
	encode(buffer[len(prefix):len(prefix)+randomLength], secret[:])
	writeChecksum(buffer)
	text := string(buffer)
	return Token{text: &text}, nil
}

func (w Word) prefix(kind Kind) string {
	switch {
	case w == "":
		return kinds[kind].prefix
	case kind == Login:
		return string(w) + loginPart + "_"
	}
	return string(w) + "_"
}

// Begins tells whether a text begins like the tokens of the word. Login tokens
// begin like keys, but not with the default prefix.
func (w Word) Begins(text string) bool {
	if w == "" {
		return strings.HasPrefix(text, keyPrefix) || strings.HasPrefix(text, loginPrefix)
	}
	rest, found := strings.CutPrefix(text, string(w))
	return found && strings.HasPrefix(rest, "_")
}

// shown is how many digits of a token a log may have: without the other ten, there
// are 62^10 texts to try.
const shown = randomLength - 10

// Find returns where the first token of a text begins, or -1: a word, "_" and more
// digits than a log may have. It need not be a valid token, and capitals are treated
// like small letters. With the default prefix, it can have fewer digits.
func Find(text string) int {
	start, from := 0, len(text) // of the word, and of the digits behind its last "_"
	for i := range len(text) {
		switch c := text[i]; {
		case c == '_':
			from = i + 1
			if begin := i + 1 - len(keyPrefix); begin >= 0 && (strings.EqualFold(text[begin:from], keyPrefix) || strings.EqualFold(text[begin:from], loginPrefix)) {
				return begin
			}
		case digits[c] == noDigit:
			start, from = i+1, len(text)
		case i-from == shown && from-start >= minPrefix:
			return start
		}
	}
	return -1
}
