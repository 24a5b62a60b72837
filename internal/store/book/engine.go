// Package book has the rules about accounts, keys, refused calls, events,
// recent calls and the audit log, once for all stores.
//
// A Book keeps what it knows in an Engine. An engine keeps one document for
// each account, counts, rows and a log, and knows no rules. A change of a
// document is one atomic step, and the entries of the log that describe it are
// a part of the step.
//
// The way of a call uses the engine alone: one Grant and one Take.
package book

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// ErrConflict means that a row is not as a Write expects it. Nothing was
// written.
var ErrConflict = errors.New("a row was changed at the same time")

// Engine keeps documents, counts and rows. All methods are safe for concurrent
// use. The end of a context may end a wait for a network, but it undoes
// nothing. An engine on a local disk may ignore the context. An engine that
// several gates share also has store.Clock. Package storetest tests the
// promises of engines.
type Engine interface {
	store.Grants
	store.Counter
	store.Health

	// Counts returns the counts above zero of the days from first to last,
	// both included, in no particular order: those of the account, or with a
	// key, the CountsAs of one of its keys or store.Credited, those of the key.
	Counts(ctx context.Context, account, key string, first, last calendar.Day) ([]store.Count, error)

	// CountsOfAccounts returns the counts above zero of some accounts, on
	// the days from first to last, both included, in no order: those of
	// store.OwnCounts, but none of keys. An account that was deleted has its
	// counts. The ids are in ascending order. All counts of these accounts
	// and days are in memory at once.
	CountsOfAccounts(ctx context.Context, accounts []string, first, last calendar.Day) ([]store.StoredCount, error)

	// Credit raises what is credited of an endpoint on a day to a total, in one
	// atomic step: the sum of the counters of store.Credited and
	// store.ClosedCredited grows to the total, but by at most what the account,
	// and then the closed ones, have used. The counter of the account falls by
	// what store.Credited grows, and so do those of keys, which are given by
	// their CountsAs, none below zero. That of store.Closed falls by what
	// store.ClosedCredited grows. What is credited already is not credited again, so that a credit
	// can be repeated. Paces do not change. The account may be deleted. When
	// Credit returns, it is durable.
	Credit(ctx context.Context, account string, keys []string, day calendar.Day, endpoint string, total int64) error

	// Change changes up to store.MaxBatch documents, each in one atomic
	// step, and returns an error or nil for each. The ids are distinct. It
	// calls edit with a copy of the document, or with an empty one whose
	// Exists is false. An error of edit aborts the step of that document and
	// is returned as it is. edit is called again after a conflict with
	// another writer, by one goroutine at a time, and must not use the engine.
	//
	// A step is what NewStep makes of the document, with Log and Rows of the
	// account: all of it is written, or nothing. A document that edit leaves
	// as it is, is still made durable, so that a change that failed can be
	// repeated. A step without Exists deletes the document with its tokens,
	// the counts of its keys and its rows, apart from those whose key begins
	// with KeptPrefix. It writes Log and Rows, which have such keys, also if
	// there was no document. The counts of the account stay, with
	// those of store.Credited. A step that creates a document moves them to
	// store.Closed and store.ClosedCredited, and adds them to what is there:
	// the new account has used nothing. When Change returns, the step is
	// durable and the next Grant knows it.
	//
	// A token is a live key of one account: the error is store.ErrTokenTaken
	// if a token that the step claims is a key of another account that is
	// live at a time, also if that account is disabled. Of concurrent steps
	// of several accounts, at most one gets a token. Once the key of the
	// other account has ended, the token belongs to the new key, and no
	// later change of the old key or its account affects it. A key with a
	// token that another account can have, which is an imported one, is only
	// created in an account that existed before the step.
	//
	// The counts of keys in Retired are deleted in the step or soon after.
	// The error is ErrConflict if a row is not as Rows expects it.
	Change(ctx context.Context, at time.Time, ids []string, edit func(i int, a *Account) error) []error

	// Get returns a document, or store.ErrNotFound. It is not from a cache.
	Get(ctx context.Context, id string) (*Account, error)

	// List returns up to limit documents whose id is greater than after, in
	// ascending order of their ids. Without keys, the Keys are not set.
	List(ctx context.Context, after string, limit int, keys bool) ([]*Account, error)

	// Holder returns the account that a token may belong to, or
	// store.ErrNotFound. The document tells whether it does.
	Holder(ctx context.Context, hash token.Hash) (account string, err error)

	// HolderOfKey returns the account that a key with an id may belong to,
	// or store.ErrNotFound. It may read all documents.
	HolderOfKey(ctx context.Context, id string) (account string, err error)

	// Totals returns numbers of the whole store. It is fast.
	Totals(ctx context.Context) (store.Totals, error)

	// GetRows returns one row for each key, with a nil Value for one that
	// does not exist.
	GetRows(ctx context.Context, of Space, keys ...string) ([]Row, error)

	// Scan returns the rows of ranges in ascending order of their keys, by
	// bytes: a list for each range, and up to limit rows in all. The first
	// ranges come first.
	Scan(ctx context.Context, limit int, ranges ...Range) ([][]Row, error)

	// Commit makes the writes of each batch in their order: all or none. They
	// survive the end of the process. It returns an error or nil for each
	// batch: ErrConflict if a row before the batch is not as a Check expects
	// it. The batches are of different accounts and names. A batch of an
	// account that does not exist, or that was deleted after the Handle, does
	// nothing.
	Commit(ctx context.Context, batches ...Batch) []error

	// Entries returns up to limit entries of the log between two positions,
	// neither included, backwards if reverse is set. A zero before is behind
	// all entries. No entry appears before one that was returned.
	Entries(ctx context.Context, after, before store.EntryID, reverse bool, limit int) ([]LogEntry, error)

	// Dump calls write with all that the engine keeps: the documents, counts
	// and rows of accounts, the rows of the other spaces, and the log. A
	// document comes before the rest of its account, and all of one account
	// is of one instant, which is not before the call of Dump. Paces and login
	// attempts are not dumped. An error of write ends Dump and is returned.
	Dump(ctx context.Context, spaces []Space, write func(Piece) error) error
}

