package gate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// find reads the first grant of a request.
func (g *Gate) find(r *http.Request, db Store, by *credential, now time.Time) (store.Grant, *Refusal) {
	if by.isForeign() {
		return g.findForeign(r, db, by, now)
	}
	grant, refusal := g.read(r.Context(), db, by, now, false)
	if refusal == refuseUnknown {
		return g.enrol(r.Context(), db, by, now)
	}
	return grant, refusal
}

// findForeign finds a token that the gate did not make. The gate limits how
// many unknown foreign tokens a client sends. Above the limit it looks up
// only those that were accepted from the client before: otherwise a right
// guess would show.
func (g *Gate) findForeign(r *http.Request, db Store, by *credential, now time.Time) (store.Grant, *Refusal) {
	client, text := login.ClientOf(g.Server.Client(r)), by.whole
	wait := g.Guesses.Wait(now, client, text)
	if wait > 0 {
		return store.Grant{}, manyTokens(wait)
	}
	grant, refusal := g.read(r.Context(), db, by, now, false)
	switch refusal {
	case refuseInvalidToken:
		wait = g.Guesses.Add(g.Now(), client)
	case nil:
		wait = g.Guesses.Accept(g.Now(), client, text)
	}
	if wait > 0 {
		return store.Grant{}, manyTokens(wait)
	}
	return grant, refusal
}

// mayBelongToService tells whether a refused credential may be valid for the
// service: a foreign token or an identity that the gate does not know.
func (c *credential) mayBelongToService(f *Refusal) bool {
	switch {
	case f.Status >= http.StatusInternalServerError:
		return false
	case c.isIdentity():
		return f != refuseInvalidToken // the account is disabled
	}
	return c.isForeign()
}

// refuseUnknown says that there is no account of an identity. It is not sent.
var refuseUnknown = new(Refusal)

// read reads what a credential grants: not from a cache if fresh is set.
func (g *Gate) read(ctx context.Context, db Store, by *credential, now time.Time, fresh bool) (store.Grant, *Refusal) {
	var grant store.Grant
	var err error
	switch {
	case by.isIdentity():
		if grant, err = db.GrantAccount(ctx, by.account, fresh); errors.Is(err, store.ErrNotFound) {
			return grant, refuseUnknown
		}
	case fresh:
		grant, err = by.find(ctx, db.Confirm, now)
	default:
		grant, err = by.find(ctx, db.Grant, now)
	}
	if err != nil {
		return grant, g.storeFailed(err)
	}
	return grant, nil
}

// find finds a token. A foreign one with a "|" usually has a prefix, so its
// rest is tried first: a store elsewhere would need a second round trip.
func (c *credential) find(ctx context.Context, in func(context.Context, token.Hash, time.Time) (store.Grant, error), now time.Time) (store.Grant, error) {
	grant, err := in(ctx, c.hash, now)
	if !c.isForeign() || c.hash == c.whole || !errors.Is(err, store.ErrNoGrant) {
		return grant, err
	}
	if grant, err = in(ctx, c.whole, now); err == nil {
		c.hash = c.whole
	}
	return grant, err
}

// enrol creates the account of an identity that the gate does not know.
func (g *Gate) enrol(ctx context.Context, db Store, by *credential, now time.Time) (store.Grant, *Refusal) {
	plan := g.Policy.Identity.Plan
	if !g.Policy.Plan(plan).HasAccess() {
		return store.Grant{}, refusePlan
	}
	if err := g.Enrol(ctx, by.account, by.user, plan); err != nil {
		return store.Grant{}, g.storeFailed(err)
	}
	grant, refusal := g.read(ctx, db, by, now, true)
	if refusal == refuseUnknown {
		refusal = refuseChanged // deleted again
	}
	return grant, refusal
}

// renew reads the grant again, and makes the call begin now.
func (c *Call) renew(fresh bool) *Refusal {
	now := c.gate.Now()
	grant, refusal := c.gate.read(c.request.Context(), c.store, &c.credential, now, fresh)
	if refusal == refuseUnknown {
		refusal = refuseInvalidToken // the account was deleted
	}
	if c.unsure = refusal != nil; c.unsure {
		return refusal
	}
	c.grant, c.began, c.rooms = grant, now, nil
	return nil
}

// manyTokens refuses a client that has sent too many unknown tokens.
func manyTokens(wait time.Duration) *Refusal {
	return manyAttempts("Too many unknown tokens. Try again later.", Unauthenticated, wait)
}
