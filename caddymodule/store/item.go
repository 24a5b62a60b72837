package store

import (
	"context"
	"errors"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Errors of a restore.
var (
	// ErrNotEmpty means that a store has data already.
	ErrNotEmpty = errors.New("store is not empty")

	// ErrInUse means that a gate uses the store.
	ErrInUse = errors.New("store is in use")
)

// Item is one part of what a store keeps. Exactly one field is set.
type Item struct {
	Account *Account
	Key     *StoredKey
	Count   *StoredCount
	// Call is a recent call.
	Call    *Record
	Refused *Refused
	Entry   *Entry
	// Event is a queued event, or with Queued false an event whose ID is
	// known.
	Event *Event
}

// StoredKey is a key with the hash of its token.
type StoredKey struct {
	Key
	Hash token.Hash
}

// StoredCount is a count of an account, or of one of its keys.
type StoredCount struct {
	Account string
	// Key is the CountsAs of the key, or empty for the account.
	Key string
	Count
}

// AccountCount is a count of an account.
type AccountCount struct {
	Account string
	Count
}

// Exporter copies what a store keeps.
type Exporter interface {
	// Export calls write with all items. An account comes before all that
	// belongs to it. The items of one account are of one instant, which is
	// not before the call of Export: every call that was admitted before it
	// is in the counts. Paces and login attempts are not exported. An error
	// of write ends the export and is returned.
	//
	// Package backup stores the items. A store has a function Restore that
	// writes them to a new store.
	Export(ctx context.Context, write func(Item) error) error
}

// Totals are numbers of the whole store.
type Totals struct {
	Accounts int
	// LiveKeys counts API keys and login tokens that are neither revoked nor
	// expired. It can be some minutes old.
	LiveKeys int
}

// Overview answers questions about all accounts, for operators. Its methods
// may read all of the store, except Totals.
type Overview interface {
	// CountsOfAccounts returns the counts above zero of some accounts, on
	// the days from first to last, both included, in no order. It has no
	// counts of keys. The ids are in ascending order, as ListAccounts lists
	// them. All counts of these accounts and days are in memory at once.
	CountsOfAccounts(ctx context.Context, accounts []string, first, last calendar.Day) ([]AccountCount, error)

	// FindKey returns the key with an id, of any account, or ErrNotFound.
	FindKey(ctx context.Context, id string) (Key, error)

	// Totals returns numbers of the whole store. It is fast.
	Totals(ctx context.Context) (Totals, error)
}
