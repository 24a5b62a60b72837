package assertion

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"

	"github.com/go-jose/go-jose/v4"
)

// info separates this use of the secret from any other (RFC 5869, 3.2).
const info = "tollgate assertion v2"

// The sizes of a private key, of each coordinate of its public key, and of the
// seed, in bytes.
const (
	keySize  = 32
	seedSize = 48
)

// Key is the key pair of one secret.
type Key struct {
	private *ecdsa.PrivateKey
	public  PublicKey
}

// NewKey derives the key pair from the secret that the gate is configured
// with: HKDF with SHA-256, without a salt, gives the seed of a P-256 key. It
// fails only where the Go runtime is restricted to FIPS 140-3 and refuses the
// secret as too short.
func NewKey(secret string) (*Key, error) {
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, info, seedSize)
	if err != nil {
		return nil, fmt.Errorf("deriving the assertion key: %w", err)
	}
	return fromSeed(seed)
}

// fromSeed reduces the seed to a private key as FIPS 186-5, A.2.1 does. The
// seed is 128 bits longer than the key, so every key is equally likely. The
// key has its thumbprint (RFC 7638) as its name, so that gates and services
// with one secret use one name.
func fromSeed(seed []byte) (*Key, error) {
	curve, one := elliptic.P256(), big.NewInt(1)
	scalar := new(big.Int).SetBytes(seed)
	scalar.Mod(scalar, new(big.Int).Sub(curve.Params().N, one)).Add(scalar, one)
	private, err := ecdsa.ParseRawPrivateKey(curve, scalar.FillBytes(make([]byte, keySize)))
	if err != nil {
		return nil, fmt.Errorf("making the assertion key: %w", err)
	}
	point, err := private.PublicKey.Bytes() // 4, and both coordinates
	if err != nil {
		return nil, fmt.Errorf("encoding the assertion key: %w", err)
	}
	public := jose.JSONWebKey{Key: &private.PublicKey}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("naming the assertion key: %w", err)
	}
	return &Key{private, PublicKey{
		Type: "EC", Curve: "P-256", ID: base64.RawURLEncoding.EncodeToString(thumbprint), Algorithm: string(algorithm), Use: "sig",
		X: base64.RawURLEncoding.EncodeToString(point[1 : 1+keySize]), Y: base64.RawURLEncoding.EncodeToString(point[1+keySize:]),
	}}, nil
}

// KeySet is a JWK Set (RFC 7517, section 5).
type KeySet struct {
	Keys []PublicKey `json:"keys" nullable:"false" doc:"The public keys. The claim kid of an assertion names one of them."`
}

// KeySetType is the media type of a KeySet (RFC 7517, section 8.5.1).
const KeySetType = "application/jwk-set+json"

// PublicKey is a public key as a JSON Web Key (RFC 7518, section 6.2).
type PublicKey struct {
	Type      string `json:"kty" doc:"EC: an elliptic curve."`
	Curve     string `json:"crv" doc:"P-256."`
	X         string `json:"x" doc:"The x coordinate of the key, base64url without padding."`
	Y         string `json:"y" doc:"The y coordinate of the key, base64url without padding."`
	ID        string `json:"kid" doc:"The thumbprint of the key (RFC 7638)."`
	Algorithm string `json:"alg" doc:"ES256."`
	Use       string `json:"use" doc:"sig: to verify signatures."`
}

// NewKeySet returns the public keys of key pairs.
func NewKeySet(keys ...*Key) KeySet {
	set := KeySet{Keys: make([]PublicKey, len(keys))}
	for i, k := range keys {
		set.Keys[i] = k.public
	}
	return set
}
