package memstore_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/memstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New() })
}
