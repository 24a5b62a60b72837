// Package credential finds out who calls: a token in one of several places of
// a request, or a user that another handler has authenticated.
//
// A place for tokens is a source, and a scheme of Authorization is a function:
// a file for each, and a line in New.
package credential

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Credential is what finds the account of a request.
type Credential struct {
	// Hash finds the token. It stands for the account of an identity.
	Hash token.Hash
	// Whole is the hash of the whole text of a foreign token, and nil for
	// others. Hash differs if the token has a prefix.
	Whole *token.Hash
	// User and Account are those of an identity; without a credential, only Account.
	User, Account string
}

// OfAccount is the credential of an account that a program names.
func OfAccount(account string) Credential {
	return Credential{Hash: token.OfAccount(account), Account: account}
}

// IsIdentity tells whether the account is known without a token.
func (c *Credential) IsIdentity() bool { return c.Account != "" }

// IsForeign tells whether the gate did not make the token.
func (c *Credential) IsForeign() bool { return c.Whole != nil }

// Grant returns what the credential grants: not from a cache if fresh is set.
// The error store.ErrNotFound is for an identity without an account.
func (c *Credential) Grant(ctx context.Context, grants store.Grants, now time.Time, fresh bool) (store.Grant, error) {
	grant, err := c.grant(ctx, grants, now, fresh)
	return grant.At(now), err
}

func (c *Credential) grant(ctx context.Context, grants store.Grants, now time.Time, fresh bool) (store.Grant, error) {
	switch {
	case c.IsIdentity():
		return grants.GrantAccount(ctx, c.Account, fresh)
	case c.IsForeign():
		return c.grantForeign(ctx, grants, now, fresh)
	case fresh:
		return grants.Confirm(ctx, c.Hash, now)
	}
	return grants.Grant(ctx, c.Hash, now)
}

// grantForeign is Grant of a foreign token. One with a "|" usually has a prefix,
// so its rest is tried first: a store elsewhere would need a second round trip.
func (c *Credential) grantForeign(ctx context.Context, grants store.Grants, now time.Time, fresh bool) (store.Grant, error) {
	find := grants.Grant
	if fresh {
		find = grants.Confirm
	}
	grant, err := find(ctx, c.Hash, now)
	if err == nil || c.Hash == *c.Whole || !errors.Is(err, store.ErrNoGrant) {
		return grant, err
	}
	whole, wholeErr := find(ctx, *c.Whole, now)
	if wholeErr == nil {
		c.Hash = *c.Whole
	}
	if errors.Is(wholeErr, store.ErrNoGrant) && store.WhyNoGrant(wholeErr) == "" {
		return grant, err // the store may know the rest
	}
	return whole, wholeErr
}

// Request is a request to an endpoint.
type Request struct {
	*http.Request
	policy.Route
	Facts request.Facts
}

// source is a place of a request that can have tokens.
type source interface {
	// token returns the text of a token by its position in the place, or false
	// behind the last one. A place with something else has an empty text.
	// elsewhere tells that a source before this one has a token.
	token(r Request, position int, elsewhere bool) (text string, ok bool)

	// remove removes the tokens from the headers for a service. The endpoint
	// is nil if the headers are for an error route.
	remove(h http.Header, e *policy.Endpoint)
}

// Reader reads credentials.
type Reader struct {
	// Headers are the names of the headers that a call may lose: those that
	// Remove changes, and request.Connection.
	Headers []string

	policy  *policy.Policy
	server  Server
	sources []source
	NoToken *refusal.Refusal
}

// Server knows the users that other handlers have authenticated.
type Server interface {
	// Identity returns the value of a placeholder, or "".
	Identity(r *http.Request, placeholder string) string
}

