package book

import (
	"reflect"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Step is one change of a document, as an engine writes it.
type Step struct {
	// Before is the document that was read. Its Exists is false if there was
	// none. After is the one to write, or to delete if its Exists is false.
	Before, After *Account
	// Claims are keys whose token the account must get: those that become
	// live, or live for longer.
	Claims []*Key
	// Put are keys that are new or differ, and not revoked. The token of one
	// that is not in Claims can be that of another account meanwhile, if the
	// clocks of two gates differ; then it stays there. Ended are keys that
	// were revoked or are no longer kept.
	Put, Ended []*Key
}

// NewStep lets edit change a copy of a document, nil for none. at is the time
// at which keys are live, and now the time of the engine. Its error is that of
// edit.
func NewStep(id string, before *Account, at, now time.Time, edit func(*Account) error) (*Step, error) {
	if before == nil {
		before = &Account{Account: store.Account{ID: id}}
	}
	s := &Step{Before: before, After: before.Clone()}
	if err := edit(s.After); err != nil {
		return nil, err
	}
	s.After.ID = id
	if before.Exists {
		s.After.CreatedAt = before.CreatedAt
	}
	if !s.After.Exists {
		s.After.Keys, s.Ended = nil, before.Keys
		return s, nil
	}
	s.After.prune(now)
	s.compare(at)
	return s, nil
}

// IsDeletion tells whether the step deletes an account that exists.
func (s *Step) IsDeletion() bool { return s.Before.Exists && !s.After.Exists }

// IsNothing tells whether there is no account before and after the step.
func (s *Step) IsNothing() bool { return !s.Before.Exists && !s.After.Exists }

// compare sets Claims, Put and Ended.
func (s *Step) compare(at time.Time) {
	old := make(map[string]*Key, len(s.Before.Keys))
	for _, k := range s.Before.Keys {
		old[k.ID] = k
	}
	for _, k := range s.After.Keys {
		was := old[k.ID]
		delete(old, k.ID)
		switch {
		case !k.RevokedAt.IsZero() || !k.Live(at) && was == nil:
			if was != nil && was.RevokedAt.IsZero() {
				s.Ended = append(s.Ended, k)
			}
		case was == nil, !was.RevokedAt.IsZero(), k.Outlives(&was.Key):
			s.Claims = append(s.Claims, k)
			s.Put = append(s.Put, k)
		case !reflect.DeepEqual(was, k):
			s.Put = append(s.Put, k)
		}
	}
	for _, k := range s.Before.Keys {
		if old[k.ID] != nil {
			s.Ended = append(s.Ended, k)
		}
	}
}
