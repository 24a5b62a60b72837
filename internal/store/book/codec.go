package book

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/s2"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// ErrDamaged means that a value cannot be decoded.
var ErrDamaged = errors.New("a value is damaged")

// The first byte of a value: CBOR (RFC 8949), or CBOR that S2 compressed. The
// tags of the types in package store are the numbers of their members.
const (
	version    = 1
	compressed = 2
)

// compressFrom is the size from which values are compressed, in bytes.
const compressFrom = 512

// maxValue is the size that a value may have, in bytes. The largest document
// is much smaller.
const maxValue = 16 << 20

var encoding, decoding = modes()

func modes() (cbor.EncMode, cbor.DecMode) {
	encoding, err := cbor.EncOptions{Time: cbor.TimeRFC3339NanoUTC}.EncMode()
	if err != nil {
		panic(err) // the options are constant
	}
	decoding, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode()
	if err != nil {
		panic(err)
	}
	return encoding, decoding
}

// encode returns a value for an engine.
func encode(value any) []byte {
	plain, err := encoding.Marshal(value)
	if err != nil {
		panic("book: encoding a value: " + err.Error()) // all types can be encoded
	}
	if len(plain) < compressFrom {
		return append([]byte{version}, plain...)
	}
	return append([]byte{compressed}, s2.Encode(nil, plain)...)
}

// decode reads a value of an engine. It does not use the memory of data later.
// Its errors wrap ErrDamaged.
func decode(data []byte, value any) error {
	plain, err := unpack(data)
	if err != nil {
		return err
	}
	if err := decoding.Unmarshal(plain, value); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// unpack returns the CBOR of a value.
func unpack(data []byte) ([]byte, error) {
	if len(data) == 0 || data[0] != version && data[0] != compressed {
		return nil, ErrDamaged
	}
	if data[0] == version {
		return data[1:], nil
	}
	size, err := s2.DecodedLen(data[1:])
	if err != nil || size > maxValue {
		return nil, ErrDamaged
	}
	plain, err := s2.Decode(nil, data[1:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return plain, nil
}

// Parts is a document as engines keep it. They write the parts that differ: a
// login does not write the keys again. A part is nil if it is empty.
type Parts struct{ Account, Keys, Logins []byte }

// Encode returns the parts of a document.
func (a *Account) Encode() Parts {
	return Parts{encode(a.Account), a.encodeKeys(token.Key), a.encodeKeys(token.Login)}
}

func (a *Account) encodeKeys(kind token.Kind) []byte {
	var keys []*Key
	for _, k := range a.Keys {
		if k.Kind == kind {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return encode(keys)
}

// Decode returns a document. It does not use the memory of parts later.
func Decode(id string, parts Parts) (*Account, error) {
	a := &Account{Exists: true}
	err := decode(parts.Account, &a.Account)
	a.ID = id
	if day := a.Billing.Day; day < 0 || day > 31 {
		err = errors.Join(err, fmt.Errorf("%w: billing day %d", ErrDamaged, day))
	}
	for _, o := range a.Overrides {
		err = errors.Join(err, checkLimit(o.Limit))
	}
	err = errors.Join(err, a.decodeKeys(token.Key, parts.Keys), a.decodeKeys(token.Login, parts.Logins))
	if err != nil {
		return nil, fmt.Errorf("account %.40s: %w", id, err)
	}
	if len(parts.Keys) > 0 && len(parts.Logins) > 0 {
		a.sort()
	}
	return a, nil
}

func (a *Account) decodeKeys(kind token.Kind, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var keys []store.StoredKey
	if err := decode(data, &keys); err != nil {
		return err
	}
	for i := range keys {
		k := &keys[i]
		k.Account, k.Kind = a.ID, kind
		a.Keys = append(a.Keys, k)
		for _, l := range k.Limits {
			if err := checkLimit(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLimit finds a limit that a gate cannot compute with.
func checkLimit(l store.Limit) error {
	if known := store.Second <= l.Period && l.Period <= store.Total; !known || l.Max < 0 || l.Max == 0 && l.Period.IsPace() {
		return fmt.Errorf("%w: a limit of %.80q", ErrDamaged, l.Endpoint)
	}
	return nil
}
