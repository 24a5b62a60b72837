package badgerstore

import (
	"fmt"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// disk watches the space of a directory's file system.
type disk struct {
	dir     string
	reserve uint64
}

// check refuses when less than the reserve is free. It is one system
// call, cheap beside the write that it precedes.
func (d *disk) check() error {
	free, err := freeSpace(d.dir)
	if err != nil {
		return fmt.Errorf("%w: asking for free space: %w", store.ErrUnavailable, err)
	}
	if free < d.reserve {
		return fmt.Errorf("%w: %d MiB are free on the disk of %s, below the reserve of %d MiB",
			store.ErrUnavailable, free>>20, d.dir, d.reserve>>20)
	}
	return nil
}
