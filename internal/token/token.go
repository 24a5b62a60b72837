// Package token makes and reads Bearer tokens.
//
// A token is a prefix, 43 base62 characters of 32 random bytes, and 6 base62
// characters of the CRC-32 (IEEE) of the text before them:
//
//	tgk_   0123456789012345678901234567890123456789012 345678
//	prefix random                                      checksum
//
// Secret scanners find a leaked token by its prefix. With the checksum,
// [Parse] refuses invalid text without asking the store; the checksum is
// public arithmetic and proves nothing. A token has 256 random bits and
// cannot be guessed. It therefore needs no slow password hash: the store
// has its SHA-256.
//
// The prefix is a [Word] that the operator chooses. It gives no right: the store
// knows what a token is for. So [Parse] accepts each word, and tokens with an older
// word go on to work.
package token

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"strings"
)

const (
	randomBytes    = 32
	randomLength   = 43
	checksumLength = 6
	digitsLength   = randomLength + checksumLength
	hintLength     = 4
)

// ErrMalformed means that a text is no token: its shape or its checksum is
// wrong. Clients must not learn which.
var ErrMalformed = errors.New("malformed token")

// Hash is the SHA-256 of a token's text. Stores look tokens up by it, and
// never store the text.
type Hash [sha256.Size]byte

// MarshalText implements encoding.TextMarshaler: the hash in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return errors.New("the hash of a token does not have 64 hexadecimal digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Token is a new secret. Only [Token.Reveal] returns its text, to be shown
// once. Formatting, logging and encoding give the hint instead. The text is
// behind a pointer because fmt does not follow pointers to strings: not even
// %d, or %+v of a struct with a private Token field, shows it.
//
// The zero Token has no secret; use [New].
type Token struct {
	text *string
}

// New makes a token of the kind with the default prefix; see [Word.New].
func New(kind Kind, random io.Reader) (Token, error) { return Word("").New(kind, random) }

// Reveal returns the secret text. Show it once and do not store it.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Hash returns the hash that stores look the token up by.
func (t Token) Hash() Hash {
	return sha256.Sum256([]byte(t.Reveal()))
}

// String returns the token's hint; see [Hint].
func (t Token) String() string {
	return Hint(t.Reveal())
}

// LogValue gives structured logs the token's hint.
func (t Token) LogValue() slog.Value {
	return slog.StringValue(t.String())
}

// MarshalText gives encoders the token's hint. Use [Token.Reveal] to send
// the secret.
func (t Token) MarshalText() ([]byte, error) {
	return []byte(t.String()), nil
}

// Parse checks the shape and the checksum of a token and returns its hash.
// The error is [ErrMalformed]. It allocates nothing, because every call
// needs it.
//
// The comparison of the checksum need not take constant time: clients can
// compute the checksum themselves.
func Parse(text string) (Hash, error) {
	length := len(text) - digitsLength
	if length < minPrefix || length > maxPrefix || text[length-1] != '_' {
		return Hash{}, ErrMalformed
	}
	var sum uint32
	valid := true
	switch prefix := text[:length]; prefix {
	case keyPrefix:
		sum = sums.key
	case loginPrefix:
		sum = sums.login
	default:
		sum, valid = sums.ofPrefix(prefix)
	}
	if !valid || !hasChecksum(text[length:], sum) {
		return Hash{}, ErrMalformed
	}
	var data [maxPrefix + digitsLength]byte // on the stack: a conversion would allocate
	copy(data[:], text)
	return sha256.Sum256(data[:len(text)]), nil
}

// IsHintEnd tells whether a text can be the end of a Hint: the last characters of
// a token.
func IsHintEnd(text string) bool {
	return len(text) == hintLength && strings.Trim(text, alphabet) == ""
}

// Hint returns the part of a token that may be shown so that its owner
// recognises it: the prefix, an ellipsis and the last four characters,
// which are part of the checksum and reveal at most 24 of the 256 random
// bits. For a text that is no token it is the ellipsis alone: the text may be
// another secret.
func Hint(text string) string {
	const ellipsis = "…"
	if _, err := Parse(text); err != nil {
		return ellipsis
	}
	return text[:len(text)-digitsLength] + ellipsis + text[len(text)-hintLength:]
}
