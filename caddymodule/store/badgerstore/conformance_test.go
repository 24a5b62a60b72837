package badgerstore_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) (storetest.Store, func() storetest.Store) {
		dir := t.TempDir()
		s := open(t, dir)
		return s, func() storetest.Store {
			if err := s.Close(); err != nil {
				t.Fatalf("closing the store: %v", err)
			}
			s = open(t, dir)
			return s
		}
	})
}
