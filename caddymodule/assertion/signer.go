package assertion

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// renewal is how long an assertion is used again, in seconds. What a
// service receives is valid for at least Lifetime less this.
const renewal = 60

// Signer makes assertions. It is safe for concurrent use.
type Signer struct {
	signer jose.Signer
	seed   maphash.Seed
	signed *cache[uint64, *signed] // by id and host: few of 10,000 subjects share a place
}

// subject is what an assertion is about. A login has no account, and a call
// always has one.
type subject struct {
	host string // as the client wrote it
	by   Caller
}

// signed is an assertion that is used again until it is a minute old.
type signed struct {
	subject
	at   int64 // seconds since 1970
	text string
}

// NewSigner returns a Signer that signs with a key.
func NewSigner(key *Key) (*Signer, error) {
	with := jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key.private, KeyID: key.public.ID}}
	signer, err := jose.NewSigner(with, new(jose.SignerOptions).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("preparing to sign assertions: %w", err)
	}
	return &Signer{signer: signer, seed: maphash.MakeSeed(), signed: newCache[uint64, *signed](maxCached)}, nil
}

// Caller is whose call it is.
type Caller struct{ Account, Plan, Key, Abilities string }

func (c Caller) size() int { return len(c.Account) + len(c.Plan) + len(c.Key) + len(c.Abilities) }

// Call returns the assertion for a call that came with this Host header.
// The id tells callers apart, for example the hash of a token: those who
// have the same one share a place in the cache.
func (s *Signer) Call(id [32]byte, host string, by Caller, now time.Time) string {
	return s.assert(binary.LittleEndian.Uint64(id[:]), &subject{host, by}, Call, now.Unix())
}

// Login returns the assertion for an attempt to log in that came with
// this Host header.
func (s *Signer) Login(host string, now time.Time) string {
	return s.assert(0, &subject{host: host}, Login, now.Unix())
}

// Portal returns an assertion that opens the web pages of an account, and when it
// expires. page is the URL of the page that takes it. Each has another ID.
func (s *Signer) Portal(page, account string, now time.Time) (text string, expires time.Time) {
	text = s.sign(Claims{Audience: page, Account: account, Purpose: Portal, ID: rand.Text()}, now.Unix())
	return text, time.Unix(now.Unix(), 0).UTC().Add(Lifetime)
}

// assert returns the assertion that is kept, or a new one.
func (s *Signer) assert(id uint64, about *subject, purpose string, now int64) string {
	place := id ^ maphash.String(s.seed, about.host)
	// After the clock was set back, what was signed before cannot be used:
	// a service would take it for an assertion from the future.
	if kept := s.signed.get(place); kept != nil && kept.subject == *about && now-kept.at < renewal && now >= kept.at {
		return kept.text
	}
	text := s.sign(Claims{
		Audience: Audience(about.host), Account: about.by.Account, Plan: about.by.Plan, Abilities: about.by.Abilities, Key: about.by.Key, Purpose: purpose,
	}, now)
	if len(about.host) <= maxHost {
		kept := &signed{*about, now, text}
		kept.host = strings.Clone(about.host) // not a part of a longer text
		s.signed.put(place, kept, len(text)+len(about.host)+about.by.size())
	}
	return text
}

// sign returns an assertion of the claims that begins now.
func (s *Signer) sign(c Claims, now int64) string {
	c.Issuer, c.IssuedAt, c.ExpiresAt = Issuer, now, now+int64(Lifetime/time.Second)
	payload, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and integers always encode
	}
	return s.serialize(payload)
}

func (s *Signer) serialize(payload []byte) string {
	object, err := s.signer.Sign(payload)
	if err != nil {
		panic(err) // a P-256 key signs anything
	}
	text, err := object.CompactSerialize()
	if err != nil {
		panic(err) // one signature with its payload always serializes
	}
	return text
}
