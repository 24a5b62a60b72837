package badgerstore

import (
	"errors"
	"iter"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// restoreBytes is about how large the rows are that a restore writes at once:
// about as large as a transaction of Badger.
const restoreBytes = 1 << 20

// Restore writes the pieces of a dump to a directory that is missing or empty,
// or to a store without data. The error is store.ErrNotEmpty if there is data,
// and ErrInUse if another process has the directory open.
//
// Open refuses the directory until Restore has finished, also after an error.
// Then delete it and restore again.
func Restore(dir string, o Options, pieces iter.Seq2[book.Piece, error]) error {
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	return errors.Join(s.archive.restore(pieces), s.Close())
}

// restore writes the pieces between two changes of the row that makes Open
// refuse the directory. None is in the log: a restore that is interrupted begins
// again.
func (a *archive) restore(pieces iter.Seq2[book.Piece, error]) error {
	err := a.scan(nil, func(key, _ []byte) error {
		if key[0] != prefixMeta && key[0] != prefixAttempt {
			return store.ErrNotEmpty
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := a.write(kept, change{key: restoringKey, value: []byte{1}}); err != nil {
		return err
	}
	var rows []change
	size, now := 0, time.Now()
	known := map[string]bool{} // accounts with a document, or with the row of a deleted one
	for piece, err := range pieces {
		if err != nil {
			return err
		}
		more, err := pieceChanges(piece)
		if err != nil {
			return err
		}
		if piece.Document != nil {
			known[piece.Document.ID] = true
		}
		if c := piece.Count; c != nil && !known[c.Account] {
			known[c.Account] = true
			more = append(more, deletedRow(c.Account, nil))
		}
		for _, row := range more {
			if row.value != nil && (row.expires.IsZero() || now.Before(row.expires)) {
				rows = append(rows, row)
				size += len(row.key) + len(row.value)
			}
		}
		if size >= restoreBytes {
			if err := a.write(kept, rows...); err != nil {
				return err
			}
			clear(rows)
			rows, size = rows[:0], 0
		}
	}
	if err := a.write(kept, rows...); err != nil {
		return err
	}
	return a.write(kept, change{key: restoringKey})
}

// pieceChanges returns the rows of a piece.
func pieceChanges(p book.Piece) ([]change, error) {
	switch {
	case p.Document != nil:
		id, parts := p.Document.ID, p.Document.Encode()
		return []change{
			{key: partKey(prefixAccount, id), value: parts.Account},
			{key: partKey(prefixKeys, id), value: parts.Keys}, {key: partKey(prefixLogins, id), value: parts.Logins},
		}, nil
	case p.Count != nil:
		c := p.Count
		key := appendCountKey(nil, c.Day, ledger.Holder(c.Account, c.Key), c.Endpoint)
		return []change{countRow(key, uint64(max(0, c.Used)))}, nil
	case p.Row != nil:
		return []change{{key: rowKey(p.Space, p.Row.Key), value: p.Row.Value, expires: p.Row.Expires}}, nil
	case p.Entry != nil:
		row := entryChange(p.Entry)
		row.joined = false
		return []change{row}, nil
	}
	return nil, errors.New("a piece of the dump is empty")
}