// New returns a reader. It needs the server for identities only.
func New(p *policy.Policy, server Server) *Reader {
	rd := &Reader{Headers: append([]string{"Authorization", "Cookie", request.ProtocolHeader}, request.Connection...), policy: p, server: server, NoToken: refusal.NoToken(p.TokenHeader, p.TokenBasic, p.Docs)}
	if p.TokenHeader != "" {
		rd.sources = append(rd.sources, tokenHeader(p.TokenHeader))
		rd.Headers = append(rd.Headers, p.TokenHeader)
	}
	schemes := []scheme{bearer}
	if p.TokenBasic {
		schemes = append(schemes, basic(p))
	}
	rd.sources = append(rd.sources, subprotocol{}, authorization{schemes, p})
	return rd
}

// each calls f with the texts of all tokens.
func (rd *Reader) each(r Request, f func(text string)) {
	elsewhere := false
	for _, s := range rd.sources {
		before := elsewhere
		for i := 0; ; i++ {
			text, ok := s.token(r, i, before)
			if !ok {
				break
			}
			elsewhere = true
			f(text)
		}
	}
}

// Read finds the token or the identity of a request. A token in the query
// string is refused and not ignored (RFC 6750, 5.3): the client should learn
// that every log on the way has it now.
func (rd *Reader) Read(r Request) (Credential, *refusal.Refusal) {
	if r.Facts.UpgradeRefused {
		return Credential{}, refusal.Upgrade
	}
	// Two fields are refused also if both are the service's own: another handler
	// may have read the first one, and the service the last.
	if query := r.URL.RawQuery; query != "" && InQuery(query) || len(r.Facts.Authorization) > 1 {
		return Credential{}, refusal.ManyTokens
	}
	var first string
	n, own := 0, false
	rd.each(r, func(text string) {
		if n == 0 {
			first = text
		}
		n++
		own = own || rd.policy.Identity != nil && rd.policy.IsOwn(text)
	})
	if rd.policy.Identity != nil && !own {
		if c, found := rd.identity(r.Request); found {
			return c, nil
		}
	}
	switch {
	case n > 1:
		return Credential{}, refusal.ManyTokens
	case n == 0 && rd.admitsAnonymous(r):
		return anonymous, nil
	case first == "" && len(r.Facts.Authorization) > 0:
		return Credential{}, refusal.NoBearer
	case first == "":
		return Credential{}, rd.NoToken
	}
	return rd.Parse(first)
}

// Known returns the first valid token of the gate, or else the identity or the
// first foreign token, of a request that Read refuses. The token may be revoked,
// and the account disabled.
func (rd *Reader) Known(r Request) (c Credential, found bool) {
	own := false
	rd.each(r, func(text string) {
		own = own || rd.policy.IsOwn(text)
		if by, refused := rd.Parse(text); refused == nil && (!found || c.IsForeign() && !by.IsForeign()) {
			c, found = by, true
		}
	})
	if !own && rd.policy.Identity != nil {
		if by, known := rd.identity(r.Request); known {
			return by, true
		}
	}
	return c, found
}

// Parse reads a token: one of the gate, or a foreign one.
func (rd *Reader) Parse(text string) (Credential, *refusal.Refusal) {
	if hash, err := token.Parse(text); err == nil {
		return Credential{Hash: hash}, nil
	}
	if !rd.policy.ForeignKeys || !token.IsForeign(text) {
		return Credential{}, refusal.InvalidToken
	}
	whole := token.Foreign(text)
	if hash, found := token.SplitPrefix(text); found {
		return Credential{Hash: hash, Whole: &whole}, nil
	}
	return Credential{Hash: whole, Whole: &whole}, nil
}

// identity is the credential of a user that another handler has authenticated.
func (rd *Reader) identity(r *http.Request) (c Credential, found bool) {
	user := rd.server.Identity(r, rd.policy.Identity.Placeholder)
	if user == "" {
		return Credential{}, false
	}
	account := rd.policy.Identity.Account(user)
	return Credential{Hash: token.OfAccount(account), User: user, Account: account}, true
}

// Remove removes the tokens from the headers for a service. Without an
// endpoint, the headers are for an error route.
func (rd *Reader) Remove(h http.Header, e *policy.Endpoint) {
	for _, s := range rd.sources {
		s.remove(h, e)
	}
	if e == nil || !e.KeepCookie {
		delete(h, "Cookie")
	}
}