// Space is a set of rows that are written together: those of an account, or
// those with a name.
type Space struct {
	Account string
	Name    string
	// Handle makes a Commit do nothing if the account was deleted after it.
	// Zero is any.
	Handle store.Handle
}

// KeptPrefix begins the keys of the rows that stay when their account is deleted.
const KeptPrefix = "~"

// Row is a row of a space.
type Row struct {
	Key   string // without characters below a space, except NUL
	Value []byte
	// Expires is when the row is deleted, zero for never. A row with a time
	// in the past does not exist. An engine may keep it in whole seconds.
	Expires time.Time
}

// Write writes a row, or deletes it if Value is nil.
type Write struct {
	Row
	// Check makes the step fail with ErrConflict unless the value is Old.
	// Nil is no row.
	Check bool
	Old   []byte
}

// Batch is writes to one space.
type Batch struct {
	Space
	Writes []Write

	// Lossy says that a loss of power may take the batch away, also when later ones
	// are there: an engine need not write it twice.
	Lossy bool
}

// Range is the rows of a space whose keys are not before From and before To,
// all behind From if To is empty.
type Range struct {
	Space
	From, To string
}

// LogEntry is an entry of the log. Engines delete entries that are older than
// store.ReportsFor days.
type LogEntry struct {
	// ID is the position. The engine sets it as store.EntryID.Next does, by
	// At, or by the time of the change if that is later.
	ID    store.EntryID
	At    time.Time
	Value []byte
}

// Piece is a part of what an engine keeps. Exactly one of Document, Count, Row
// and Entry is set.
type Piece struct {
	Document *Account
	Count    *store.StoredCount
	Row      *Row
	Space    Space // of Row
	Entry    *LogEntry
}
