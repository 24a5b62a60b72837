package assertion

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Leeway is how far the clocks of gate and service may differ. A portal link
// expires without it.
const Leeway = time.Minute

// Why an assertion is refused. Only the errors after ErrKey are about an
// assertion that a gate with this secret has signed.
var (
	ErrMalformed = errors.New("it is not a token signed by ES256")
	ErrKey       = errors.New("it is not signed with the key of this secret")
	ErrClaims    = errors.New("a claim is missing or has another type")
	ErrAudience  = errors.New("it is for another host")
	ErrTime      = errors.New("it is expired or not valid yet")
	ErrPurpose   = errors.New("it is for another purpose")
)

// Verifier checks assertions. It is safe for concurrent use.
type Verifier struct {
	accepts  func(host string) bool
	now      func() time.Time
	own      map[string]*ecdsa.PublicKey                 // those of NewVerifier, by id
	keys     atomic.Pointer[map[string]*ecdsa.PublicKey] // and those of the last fetch
	verified *cache[string, Claims]                      // those that were accepted, by their text; the signature is checked once

	fetch    func(context.Context) (KeySet, error) // nil: own has all keys
	failed   func(error)
	fetching chan struct{} // holds one element during a fetch; guards fetched
	fetched  time.Time
}

// NewVerifier returns a Verifier for a service. accepts tells which hosts
// it takes assertions for; services that accept one host can replay
// assertions to each other.
func NewVerifier(accepts func(host string) bool, now func() time.Time, keys ...*Key) *Verifier {
	v := &Verifier{accepts: accepts, now: now, own: make(map[string]*ecdsa.PublicKey), verified: newCache[string, Claims](maxCached), fetching: make(chan struct{}, 1)}
	for _, k := range keys {
		v.own[k.public.ID] = &k.private.PublicKey
	}
	v.keys.Store(&v.own)
	return v
}

// Verify returns the claims of an assertion that is valid now for a
// purpose: Call, Login or Portal. Its errors wrap those above. It does not
// remember the ID of a portal link: the caller does, until the link expires.
func (v *Verifier) Verify(text, purpose string) (claims Claims, err error) {
	claims = v.verified.get(text)
	isNew := claims.Issuer == ""
	if isNew {
		claims, err = v.open(text)
	}
	if err == nil {
		err = v.check(claims, purpose)
	}
	if err != nil {
		return Claims{}, err
	}
	if isNew && len(claims.Audience) <= maxHost && purpose != Portal {
		v.verified.put(text, claims, len(text)+claims.size())
	}
	return claims, nil
}

// open checks the signature and returns what was signed.
func (v *Verifier) open(text string) (claims Claims, err error) {
	object, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return claims, ErrMalformed
	}
	// The protected header only: the sender can add to another.
	key, known := v.key(object.Signatures[0].Protected.KeyID, object.UnsafePayloadWithoutVerification())
	if !known {
		return claims, ErrKey
	}
	payload, err := object.Verify(key)
	if err != nil {
		return claims, ErrKey
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Issuer != Issuer {
		return claims, ErrClaims
	}
	return claims, nil
}

func (v *Verifier) check(c Claims, purpose string) error {
	switch {
	case c.Purpose != purpose:
		return ErrPurpose
	case !v.isFor(c):
		return fmt.Errorf("%w: %.300q", ErrAudience, c.Audience)
	case !v.isTimely(c):
		return ErrTime
	case (c.Account == "") != (purpose == Login), (c.ID == "") != (purpose != Portal):
		return ErrClaims
	}
	return nil
}

// isFor reports whether the assertion is for a host of this service.
func (v *Verifier) isFor(c Claims) bool {
	if c.Purpose != Portal {
		return v.accepts(c.Audience)
	}
	page, err := url.Parse(c.Audience)
	return err == nil && page.Path == PortalPath && v.accepts(page.Hostname())
}

func (v *Verifier) isTimely(c Claims) bool {
	now, leeway := v.now().Unix(), int64(Leeway/time.Second)
	late := leeway
	if c.Purpose == Portal {
		late = 0
	}
	return now < c.ExpiresAt+late && now >= c.IssuedAt-leeway
}
