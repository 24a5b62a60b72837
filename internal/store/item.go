package store

import (
	"errors"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Errors of a restore.
var (
	// ErrNotEmpty means that a store has data already.
	ErrNotEmpty = errors.New("store is not empty")

	// ErrInUse means that a gate uses the store.
	ErrInUse = errors.New("store is in use")
)

// StoredKey is a key with the hash of its token.
type StoredKey struct {
	Key
	Hash token.Hash `cbor:"11,keyasint" json:"hash"`
}

// StoredCount is a count of an account, or of one of its keys.
type StoredCount struct {
	Account string `json:"account"`
	// Key is the CountsAs of the key. It is empty for what the account used,
	// or one of Credited, Closed and ClosedCredited.
	Key string `json:"key,omitempty"`
	Count
}

// Counts of an account that no limit sees are kept like those of keys, under
// these names. No id of a key begins with a tilde.
const (
	// Credited is what was given back of an account's calls. The account's
	// calls are what it used and what is credited.
	Credited = "~credited"

	// OverageKey is how much of an account's calls was above soft limits when it
	// was made, less what was refunded.
	OverageKey = "~overage"

	// Closed, ClosedCredited and ClosedOverage are what closed accounts that had
	// the id before used, what they were credited, and their overage.
	Closed         = "~closed"
	ClosedCredited = "~closed-credited"
	ClosedOverage  = "~closed-overage"

	// CallsKey is the number of an account's calls, for limits of Calls. It goes
	// with the account.
	CallsKey = "~calls"
)

// OwnCounts are the Keys of the counts that bills are made of, in ascending order.
var OwnCounts = []string{"", Closed, ClosedCredited, ClosedOverage, Credited, OverageKey}

// AfterClosing returns the Key of what closed accounts have of a Key, and whether
// they have it. They have nothing of TotalDay.
func AfterClosing(key string) (closed string, kept bool) {
	switch key {
	case "":
		return Closed, true
	case Credited:
		return ClosedCredited, true
	case OverageKey:
		return ClosedOverage, true
	}
	return "", false
}

// Totals are numbers of the whole store.
type Totals struct {
	Accounts int
	// LiveKeys counts API keys and login tokens that are neither revoked nor
	// expired. It can be some minutes old.
	LiveKeys int
}
