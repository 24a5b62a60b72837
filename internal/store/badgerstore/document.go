package badgerstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// read returns a document and its parts, nil and none without an account.
func (a *archive) read(id string) (document *book.Account, parts book.Parts, err error) {
	err = a.view(func(txn *badger.Txn) error {
		if parts, err = partsTxn(txn, id); err == nil && parts.Account != nil {
			document, err = book.Decode(id, parts)
		}
		return err
	})
	return document, parts, err
}

func partsTxn(txn *badger.Txn, id string) (parts book.Parts, err error) {
	var keysErr, loginsErr error
	parts.Account, err = valueTxn(txn, partKey(prefixAccount, id))
	parts.Keys, keysErr = valueTxn(txn, partKey(prefixKeys, id))
	parts.Logins, loginsErr = valueTxn(txn, partKey(prefixLogins, id))
	return parts, errors.Join(err, keysErr, loginsErr)
}

// Get implements book.Engine.
func (s *Store) Get(_ context.Context, id string) (document *book.Account, err error) {
	err = s.ledger.Use(func() error {
		document, _, err = s.archive.read(id)
		if err == nil && document == nil {
			err = store.ErrNotFound
		}
		return err
	})
	return document, err
}

// List implements book.Engine.
func (s *Store) List(_ context.Context, after string, limit int, keys bool) (list []*book.Account, err error) {
	err = s.ledger.Use(func() error {
		return s.archive.view(func(txn *badger.Txn) error {
			// Ids have no NUL, so this is the first key after that of the id.
			start := append(partKey(prefixAccount, after), 0)
			return scanTxn(txn, []byte{prefixAccount}, start, nil, func(key, value []byte) (err error) {
				if len(list) >= limit {
					return errFull
				}
				id, parts := string(key[1:]), book.Parts{Account: value}
				if keys {
					if parts, err = partsTxn(txn, id); err != nil {
						return err
					}
				}
				document, err := book.Decode(id, parts)
				list = append(list, document)
				return err
			})
		})
	})
	return list, unlessFull(err)
}

// Holder implements book.Engine. The ledger has the tokens that are live.
func (s *Store) Holder(_ context.Context, hash token.Hash) (account string, err error) {
	err = s.ledger.Use(func() error {
		known, found := s.ledger.AccountOfToken(&hash, time.Unix(0, 0))
		if account = known; !found {
			return store.ErrNotFound
		}
		return nil
	})
	return account, err
}

// HolderOfKey implements book.Engine. It reads all keys.
func (s *Store) HolderOfKey(ctx context.Context, id string) (account string, err error) {
	var holder atomic.Pointer[string]
	err = s.ledger.Use(func() error {
		return s.archive.eachKey(func(k *book.Key) error {
			if k.ID == id {
				holder.Store(new(k.Account))
				return errFull
			}
			return ctx.Err()
		})
	})
	if found := holder.Load(); found != nil {
		return *found, nil
	}
	if err == nil {
		err = store.ErrNotFound
	}
	return "", err
}

// eachKey calls fn with all keys and login tokens as book.SkimKeys has them, from
// several goroutines.
func (a *archive) eachKey(fn func(*book.Key) error) error {
	if err := a.readable(); err != nil {
		return err
	}
	for prefix, kind := range map[byte]token.Kind{prefixKeys: token.Key, prefixLogins: token.Login} {
		err := scanParallel(a.db, []byte{prefix}, func(key, value []byte) error {
			return book.SkimKeys(string(key[1:]), kind, value, fn)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// load fills the ledger from the documents.
func (s *Store) load() error {
	err := scanParallel(s.archive.db, []byte{prefixAccount}, func(key, value []byte) error {
		account, err := book.SkimAccount(string(key[1:]), value)
		if err == nil {
			s.ledger.PutAccount(&account)
		}
		return err
	})
	if err != nil {
		return err
	}
	now := time.Now().Add(-clockAhead)
	return s.archive.eachKey(func(k *book.Key) error {
		if t := ledgerToken(k); t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt) {
			s.ledger.LoadToken(t)
		}
		return nil
	})
}

// ledgerToken is a key as the ledger has it. The ledger knows a revoked key as
// long as its document lists it, so that the gate can tell why it refuses it.
func ledgerToken(k *book.Key) *ledger.Token {
	if !k.RevokedAt.IsZero() {
		known := store.RevokedFor
		if k.Kind == token.Login {
			known = store.EndedLoginsFor
		}
		return &ledger.Token{Hash: k.Hash, Account: k.Account, ID: k.ID, Revoked: true, ExpiresAt: k.RevokedAt.Add(known - clockAhead)}
	}
	return &ledger.Token{
		Hash: k.Hash, Account: k.Account, ID: k.ID, Name: k.Name,
		Abilities: book.JoinAbilities(k.Abilities), ExpiresAt: k.ExpiresAt, Restriction: k.Restriction(),
	}
}

// Totals implements book.Engine. It reads the memory only.
func (s *Store) Totals(context.Context) (totals store.Totals, err error) {
	err = s.ledger.Use(func() error {
		totals = store.Totals{Accounts: s.ledger.Accounts(), LiveKeys: s.ledger.LiveTokens(time.Now())}
		return nil
	})
	return totals, err
}
