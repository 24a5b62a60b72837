package memstore_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/memstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) book.Engine { return memstore.New() })
}
