package login

import (
	"context"
	"crypto/sha256"
	"time"
)

// Cells is a memory: that of one process (Memory), or one that several gates
// share, such as a Redis server. A cell has at most 3.5 KiB with the default
// Limits, and 42 KiB with the largest. Cells are safe for concurrent use. Read
// and Swap return soon after ctx is done.
type Cells interface {
	// Read returns cells, in the order of the keys.
	Read(ctx context.Context, keys ...CellKey) ([]Cell, error)

	// Swap replaces the value of a cell in one atomic step, if it is still
	// that of old and the time is not after old.Until. It returns the cell
	// as it is then, and whether it was replaced. After an error the cell
	// may have been replaced. Swap never sends a change again when it does
	// not know whether the change was executed.
	Swap(ctx context.Context, key CellKey, old Cell, change Change) (cell Cell, swapped bool, err error)

	// Save returns when the cells, as they are now or newer, survive the end
	// of the process. A memory that outlives the process has nothing to do.
	Save(ctx context.Context, keys ...CellKey) error
}

// CellKind says what a cell is about.
type CellKind byte

// The kinds of cells.
const (
	// ClientCell has the attempts of a client.
	ClientCell CellKind = 'c'
	// AccountCell has the failures and the known clients of all spellings
	// of an e-mail that count together.
	AccountCell CellKind = 'e'
	// AddressCell has what the calls of a client without an account have used.
	AddressCell CellKind = 'a'
)

// CellKey names a cell.
type CellKey struct {
	Kind CellKind
	// ID is a hash of the client's address or of the e-mail, so that a list
	// of keys shows neither. This is no protection: a guess can be hashed and
	// compared.
	ID [16]byte
}

func (c Client) cellKey() CellKey {
	sum := sha256.Sum256(c[:])
	return CellKey{ClientCell, [16]byte(sum[:])}
}

func (a Account) cellKey() CellKey { return CellKey{AccountCell, a.group} }

// Cell is the state of a cell at one instant.
type Cell struct {
	Value []byte // empty if there is none; never changed
	// Now is the time of the server that has the cell. Times of one cell
	// are comparable, those of different cells may come from different
	// servers.
	Now time.Time
	// Until is the time of that server at the deadline of the request, or
	// earlier. Only a memory outside of the process needs it.
	Until time.Time
}

// Change replaces the value of a cell.
type Change struct {
	Value   []byte    // an empty one deletes the cell; never changed
	Expires time.Time // from which the cell may be deleted, by the clock of the server
	Class   Class
	// Size is how large failures can make the value of a KnownClass, in
	// bytes. A memory keeps so much room for it.
	Size int
}

// Class says with which cells a cell shares the memory of a process. When that is
// full, the cell of the class that was unchanged for longest is evicted.
type Class byte

// The classes of cells.
const (
	ClientClass  Class = iota // a client
	FreeClass                 // an account that has free failures left
	WaitingClass              // an account that must wait after a failure
	KnownClass                // an account with known clients
	AddressClass              // the calls of a client without an account
	classes
)
