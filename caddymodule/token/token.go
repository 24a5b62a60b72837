// Package token makes and reads the secrets that callers present as
// Bearer tokens.
//
// A token is a prefix that tells its kind, 43 base62 characters of 32
// random bytes, and 6 base62 characters of the CRC-32 (IEEE) of all that
// stands before them:
//
//	tgk_ 0123456789012345678901234567890123456789012 345678
//	kind random                                      checksum
//
// The prefix lets secret scanners find a token that leaked into a
// repository or a log. The checksum lets [Parse] turn away junk before
// any store is asked; it is no secret and no signature, since anyone can
// compute it. What makes a token unguessable are its 256 random bits
// alone, which is also why a plain SHA-256 is enough to store it by: a
// slow password hash defends guessable secrets, and this is none.
package token

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// ErrMalformed means that a text cannot be a token: its shape or its
// checksum is wrong. It says nothing about which, so that what a client
// reads of it cannot depend on that either.
var ErrMalformed = errors.New("malformed token")

// Hash is the SHA-256 of a token's text. It is all that is stored of a
// token, and what a token is looked up by.
type Hash [sha256.Size]byte

// Token is a freshly made secret. Its text is meant for one reader, once:
// [Token.Reveal] is the only way to it. Formatting, logging and encoding
// give the hint instead. The text stands behind a pointer because fmt
// follows no pointer to a string, so that neither a %d nor a %+v of a
// struct with a private Token field, on which fmt cannot call String,
// shows it.
//
// The zero Token holds no secret; only [New] makes useful ones.
type Token struct {
	text *string
}

// New makes a token of the kind from 32 bytes of random, which should be
// crypto/rand's Reader. It fails when the kind is none of the declared
// ones or random runs dry.
func New(kind Kind, random io.Reader) (Token, error) {
	prefix, err := kind.prefix()
	if err != nil {
		return Token{}, err
	}
	var secret [randomBytes]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return Token{}, fmt.Errorf("reading random bytes for a token: %w", err)
	}
	var buffer [textLength]byte
	copy(buffer[:], prefix)
	encode(buffer[prefixLength:bodyLength], secret[:])
	seal(&buffer)
	text := string(buffer[:])
	return Token{text: &text}, nil
}

// Reveal returns the secret text. Show it to the one who asked for the
// token and keep it nowhere.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Hash returns what the token is stored by.
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

// MarshalText gives encoders the token's hint. Whoever means to send the
// secret itself calls [Token.Reveal].
func (t Token) MarshalText() ([]byte, error) {
	return []byte(t.String()), nil
}

// Parse checks the shape and the checksum of a presented token and
// returns what to look it up by. The error is [ErrMalformed]. It
// allocates nothing, since every call to the API passes through it.
//
// The checksum is compared in plain time: it is public arithmetic on what
// the caller has sent, and its timing tells nothing that the caller could
// not compute.
func Parse(text string) (Hash, Kind, error) {
	if len(text) != textLength {
		return Hash{}, 0, ErrMalformed
	}
	kind, ok := kindOf(text[:prefixLength])
	if !ok || !sealed(text, kind) {
		return Hash{}, 0, ErrMalformed
	}
	var data [textLength]byte // on the stack, where a conversion is not
	copy(data[:], text)
	return sha256.Sum256(data[:]), kind, nil
}

// Hint returns what may be shown of a token so that its owner recognises
// it: the prefix, an ellipsis and the last four characters. Those four
// belong to the checksum, and tell at most 24 of the 256 random bits. For
// a text that has not the length of a token it is the ellipsis alone: who
// knows what it is that was pasted there.
func Hint(text string) string {
	const ellipsis = "…"
	if len(text) != textLength {
		return ellipsis
	}
	return text[:prefixLength] + ellipsis + text[textLength-hintLength:]
}
