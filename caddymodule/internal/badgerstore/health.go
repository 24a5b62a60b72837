package badgerstore

import (
	"context"
	"fmt"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Check implements store.Health. It writes to the log as an admitted call does,
// and syncs it.
func (s *Store) Check(context.Context) error {
	return s.ledger.Use(func() error {
		if err := s.journal.check(); err != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		return nil
	})
}
