// Package token makes and reads Bearer tokens.
//
// A token is the prefix of its kind, 43 base62 characters of 32 random
// bytes, and 6 base62 characters of the CRC-32 (IEEE) of the text before
// them:
//
//	tgk_ 0123456789012345678901234567890123456789012 345678
//	kind random                                      checksum
//
// Secret scanners find a leaked token by its prefix. With the checksum,
// [Parse] refuses invalid text without asking the store; the checksum is
// public arithmetic and proves nothing. A token has 256 random bits and
// cannot be guessed. It therefore needs no slow password hash: the store
// has its SHA-256.
package token

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

const (
	prefixLength   = len("tgk_")
	randomBytes    = 32
	randomLength   = 43
	checksumLength = 6
	bodyLength     = prefixLength + randomLength
	textLength     = bodyLength + checksumLength
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

// New makes a token of the kind from 32 bytes of random, which should be
// crypto/rand's Reader. It fails if the kind is invalid or random ends.
func New(kind Kind, random io.Reader) (Token, error) {
	if !kind.isValid() {
		return Token{}, fmt.Errorf("making a token: invalid kind %d", kind)
	}
	var secret [randomBytes]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return Token{}, fmt.Errorf("reading random bytes for a token: %w", err)
	}
	var buffer [textLength]byte
	copy(buffer[:], kinds[kind].prefix)
	encode(buffer[prefixLength:bodyLength], secret[:])
	writeChecksum(&buffer)
	text := string(buffer[:])
	return Token{text: &text}, nil
}

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
func Parse(text string) (Hash, Kind, error) {
	if len(text) != textLength {
		return Hash{}, 0, ErrMalformed
	}
	kind := kindOf(text[:prefixLength])
	if kind == 0 || !hasChecksum(text, kind) {
		return Hash{}, 0, ErrMalformed
	}
	var data [textLength]byte // on the stack: a conversion would allocate
	copy(data[:], text)
	return sha256.Sum256(data[:]), kind, nil
}

// IsHintEnd tells whether a text can be the end of a Hint: the last characters of
// a token.
func IsHintEnd(text string) bool {
	return len(text) == hintLength && strings.Trim(text, alphabet) == ""
}

// Hint returns the part of a token that may be shown so that its owner
// recognises it: the prefix, an ellipsis and the last four characters,
// which are part of the checksum and reveal at most 24 of the 256 random
// bits. For a text that does not have the length of a token it is the
// ellipsis alone: the text may be another secret.
func Hint(text string) string {
	const ellipsis = "…"
	if len(text) != textLength {
		return ellipsis
	}
	return text[:prefixLength] + ellipsis + text[textLength-hintLength:]
}
