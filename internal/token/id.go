package token

import (
	"crypto/sha256"
	"fmt"
	"io"
)

const (
	idPrefix = "key_"
	idBytes  = 16
	idDigits = 16
)

// NewID makes the public id of a key or login token: "key_" and 16 base62
// characters, the low digits of 16 random bytes. That is 95 bits: among
// 10^9 ids, the probability of a duplicate is below 10^-10. The bias of
// reducing 128 bits to 62^16 values is below 2^-32. An id is no secret: it
// is in lists, logs and URLs.
func NewID(random io.Reader) (string, error) {
	var entropy [idBytes]byte
	if _, err := io.ReadFull(random, entropy[:]); err != nil {
		return "", fmt.Errorf("reading random bytes for an id: %w", err)
	}
	var digits [idDigits]byte
	encode(digits[:], entropy[:])
	return idPrefix + string(digits[:]), nil
}

// IDOf makes the id of an imported key. It depends only on the account and the
// hash of the token: the same token gets the same id each time in one account,
// and different ids in two accounts. It does not tell the hash.
func IDOf(account string, hash Hash) string {
	entropy := sha256.Sum256([]byte("tollgate id of an imported key\x00" + string(hash[:]) + account))
	var digits [idDigits]byte
	encode(digits[:], entropy[:idBytes])
	return idPrefix + string(digits[:])
}
