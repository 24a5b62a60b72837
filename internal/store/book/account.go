package book

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Account is the document of an account: the account and all its keys. Its
// methods are the rules about keys.
type Account struct {
	store.Account
	// Exists tells whether there is such an account. Set it to create the
	// account, and clear it to delete the account.
	Exists bool
	// Keys are the keys and login tokens, oldest first.
	Keys []*Key

	// What a step writes with the document.

	// Log is the entries of the log.
	Log []LogEntry
	// Rows are writes to the rows of the account.
	Rows []Write
	// Retired are the CountsAs of keys that are no longer kept.
	Retired []string
}

// Key is a key with the hash of its token.
type Key = store.StoredKey

// Find returns the key with an id, or nil.
func (a *Account) Find(id string) *Key {
	for _, k := range a.Keys {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// Live returns the key with an id if it is live at a time. Otherwise the error
// is store.ErrNotFound.
func (a *Account) Live(id string, at time.Time) (*Key, error) {
	k := a.Find(id)
	if k == nil || !k.Live(at) {
		return nil, store.ErrNotFound
	}
	return k, nil
}

// Holding returns the key with a token: the one that is live at a time, or else
// the one that was created last, or nil.
func (a *Account) Holding(hash token.Hash, at time.Time) (key *Key) {
	for _, k := range a.Keys { // oldest first
		if k.Hash == hash && (key == nil || !key.Live(at)) {
			key = k
		}
	}
	return key
}

// Create adds a key. A token.Key is compared with the keys that are kept: the
// error is store.ErrExists if one has the same id. It is also compared with
// those that are live at key.CreatedAt: the errors are store.ErrNameTaken and
// store.ErrTooManyKeys. A token.Login has neither error: if there are
// store.MaxLiveLogins live login tokens, the oldest is revoked at
// key.CreatedAt. The error is store.ErrNotFound without an account. There is room
// for a declared key whatever others the account has.
func (a *Account) Create(key Key) error { return a.add(key, nil, false) }

// Import is Create for a key whose token another system made. The error is
// also store.ErrExists if the account had the key within store.RevokedFor, so
// that no import makes a revoked key live. Change returns it.
func (a *Account) Import(key Key) error {
	err := a.add(key, nil, false)
	if err == nil {
		a.Rows = append(a.Rows, Write{Row: Row{Key: endedRow(key.ID)}, Check: true})
	}
	return err
}

// Rotate adds a key that replaces a live one, and returns it as stored. It has
// the ID, Hint, CreatedAt and Hash of next, and all else of the old key. The old
// key expires at oldEnds, unless it expires earlier. If oldEnds is not after
// next.CreatedAt, the old key is revoked.
//
// The errors are store.ErrNotFound if there is no such live key,
// store.ErrReplaced if a live key replaces it, and store.ErrTooManyKeys if both
// keys would be live and there is room for one. If there are too many login
// tokens, the oldest of the others is revoked, as by Create.
func (a *Account) Rotate(id string, next Key, oldEnds time.Time) (store.Key, error) {
	old, err := a.Live(id, next.CreatedAt)
	if err != nil {
		return store.Key{}, err
	}
	if a.isReplaced(old, next.CreatedAt) {
		return store.Key{}, store.ErrReplaced
	}
	successor := Key{Key: old.Key, Hash: next.Hash}
	successor.ID, successor.Hint, successor.CreatedAt, successor.Root = next.ID, next.Hint, next.CreatedAt, old.CountsAs()
	next = successor
	overlap := oldEnds.After(next.CreatedAt)
	if err := a.add(next, old, overlap); err != nil {
		return store.Key{}, err
	}
	switch {
	case !overlap:
		old.RevokedAt = next.CreatedAt
	case old.ExpiresAt.IsZero() || oldEnds.Before(old.ExpiresAt):
		old.ExpiresAt = oldEnds
	}
	return next.Key, nil
}

// add adds a key. The key replaces old unless that is nil; with overlap, both
// are live for some time.
func (a *Account) add(key Key, old *Key, overlap bool) error {
	if !a.Exists {
		return store.ErrNotFound
	}
	var others []*Key // live, of the same kind, oldest first
	for _, k := range a.Keys {
		if k != old && k.Kind == key.Kind && k.Live(key.CreatedAt) {
			others = append(others, k)
		}
	}
	live := len(others)
	if overlap {
		live++
	}
	switch {
	case key.Kind == token.Login:
		for _, k := range others[:max(0, live-store.MaxLiveLogins+1)] {
			k.RevokedAt = key.CreatedAt
		}
	case a.Find(key.ID) != nil:
		return store.ErrExists
	case old == nil && slices.ContainsFunc(others, func(k *Key) bool { return k.Name == key.Name }):
		return store.ErrNameTaken
	case live >= store.MaxLiveKeys && !key.Declared:
		return store.ErrTooManyKeys
	}
	key.Account = a.ID
	a.Keys = append(a.Keys, &key)
	a.sort()
	return nil
}

func (a *Account) sort() {
	slices.SortFunc(a.Keys, func(k, l *Key) int {
		return cmp.Or(k.CreatedAt.Compare(l.CreatedAt), cmp.Compare(k.ID, l.ID))
	})
}

// isReplaced tells whether a key that is live at a time replaces old.
func (a *Account) isReplaced(old *Key, at time.Time) bool {
	return slices.ContainsFunc(a.Keys, func(k *Key) bool { return k.Live(at) && k.Replaces(&old.Key) })
}

// ChangeKey changes a key that is live at a time, and returns it. edit cannot
// change the ID, Account, Kind, Hint, CreatedAt, RevokedAt and Root.
//
// The errors are that of edit, store.ErrNotFound if there is no such live
// key, store.ErrNameTaken if another live key has the new name, and
// store.ErrReplaced if the key would expire later and a live key replaces it. The
// step fails with store.ErrTokenTaken if the key has just expired and another
// account has its token.
func (a *Account) ChangeKey(id string, at time.Time, edit func(*store.Key) error) (store.Key, error) {
	k, err := a.Live(id, at)
	if err != nil {
		return store.Key{}, err
	}
	changed := k.Key
	changed.Abilities, changed.Limits, changed.Addresses = slices.Clone(k.Abilities), slices.Clone(k.Limits), slices.Clone(k.Addresses)
	if err := edit(&changed); err != nil {
		return store.Key{}, err
	}
	if changed.Outlives(&k.Key) && a.isReplaced(k, at) {
		return store.Key{}, store.ErrReplaced
	}
	for _, other := range a.Keys {
		if k.Kind == token.Key && changed.Name != k.Name && other.Kind == token.Key && other.Live(at) && other.Name == changed.Name {
			return store.Key{}, store.ErrNameTaken
		}
	}
	changed.ID, changed.Account, changed.Kind, changed.Hint = k.ID, k.Account, k.Kind, k.Hint
	changed.CreatedAt, changed.RevokedAt, changed.Root = k.CreatedAt, k.RevokedAt, k.Root
	k.Key = changed
	return k.Key, nil
}

// Revoke revokes a key at a time that is not in the future, and does not
// change a revoked one. The error is store.ErrNotFound if there is no such key.
func (a *Account) Revoke(id string, at time.Time) error {
	k := a.Find(id)
	if k == nil {
		return store.ErrNotFound
	}
	if k.RevokedAt.IsZero() {
		k.RevokedAt = at
	}
	return nil
}

// EndLogins revokes all login tokens at a time that is not in the future,
// whatever their CreatedAt and ExpiresAt, so that a wrong clock keeps none
// alive. The error is store.ErrNotFound without an account.
func (a *Account) EndLogins(at time.Time) error {
	if !a.Exists {
		return store.ErrNotFound
	}
	for _, k := range a.Keys {
		if k.Kind == token.Login && k.RevokedAt.IsZero() {
			k.RevokedAt = at
		}
	}
	return nil
}

// Counted returns the CountsAs of all keys, sorted.
func (a *Account) Counted() []string {
	var list []string
	for _, k := range a.Keys {
		list = append(list, k.CountsAs())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Grant returns what the token of a key grants, or what the account grants
// without a key. Handle, Version and Until are those of the engine.
func (a *Account) Grant(k *Key) store.Grant {
	g := store.Grant{Account: a.ID, Plan: a.Plan}
	if !a.Terms.IsZero() {
		terms := a.Terms.Clone()
		g.Terms = &terms
	}
	if k != nil {
		g.Key, g.KeyName, g.Abilities, g.Restriction = k.ID, k.Name, JoinAbilities(k.Abilities), k.Restriction()
	}
	return g
}

// JoinAbilities returns a set of abilities as store.Grant has it.
func JoinAbilities(abilities []string) string {
	sorted := slices.Clone(abilities)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), " ")
}

// keepsDeclared tells whether a change of a declared account leaves what the
// configuration file declares.
func (a *Account) keepsDeclared(before *Account) bool {
	if !a.Exists || !a.Declared || a.Plan != before.Plan || a.Label != before.Label || a.Disabled != before.Disabled || a.Billing.Day != before.Billing.Day || !a.PlanUntil.IsZero() {
		return false
	}
	return !slices.ContainsFunc(before.Keys, func(k *Key) bool { return k.Declared && !reflect.DeepEqual(k, a.Find(k.ID)) })
}

// Record adds an entry about the account to the log, in the same step as the
// change.
func (a *Account) Record(e store.Entry) {
	e.Account = a.ID
	for _, text := range []*string{&e.ActorID, &e.Target, &e.Reason} {
		*text = strings.ToValidUTF8(*text, "\uFFFD")
	}
	a.Log = append(a.Log, LogEntry{At: e.At, Value: encode(e)})
}

// endedRow is the key of the row of an imported key that is no longer in the
// document.
func endedRow(id string) string { return endedPrefix + id }

const endedPrefix = "ended "

// prune removes keys that ended long ago, and those that ended first if there
// are too many.
func (a *Account) prune(now time.Time) {
	ended := map[token.Kind][]*Key{}
	for _, k := range a.Keys {
		if !k.Live(now) {
			ended[k.Kind] = append(ended[k.Kind], k)
		}
	}
	removed := map[*Key]bool{}
	for kind, keys := range ended {
		most, age := store.MaxEndedKeys, store.RevokedFor
		if kind == token.Login {
			most, age = store.MaxEndedLogins, store.EndedLoginsFor
		}
		slices.SortStableFunc(keys, func(k, l *Key) int { return l.EndedAt().Compare(k.EndedAt()) })
		for i, k := range keys {
			if i >= most || now.Sub(k.EndedAt()) > age {
				removed[k] = true
			}
		}
	}
	if len(removed) == 0 {
		return
	}
	before := a.Counted()
	for _, k := range a.Keys {
		if until := k.EndedAt().Add(store.RevokedFor); removed[k] && now.Before(until) && k.ID == token.IDOf(a.ID, k.Hash) {
			a.Rows = append(a.Rows, Write{Row: Row{Key: endedRow(k.ID), Value: encode(true), Expires: until}})
		}
	}
	a.Keys = slices.DeleteFunc(a.Keys, func(k *Key) bool { return removed[k] })
	after := a.Counted()
	for _, key := range before {
		if _, kept := slices.BinarySearch(after, key); !kept {
			a.Retired = append(a.Retired, key)
		}
	}
}

// Clone returns a copy without Log, Rows and Retired. Changes of its keys do
// not change those of a.
func (a *Account) Clone() *Account {
	c := &Account{Account: a.Account, Exists: a.Exists, Keys: make([]*Key, len(a.Keys))}
	c.Terms = a.Terms.Clone()
	rows := make([]Key, len(a.Keys))
	for i, k := range a.Keys {
		rows[i] = *k
		c.Keys[i] = &rows[i]
	}
	return c
}
