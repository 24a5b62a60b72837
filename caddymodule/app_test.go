package caddymodule

import (
	"errors"
	"os"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestAppThatEnded opens no store: a late request to a configuration that
// never started would keep the store open forever.
func TestAppThatEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/gate"
	a := &App{opener: &BadgerStore{directory: dir}}
	if err := a.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Book(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("got %v, want store.ErrClosed", err)
	}
	if _, err := a.limiter(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want store.ErrUnavailable", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the store was opened (%v)", err)
	}
}
