package app_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/app"
)

// An App deletes expired reset links.
func TestExpiredResetLinksAreDeleted(t *testing.T) {
	t.Parallel()
	options := newOptions(t, gatetest.Start(t), nil)
	addAccount(t, options, "ada@example.com")
	store, err := options.OpenDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	ada, err := store.ByEmail(t.Context(), "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour) // when the link was live
	if err := store.SetReset(t.Context(), ada.ID, "expired", long.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ByReset(t.Context(), "expired", long); err != nil {
		t.Fatal(err)
	}
	a, err := app.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := store.ByReset(ctx, "expired", long)
		if errors.Is(err, account.ErrNotFound) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
