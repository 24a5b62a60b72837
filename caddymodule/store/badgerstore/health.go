package badgerstore

import (
	"context"
	"fmt"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Check implements store.Health.
func (s *Store) Check(context.Context) error {
	select {
	case <-s.stop:
		return store.ErrClosed
	default:
	}
	err := s.archive.failed()
	if err == nil {
		err = s.disk.check()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil
}
