package badgerstore

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// claims are the tokens of keys that are being written, and their accounts.
// Writes of different accounts do not wait for each other, so two of them could
// make one token a live key of both accounts.
type claims struct {
	mu       sync.Mutex
	accounts map[token.Hash]string // guarded by mu
}

// claim reserves the token of a key for its account until release. It returns
// store.ErrTokenTaken if another account claims it, or has a live key with it.
func (s *Store) claim(k keyRow, at time.Time) error {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	account, taken := s.claims.accounts[k.hash]
	if !taken {
		account, taken = s.ledger.TokenHolder(&k.hash, at)
	}
	if taken && account != k.Account {
		return store.ErrTokenTaken
	}
	s.claims.accounts[k.hash] = k.Account
	return nil
}

// claimLive is claim for a key that is stored. The error is store.ErrNotFound
// if the key is not live.
func (s *Store) claimLive(k keyRow, at time.Time) error {
	if !k.Live(at) || s.claim(k, at) != nil {
		return store.ErrNotFound
	}
	return nil
}

// release ends the claims of keys.
func (s *Store) release(keys ...keyRow) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	for _, k := range keys {
		delete(s.claims.accounts, k.hash)
	}
}

// Holder implements store.Keys.
func (s *Store) Holder(_ context.Context, hash token.Hash, at time.Time) (account string, err error) {
	err = s.ledger.Use(func() error {
		holder, found := s.ledger.TokenHolder(&hash, at)
		if account = holder; !found {
			return store.ErrNotFound
		}
		return nil
	})
	return account, err
}

// removeTokens ends the tokens of keys that were revoked or deleted. A token
// without a row could not be revoked any more.
func (s *Store) removeTokens(keys []keyRow) {
	for _, k := range keys {
		s.removeToken(k)
	}
}

// removeToken ends the token of a key, unless it is a key of another account
// meanwhile.
func (s *Store) removeToken(k keyRow) { s.ledger.RemoveToken(k.hash, k.Account, k.ID) }

// putToken makes the token of a live key valid.
func (s *Store) putToken(k keyRow) { s.ledger.PutToken(k.token()) }

// token is the key as the ledger has it.
func (k keyRow) token() *ledger.Token {
	return &ledger.Token{
		Hash: k.hash, Account: k.Account, ID: k.ID, Name: k.Name,
		Abilities: joinAbilities(k.Abilities), ExpiresAt: k.ExpiresAt, Restriction: k.Restriction(),
	}
}
