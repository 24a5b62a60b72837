package badgerstore_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// TestCheckOnFullDisk: the check fails while calls are refused, and succeeds
// again when calls do.
func TestCheckOnFullDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.NewSmallDisk(t)
	s, err := badgerstore.Open(filepath.Join(disk.Dir, "gate"), badgerstore.Options{Reserve: 32 * mebibyte})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}()
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("with space: %v", err)
	}
	empty := disk.Fill(t, mebibyte)
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without space: got %v", err)
	}
	empty()
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("with space again: %v", err)
	}
}
