package login

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
)

// Journal keeps the cells of a Memory over restarts.
type Journal interface {
	// Save writes the rows, replacing older ones of the same key. It
	// returns when the rows survive the end of the process. Keys are
	// unique within a call. Memory calls Save from one goroutine at a time,
	// with a context that is never done: Save limits its own time. After
	// an error, any of the rows may have been written.
	Save(ctx context.Context, rows []Row) error

	// LoadAttempts calls fn with each row that has not expired, in any
	// order, until fn returns an error, and returns that error. Key and
	// value are valid during the call only.
	LoadAttempts(ctx context.Context, fn func(key, value []byte) error) error
}

// Row is a row of a Journal.
type Row struct {
	// Key is 17 bytes long.
	Key []byte
	// Value is nil if the row is to be deleted.
	Value []byte
	// ExpiresAt is when the journal can delete the row. It is zero if
	// Value is nil.
	ExpiresAt time.Time
}

// saved returns a cell for the journal: its class, its size (4 bytes), its expiry
// and its value.
func (r *rows) saved(key CellKey) Row {
	saved := Row{Key: append([]byte{byte(key.Kind)}, key.ID[:]...)}
	if one := r.row(key); one != nil {
		saved.Value = binary.LittleEndian.AppendUint32([]byte{byte(one.class)}, uint32(one.size))
		saved.Value = binary.LittleEndian.AppendUint64(saved.Value, uint64(one.expires))
		saved.Value = append(saved.Value, one.value...)
		saved.ExpiresAt = time.Unix(0, one.expires).UTC()
	}
	return saved
}

// decodeRow reads a row of the journal. It validates everything that the rest
// of the package relies on.
func decodeRow(key, value []byte) (row, error) {
	r := reader{rest: value}
	one := row{class: Class(r.next(1)[0]), size: int(binary.LittleEndian.Uint32(r.next(4))), expires: r.instant(0)}
	one.value = append(one.value, r.rest...)
	if len(key) != 1+len(one.key.ID) || r.bad || len(r.rest) == 0 || one.class >= classes || one.size > maxCell {
		return row{}, fmt.Errorf("%w: invalid row of %d and %d bytes", ErrCorrupt, len(key), len(value))
	}
	one.key = CellKey{CellKind(key[0]), [16]byte(key[1:])}
	var err error
	switch cell := (Cell{Value: one.value}); one.key.Kind {
	case ClientCell:
		_, err = newClientState(Limits{}, cell)
	case AccountCell:
		_, err = newAccountState(Limits{}, fingerprint{}, cell)
	case AddressCell:
		_, err = newAddressState(cell, &AddressCall{})
	default:
		err = fmt.Errorf("%w: unknown kind of cell %q", ErrCorrupt, key[:1])
	}
	return one, err
}
