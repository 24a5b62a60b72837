package book

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// leaseSpace has the rows of leases. The key is what they are for, and the value
// the holder. No backup has them.
var leaseSpace = Space{Name: "leases"}

// Lease makes a holder the one of all gates that does something, for a time or
// until Release, unless another one is. A store that gates cannot share has no
// leases: each is held.
func (b *Book) Lease(ctx context.Context, what, holder string, length time.Duration) (held bool, err error) {
	if _, shared := b.Engine.(store.Clock); !shared {
		return true, nil
	}
	rows, err := b.GetRows(ctx, leaseSpace, what)
	if err != nil {
		return false, err
	}
	var other string
	if rows[0].Value != nil {
		if err := DecodeRow(rows[0], &other); err != nil || other != holder {
			return false, err
		}
	}
	row := Row{Key: what, Value: encode(holder), Expires: b.now().Add(length)}
	err = commitOne(ctx, b.Engine, leaseSpace, []Write{{Row: row, Check: true, Old: rows[0].Value}})
	if errors.Is(err, ErrConflict) { // another gate was faster
		return false, nil
	}
	return err == nil, err
}

// Release lets other gates have a lease, if the holder has it.
func (b *Book) Release(ctx context.Context, what, holder string) error {
	err := commitOne(ctx, b.Engine, leaseSpace, []Write{{Row: Row{Key: what}, Check: true, Old: encode(holder)}})
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}
