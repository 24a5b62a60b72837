package gate

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate/credential"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// identify makes a call of a request if the store knows its credential.
// Otherwise it refuses the request. In mode shadow, a credential that may be
// valid for the service passes: a foreign token or an identity that the gate
// does not know.
func (g *Gate) identify(r *http.Request, d *decision, by credential.Credential) {
	db, err := g.Store()
	var grant store.Grant
	switch {
	case err != nil:
	case by.IsForeign():
		grant, err = g.grantForeign(r, db, &by, d)
	default:
		if grant, err = by.Grant(r.Context(), db, d.began, false); errors.Is(err, store.ErrNotFound) && by.User != "" {
			grant, err = g.enrol(r, db, &by, d.began)
		}
	}
	if err != nil {
		d.refusal = g.storeFailed(err, by.IsIdentity())
		if by.IsAnonymous() && d.refusal.Status == http.StatusUnauthorized { // the client needs a key, not another account
			d.refusal = g.credentials.NoToken
			return
		}
		if d.account = grant.Account; d.account != "" {
			g.Server.Ended(r, grant.Account, grant.Key)
		}
		known := d.account != "" || !by.IsForeign() && (!by.IsIdentity() || d.refusal.IsInvalidToken()) // the account of an identity is disabled
		d.final = known || d.refusal.Status >= http.StatusInternalServerError
		return
	}
	d.call = &Call{
		entitlement: &g.entitlements[len(g.Policy.Plans)][d.Endpoint.Index], gate: g, credential: by, grant: grant,
		store: db, mark: d.mark, request: r, began: d.began, path: cmp.Or(d.Special, d.Path, d.Endpoint.Name),
	}
	g.Server.Identified(r, d.call)
}

// grantForeign finds a token that the gate did not make. The gate limits how
// many unknown foreign tokens a client sends. Above the limit it looks up
// only those that were accepted from the client before: otherwise a right
// guess would show.
func (g *Gate) grantForeign(r *http.Request, db Store, by *credential.Credential, d *decision) (store.Grant, error) {
	client, text := login.ClientOf(d.mark.Client), *by.Whole
	if wait := g.Guesses.Wait(d.began, client, text); wait > 0 {
		return store.Grant{}, refusal.ManyGuesses(wait)
	}
	grant, err := by.Grant(r.Context(), db, d.began, false)
	var wait time.Duration
	switch {
	case err == nil:
		wait = g.Guesses.Accept(g.Now(), client, text)
	case errors.Is(err, store.ErrNoGrant):
		wait = g.Guesses.Add(g.Now(), client)
	}
	if wait > 0 {
		return store.Grant{}, refusal.ManyGuesses(wait)
	}
	return grant, err
}

// enrol creates the account of an identity that the gate does not know.
func (g *Gate) enrol(r *http.Request, db Store, by *credential.Credential, now time.Time) (store.Grant, error) {
	ctx, plan := r.Context(), g.Policy.Identity.Plan
	if plans := g.Policy.Identity.Plans; len(plans) > 0 {
		if plan = g.Server.Placeholder(r, plan); !slices.Contains(plans, plan) {
			return store.Grant{}, refusal.OtherPlan
		}
	}
	if !g.Policy.Plan(plan).HasAccess() {
		return store.Grant{}, refusal.NoPlan
	}
	if err := g.Enrol(ctx, by.Account, by.User, plan); err != nil {
		return store.Grant{}, err
	}
	grant, err := by.Grant(ctx, db, now, true)
	if errors.Is(err, store.ErrNotFound) {
		return grant, refusal.Changed // deleted again
	}
	return grant, err
}

// renew reads the grant again, and makes the call begin now.
func (c *Call) renew(fresh bool) *refusal.Refusal {
	now := c.gate.Now()
	grant, err := c.credential.Grant(c.request.Context(), c.store, now, fresh)
	if c.unconfirmed = err != nil; c.unconfirmed {
		return c.gate.storeFailed(err, c.credential.IsIdentity())
	}
	c.grant, c.began, c.rooms = grant, now, nil
	return nil
}

// storeFailed returns the refusal for an error of the store, or the error if it
// is a refusal. identity tells that the request had no token. It logs the error,
// with the attrs of the request, if the store has failed.
func (g *Gate) storeFailed(err error, identity bool, attrs ...slog.Attr) *refusal.Refusal {
	if f, ok := err.(*refusal.Refusal); ok {
		return f
	}
	switch {
	case errors.Is(err, login.ErrContended):
		return refusal.ManyAtOnce
	case errors.Is(err, store.ErrNoGrant), errors.Is(err, store.ErrNotFound): // the account was deleted
		return refusal.Ended(err, identity)
	case errors.Is(err, store.ErrChanged):
		return refusal.Changed
	case errors.Is(err, store.ErrReceipt):
		return repeated
	}
	logFailure(g.outages.store, err, attrs...)
	return refusal.Unavailable
}

// checkAddress refuses a client whose address the key does not allow.
func (c *Call) checkAddress() *refusal.Refusal {
	own := c.grant.Restriction
	if own == nil || len(own.Addresses) == 0 {
		return nil
	}
	from := c.from()
	if !slices.ContainsFunc(own.Addresses, func(network netip.Prefix) bool { return network.Contains(from) }) {
		return refusal.Address(from)
	}
	return nil
}
