package badgerstore_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, t.TempDir()) })
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	storetest.RunEmbedded(t, func(t *testing.T) (storetest.Embedded, func() storetest.Embedded) {
		dir := t.TempDir()
		s := open(t, dir)
		return s, func() storetest.Embedded {
			if err := s.Close(); err != nil {
				t.Fatalf("closing the store: %v", err)
			}
			s = open(t, dir)
			return s
		}
	})
}
