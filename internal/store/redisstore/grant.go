package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// maxGrants is how many grants are cached. One takes about 700 bytes.
const maxGrants = 50_000

// granted is what an account and its keys grant, as one script read them.
type granted struct {
	store.Grant // without a key
	disabled    bool
	keys        map[token.Hash]store.Grant // of keys that are not revoked
	revoked     map[token.Hash]string      // the ids of those that are
	version     string
	epoch       uint64 // of the account, before
}

// size is how many grants it has.
func (g *granted) size() int { return max(1, len(g.keys)+len(g.revoked)) }

// of returns what a token grants.
func (g *granted) of(hash token.Hash, now time.Time) (store.Grant, error) {
	if grant, found := g.keys[hash]; found {
		known := store.Grant{Account: grant.Account, Key: grant.Key}
		switch {
		case !grant.Until.IsZero() && !now.Before(grant.Until):
			return known, store.Expired
		case g.disabled:
			return known, store.Disabled
		}
		return grant, nil
	}
	if id, found := g.revoked[hash]; found {
		return store.Grant{Account: g.Account, Key: id}, store.Revoked
	}
	return store.Grant{}, store.ErrNoGrant
}

// granted returns what a document grants.
func (d *document) granted() (*granted, error) {
	handle, err := strconv.ParseUint(d.handle, 10, 64)
	version, err2 := strconv.ParseUint(d.version, 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return nil, damaged("account "+d.ID, err)
	}
	g := &granted{
		Grant: d.Grant(nil), disabled: d.Disabled, version: d.version,
		keys: make(map[token.Hash]store.Grant, len(d.Keys)), revoked: map[token.Hash]string{},
	}
	g.Handle, g.Version = store.Handle(handle), version
	for _, k := range d.Keys {
		if !k.RevokedAt.IsZero() {
			g.revoked[k.Hash] = k.ID
			continue
		}
		grant := d.Grant(k)
		grant.Handle, grant.Version, grant.Until = g.Handle, g.Version, k.ExpiresAt
		g.keys[k.Hash] = grant
	}
	return g, nil
}

// grants is a cache of what accounts grant, with up to maxGrants grants. It
// forgets those that were not used for longest.
type grants struct {
	mu   sync.Mutex
	list *simplelru.LRU[string, *granted] // by account
	size int
}

func newGrants() *grants {
	c := &grants{}
	// It fails only for a size below 1.
	c.list, _ = simplelru.NewLRU(maxGrants, func(_ string, g *granted) { c.size -= g.size() })
	return c
}

func (c *grants) get(account string) *granted {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, _ := c.list.Get(account)
	return g
}

// put caches what an account grants, nothing if g is nil.
func (c *grants) put(account string, g *granted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list.Remove(account)
	if g == nil {
		return
	}
	c.size += g.size()
	c.list.Add(account, g)
	for c.size > maxGrants {
		c.list.RemoveOldest()
	}
}

// Grant implements store.Grants.
func (s *Store) Grant(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	if account, found := s.tokenAccounts.Get(hash); found {
		if g := s.cached(account); g != nil {
			if grant, err := g.of(hash, now); err == nil {
				grant.Cached = true
				return grant, nil
			}
		}
	}
	return s.Confirm(ctx, hash, now)
}

// cached returns what an account grants, nil if it is not in the cache or if
// this gate has changed the account since it was read.
func (s *Store) cached(account string) *granted {
	if g := s.grants.get(account); g != nil && g.epoch == s.epoch(account).Load() {
		return g
	}
	return nil
}

// Confirm implements store.Grants.
func (s *Store) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	known, found := s.tokenAccounts.Get(hash)
	none, why := store.Grant{}, store.ErrNoGrant
	if found {
		if none, why = s.confirm(ctx, known, hash, now); !errors.Is(why, store.ErrNoGrant) {
			return none, why
		}
		// Another gate may have imported the token into another account.
		s.tokenAccounts.Remove(hash)
	}
	account, err := s.Holder(ctx, hash)
	if errors.Is(err, store.ErrNotFound) || err == nil && account == known {
		return none, why
	}
	if err != nil {
		return store.Grant{}, err
	}
	grant, err := s.confirm(ctx, account, hash, now)
	if err == nil {
		s.tokenAccounts.Add(hash, account)
	}
	return grant, err
}

// confirm returns what the token of a key of an account grants.
func (s *Store) confirm(ctx context.Context, account string, hash token.Hash, now time.Time) (store.Grant, error) {
	g, err := s.refresh(ctx, account)
	if err != nil {
		return store.Grant{}, err
	}
	if g == nil {
		return store.Grant{}, store.ErrNoGrant
	}
	return g.of(hash, now)
}

// GrantAccount implements store.Grants.
func (s *Store) GrantAccount(ctx context.Context, account string, fresh bool) (store.Grant, error) {
	if g := s.cached(account); g != nil && !g.disabled && !fresh {
		grant := g.Grant
		grant.Cached = true
		return grant, nil
	}
	g, err := s.refresh(ctx, account)
	switch {
	case err != nil:
		return store.Grant{}, err
	case g == nil:
		return store.Grant{}, store.ErrNotFound
	case g.disabled:
		return store.Grant{Account: account}, store.Disabled
	}
	return g.Grant, nil
}

// refresh reads what an account grants, nil if there is no such account. The
// server sends no document if the cached one still has its version.
func (s *Store) refresh(ctx context.Context, account string) (*granted, error) {
	known, version := s.grants.get(account), ""
	if known != nil {
		version = known.version
	}
	epoch := s.epoch(account).Load()
	sent := time.Now()
	reply, err := s.client.runWithin(ctx, readScript, []string{s.accountKey(account)}, []string{version})
	if err != nil {
		return nil, err
	}
	r := reader{reply: reply}
	s.client.clock.read(r.int(), sent, time.Now())
	if r.err != nil {
		return nil, damaged("account "+account, r.err)
	}
	if len(r.reply) == 0 {
		if known == nil {
			return nil, damaged("account "+account, errShort)
		}
		if known.epoch != epoch {
			same := *known
			same.epoch = epoch
			s.grants.put(account, &same)
		}
		return known, nil
	}
	d, err := decodeDocument(account, r.next())
	if err != nil {
		return nil, err
	}
	if d == nil {
		s.grants.put(account, nil)
		return nil, nil
	}
	g, err := d.granted()
	if err != nil {
		return nil, err
	}
	g.epoch = epoch
	s.grants.put(account, g)
	return g, nil
}
