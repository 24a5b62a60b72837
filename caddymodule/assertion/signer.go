package assertion

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// renewal is how long an assertion is used again, in seconds. What a
// service receives is valid for at least Lifetime less this.
const renewal = 60

// maxCached is how many assertions a Signer and a Verifier keep. With the
// usual 500 bytes each, that is less than 10 MiB. There is no bound in
// bytes: an assertion grows with the abilities that it names.
const maxCached = 10_000

// maxHost is how long a host name can be (RFC 1035, 2.3.4). The client
// chooses the Host header, so longer ones are not kept.
const maxHost = 253

// Signer makes assertions. It is safe for concurrent use.
type Signer struct {
	signer jose.Signer
	signed *cache[signed] // by what is asserted, see subject
}

// signed is an assertion that is used again until it is a minute old.
type signed struct {
	at   int64 // seconds since 1970
	text string
}

// NewSigner returns a Signer that signs with a key.
func NewSigner(key *Key) (*Signer, error) {
	with := jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key.private, KeyID: key.id}}
	signer, err := jose.NewSigner(with, new(jose.SignerOptions).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("preparing to sign assertions: %w", err)
	}
	return &Signer{signer, newCache[signed](maxCached)}, nil
}

// Caller is whose call it is.
type Caller struct{ Account, Plan, Key, Abilities string }

// Call returns the assertion for a call that came with this Host header.
func (s *Signer) Call(host string, by Caller, now time.Time) string {
	return s.assert(Audience(host), by, Call, now.Unix())
}

// Login returns the assertion for an attempt to log in that came with
// this Host header.
func (s *Signer) Login(host string, now time.Time) string {
	return s.assert(Audience(host), Caller{}, Login, now.Unix())
}

func (s *Signer) assert(host string, by Caller, purpose string, now int64) string {
	var space [256]byte
	about := subject(space[:0], host, by)
	// After the clock was set back, what was signed before cannot be used:
	// a service would take it for an assertion from the future.
	if kept := s.signed.get(about); now-kept.at < renewal && now >= kept.at {
		return kept.text
	}
	text := s.sign(host, by, purpose, now)
	if len(host) <= maxHost {
		s.signed.put(string(about), signed{now, text})
	}
	return text
}

// subject appends all that an assertion says to b as one text, which is
// found in fewer places of memory than five. The host is last because the
// client chooses it; the others have no line break. A login has only a
// host, and a call always has an account.
func subject(b []byte, host string, by Caller) []byte {
	b = append(append(b, by.Account...), '\n')
	b = append(append(b, by.Key...), '\n')
	b = append(append(b, by.Plan...), '\n')
	b = append(append(b, by.Abilities...), '\n')
	return append(b, host...)
}

func (s *Signer) sign(host string, by Caller, purpose string, now int64) string {
	payload, err := json.Marshal(Claims{
		Issuer: Issuer, Audience: host, Account: by.Account, Plan: by.Plan, Abilities: by.Abilities, Key: by.Key,
		Purpose: purpose, IssuedAt: now, ExpiresAt: now + int64(Lifetime/time.Second),
	})
	if err != nil {
		panic(err) // strings and integers always encode
	}
	return s.serialize(payload)
}

func (s *Signer) serialize(payload []byte) string {
	object, err := s.signer.Sign(payload)
	if err != nil {
		panic(err) // Ed25519 signs anything
	}
	text, err := object.CompactSerialize()
	if err != nil {
		panic(err) // one signature with its payload always serializes
	}
	return text
}
