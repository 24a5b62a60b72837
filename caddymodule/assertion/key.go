package assertion

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// info separates this use of the secret from any other (RFC 5869, 3.2).
const info = "tollgate assertion v1"

// Key is the key pair of one secret.
type Key struct {
	id      string
	private ed25519.PrivateKey
}

// NewKey derives the key pair from the secret that the gate is configured
// with: HKDF with SHA-256, without a salt, gives the seed of an Ed25519
// key. It fails only where the Go runtime is restricted to FIPS 140-3 and
// refuses the secret as too short.
func NewKey(secret string) (*Key, error) {
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, info, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("deriving the assertion key: %w", err)
	}
	return fromSeed(seed)
}

// fromSeed names the key by its thumbprint (RFC 7638), so that gates and
// services with one secret use one name.
func fromSeed(seed []byte) (*Key, error) {
	k := &Key{private: ed25519.NewKeyFromSeed(seed)}
	public := jose.JSONWebKey{Key: k.public()}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("naming the assertion key: %w", err)
	}
	k.id = base64.RawURLEncoding.EncodeToString(thumbprint)
	return k, nil
}

func (k *Key) public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// KeySet is a JWK Set (RFC 7517, section 5).
type KeySet struct {
	Keys []PublicKey `json:"keys" nullable:"false" doc:"The public keys. The claim kid of an assertion names one of them."`
}

// KeySetType is the media type of a KeySet (RFC 7517, section 8.5.1).
const KeySetType = "application/jwk-set+json"

// PublicKey is a public key as a JSON Web Key (RFC 8037, section 2).
type PublicKey struct {
	Type      string `json:"kty" doc:"OKP: an octet key pair."`
	Curve     string `json:"crv" doc:"Ed25519."`
	X         string `json:"x" doc:"The public key, base64url without padding."`
	ID        string `json:"kid" doc:"The thumbprint of the key (RFC 7638)."`
	Algorithm string `json:"alg" doc:"EdDSA."`
	Use       string `json:"use" doc:"sig: to verify signatures."`
}

// NewKeySet returns the public keys of key pairs.
func NewKeySet(keys ...*Key) KeySet {
	set := KeySet{Keys: make([]PublicKey, len(keys))}
	for i, k := range keys {
		set.Keys[i] = PublicKey{
			Type: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(k.public()),
			ID: k.id, Algorithm: string(algorithm), Use: "sig",
		}
	}
	return set
}
