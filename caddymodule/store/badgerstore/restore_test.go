package badgerstore

import (
	"iter"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// directory is a storetest.Place.
type directory struct {
	path   string
	opened *Store
}

func (d *directory) Open(t *testing.T) store.Store {
	t.Helper()
	d.opened = openHere(t, d.path, Options{})
	return d.opened
}

func (d *directory) Close(t *testing.T) {
	t.Helper()
	if err := d.opened.Close(); err != nil {
		t.Fatal(err)
	}
}

func (d *directory) Restore(items iter.Seq2[store.Item, error]) error {
	return Restore(d.path, Options{Reserve: 1 << 20}, items)
}

func TestRestore(t *testing.T) {
	t.Parallel()
	storetest.RunRestore(t, func(t *testing.T) storetest.Place { return &directory{path: t.TempDir()} })
}
