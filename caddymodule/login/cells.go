package login

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// Cells is a memory that several gates share, such as a Redis server. A cell
// has at most 3.5 KiB with the default Limits, and 42 KiB with the largest.
// Cells are safe for concurrent use. Their methods return soon after ctx is
// done.
type Cells interface {
	// Read returns a cell.
	Read(ctx context.Context, key CellKey) (Cell, error)

	// Swap replaces the value of a cell in one atomic step, if the value is
	// change.Old and the time is not after change.Until. It returns the cell
	// as it is then, and whether it was replaced. After an error the cell
	// may have been replaced. Swap never sends a change again when it does
	// not know whether the change was executed.
	Swap(ctx context.Context, key CellKey, change Change) (cell Cell, swapped bool, err error)
}

// CellKind says what a cell is about.
type CellKind uint8

// The kinds of cells.
const (
	// ClientCell has the attempts of a client.
	ClientCell CellKind = iota
	// AccountCell has the failures and the known clients of all spellings
	// of an e-mail that count together.
	AccountCell
)

// CellKey names a cell.
type CellKey struct {
	Kind CellKind
	// ID is a hash of the client's address or of the e-mail: 22 letters,
	// digits, "-" and "_".
	ID string
}

// Cell is the state of a cell at one instant.
type Cell struct {
	Value []byte // empty if there is none
	// Now is the time of the server that has the cell. Times of one cell
	// are comparable, those of different cells may come from different
	// servers.
	Now time.Time
}

// Change replaces the value of a cell.
type Change struct {
	Old, New []byte // an empty one means that there is no value
	// Until is the server's time after which the change must not be made.
	Until time.Time
	// Expires is the server's time from which the cell may be deleted.
	Expires time.Time
}

// cellKey names a cell by a hash, so that a list of keys shows no address and
// no e-mail. This is no protection: a guess can be hashed and compared.
func (c Client) cellKey() CellKey {
	sum := sha256.Sum256(c[:])
	return CellKey{ClientCell, base64.RawURLEncoding.EncodeToString(sum[:len(hash{})])}
}

func (a Account) cellKey() CellKey {
	return CellKey{AccountCell, base64.RawURLEncoding.EncodeToString(a.group[:])}
}
