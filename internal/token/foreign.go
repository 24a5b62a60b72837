package token

import (
	"bytes"
	"crypto/sha256"
	"strings"
)

// The bounds of a foreign token, in bytes.
const (
	// MinForeign is the shortest foreign token: a shorter one could be
	// guessed.
	MinForeign = 20
	// MaxText is the longest text that can be a token.
	MaxText = 256
)

// IsOwn tells whether a text is meant to be a token of a gate: it has a default
// prefix, valid or not, or it is a valid token with another one. A token of another
// system can begin with the word of the gate.
func IsOwn(text string) bool {
	if Word("").Begins(text) {
		return true
	}
	_, err := Parse(text)
	return err == nil
}

// IsForeign tells whether a text can be a token that the gate did not make:
// visible ASCII characters without a space, of an allowed length, and not in
// the form of a token of the gate.
func IsForeign(text string) bool {
	if len(text) < MinForeign || len(text) > MaxText || IsOwn(text) {
		return false
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Foreign returns the hash of a foreign token that has no prefix.
func Foreign(text string) Hash { return sha256.Sum256([]byte(text)) }

// IsOfNoToken tells whether a hash is what a script writes that has no token: that
// of an empty text, or one hexadecimal digit repeated.
func IsOfNoToken(h Hash) bool {
	return h == sha256.Sum256(nil) || h[0]>>4 == h[0]&15 && h == Hash(bytes.Repeat(h[:1], len(h)))
}

// Prefixed returns the hash of a foreign token that has a prefix, by the
// SHA-256 of its text without the prefix and the "|" behind it. Stores look
// it up like that of any other token. So a token with another prefix is
// unknown, and nothing needs the prefix itself.
func Prefixed(prefix string, rest Hash) Hash {
	return sha256.Sum256([]byte("tollgate prefixed token\x00" + prefix + "\x00" + string(rest[:])))
}

// SplitPrefix returns the hash of a foreign token whose prefix ends at its
// first "|". found is false if there is none.
func SplitPrefix(text string) (hash Hash, found bool) {
	prefix, rest, found := strings.Cut(text, "|")
	if !found {
		return Hash{}, false
	}
	return Prefixed(prefix, Foreign(rest)), true
}

// OfAccount returns a hash that stands for an account without a token, where
// things are found by the hash of a token. It is the hash of no token.
func OfAccount(account string) Hash {
	return sha256.Sum256([]byte("tollgate account\x00" + account))
}
