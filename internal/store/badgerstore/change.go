package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// stripes is how many locks all accounts share.
const stripes = 64

// stripe is the number of an account's lock.
func (s *Store) stripe(account string) uint64 { return maphash.String(s.seed, account) % stripes }

// lock takes the locks of accounts, so that no other call changes them. Their
// order is the same for all callers, so that none waits for another one in a
// circle.
func (s *Store) lock(accounts ...string) (unlock func()) {
	var held [stripes]bool
	for _, account := range accounts {
		held[s.stripe(account)] = true
	}
	return s.lockStripes(held)
}

// lockAll is lock for every account.
func (s *Store) lockAll() (unlock func()) {
	var held [stripes]bool
	for i := range held {
		held[i] = true
	}
	return s.lockStripes(held)
}

func (s *Store) lockStripes(held [stripes]bool) (unlock func()) {
	for i := range held {
		if held[i] {
			s.changing[i].Lock()
		}
	}
	return func() {
		for i := range held {
			if held[i] {
				s.changing[i].Unlock()
			}
		}
	}
}

// step is the change of one document.
type step struct {
	*book.Step

	parts   []change // of the document, those that differ
	err     error    // why it is not written
	written bool
}

// Change implements book.Engine. All documents are written at once, each in one
// transaction. An error of the disk is that of all documents.
func (s *Store) Change(_ context.Context, at time.Time, ids []string, edit func(int, *book.Account) error) []error {
	steps, errs := make([]*step, len(ids)), make([]error, len(ids))
	defer s.lock(ids...)()
	err := s.ledger.Use(func() error {
		var wanted []*step
		for i, id := range ids {
			steps[i] = s.newStep(id, at, func(a *book.Account) error { return edit(i, a) })
			if steps[i].err == nil {
				wanted = append(wanted, steps[i])
			}
		}
		return s.write(at, wanted)
	})
	for i, st := range steps {
		if errs[i] = err; st != nil && st.err != nil {
			errs[i] = st.err
		}
	}
	return errs
}

// newStep reads a document and lets edit change it.
func (s *Store) newStep(id string, at time.Time, edit func(*book.Account) error) *step {
	before, old, err := s.archive.read(id)
	if err != nil {
		return &step{err: err}
	}
	made, err := book.NewStep(id, before, at, time.Now(), edit)
	if err != nil {
		return &step{err: err}
	}
	st := &step{Step: made}
	if made.After.Exists {
		st.parts = partChanges(id, old, made.After.Encode())
	}
	return st
}

// partChanges returns the parts of a document that differ, and its account part
// if none does: then an earlier change may not be on the disk.
func partChanges(id string, old, parts book.Parts) (changes []change) {
	if !bytes.Equal(old.Keys, parts.Keys) {
		changes = append(changes, change{key: partKey(prefixKeys, id), value: parts.Keys, joined: true})
	}
	if !bytes.Equal(old.Logins, parts.Logins) {
		changes = append(changes, change{key: partKey(prefixLogins, id), value: parts.Logins, joined: true})
	}
	if len(changes) == 0 || !bytes.Equal(old.Account, parts.Account) {
		changes = append(changes, change{key: partKey(prefixAccount, id), value: parts.Account, joined: true})
	}
	return changes
}

// write writes steps. An account that is to be deleted is removed from memory
// first, so that no further call is counted for it. It is there again if it is
// not deleted. The counts of its keys are deleted only when its document is, so
// that it never lives on without them. An account is created only when the counts
// of the one before are moved. An error of one step is in the step.
func (s *Store) write(at time.Time, steps []*step) error {
	if len(steps) == 0 {
		return nil
	}
	for _, st := range steps {
		switch {
		case st.IsDeletion():
			s.ledger.RemoveAccount(st.After.ID)
			defer func() {
				if !st.written {
					s.ledger.RestoreAccount(&st.Before.Account)
				}
			}()
		case st.After.Exists && !st.Before.Exists:
			st.err = s.closeCounts(st.After.ID)
		}
	}
	err := s.archive.writeChecked(durable, func() (changes []change, err error) {
		claimed := map[token.Hash]string{}
		for _, st := range steps {
			if st.err != nil {
				continue
			}
			var of []change
			if of, st.err = s.changes(st, at, claimed); st.err == nil {
				changes = append(changes, of...)
			}
		}
		return changes, nil
	})
	for _, st := range steps {
		if st.written {
			s.deleteAfter(st)
		}
	}
	return err
}

// deleteAfter deletes the counts of keys that a step on the disk leaves. They are
// harmless, so an error does not make the step fail, and a process that ends
// before leaves them for store.CountsFor days. Totals of an account are left until
// the next one with the id, those of a key for good.
func (s *Store) deleteAfter(st *step) {
	var err error
	switch {
	case st.IsDeletion():
		err = s.deleteCounts(st.After.ID, st.Before.Counted(), true)
	case len(st.After.Retired) > 0:
		err = s.deleteCounts(st.After.ID, st.After.Retired, false)
	}
	if err != nil {
		s.log.Error("deleting the counts of a deleted account or key", zap.String("account", st.After.ID), zap.Error(err))
	}
}

// changes returns the rows of a step, which belong together. It checks that no
// other account has a token that the account is to get: claimed has those of the
// steps before. archive.mu is held.
func (s *Store) changes(st *step, at time.Time, claimed map[token.Hash]string) ([]change, error) {
	id := st.After.ID
	for _, k := range st.Put {
		other, taken := claimed[k.Hash]
		if !taken {
			other, taken = s.ledger.AccountOfToken(&k.Hash, at)
		}
		if taken && other != id {
			return nil, store.ErrTokenTaken
		}
	}
	changes, err := s.archive.checked(book.Batch{Space: book.Space{Account: id}, Writes: st.After.Rows})
	switch {
	case err != nil:
		return nil, err
	case st.After.Exists:
		changes = append(changes, st.parts...)
		if !st.Before.Exists {
			changes = append(changes, change{key: deletedKey(id), joined: true})
		}
	default:
		deletions, err := s.archive.deletions(id)
		if err != nil {
			return nil, err
		}
		changes = append(deletions, changes...)
		if st.IsDeletion() {
			mark := deletedRow(id, st.Before.Counted())
			totals, err := s.countsOf(id, append(st.Before.Counted(), ofAccount...), []calendar.Day{store.TotalDay})
			if err != nil {
				return nil, err
			}
			if mark.joined = true; len(totals) > 0 {
				mark.expires = time.Time{} // until they are deleted
			}
			changes = append(changes, mark)
		}
	}
	for _, k := range st.Put {
		claimed[k.Hash] = id
	}
	for i := range st.After.Log {
		changes = append(changes, s.entry(&st.After.Log[i]))
	}
	changes[0].joined = false
	changes[len(changes)-1].done = func() { s.apply(st) }
	return changes, nil
}

// apply makes a step that is on the disk apply to the next call.
func (s *Store) apply(st *step) {
	st.written = true
	if st.After.Exists {
		s.ledger.PutAccount(&st.After.Account)
	}
	for _, k := range st.Ended {
		ended := ledgerToken(k)
		ended.Revoked = st.After.Find(k.ID) != nil // otherwise the document no longer has it
		s.ledger.EndToken(ended)
	}
	for _, k := range st.Put {
		s.ledger.PutToken(ledgerToken(k))
	}
	if n := len(st.After.Log); n > 0 {
		s.shown.Store(new(st.After.Log[n-1].ID))
	}
}

// maxJoined is how many rows of an account are deleted with one transaction, a
// half of what it can have. Only an account with more rows, which are of revoked
// keys, is deleted in several, its document in the last one.
const maxJoined = 6000

// deletions returns the rows that delete an account with its rows, apart from those
// that stay. mu is held.
func (a *archive) deletions(id string) (changes []change, err error) {
	of := book.Space{Account: id}
	for _, prefix := range [][]byte{rowKey(of, ""), receiptKey(id, "")} {
		err = errors.Join(err, a.scan(prefix, func(key, _ []byte) error {
			if !bytes.HasPrefix(key, rowKey(of, book.KeptPrefix)) {
				changes = append(changes, change{key: bytes.Clone(key), joined: len(changes)%maxJoined > 0})
			}
			return nil
		}))
	}
	for _, prefix := range []byte{prefixAccount, prefixKeys, prefixLogins} {
		changes = append(changes, change{key: partKey(prefix, id), joined: true})
	}
	return changes, err
}
