// Package accounttest has the parts of an account.Service for tests: a real
// database and a hasher that costs little.
package accounttest

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
)

// Cost is the lowest cost of argon2id.
var Cost = account.Cost{MemoryKiB: 8, Passes: 1, Lanes: 1}

// Hasher returns a hasher with the lowest cost.
func Hasher() *account.Hasher { return account.NewHasher(Cost, 4) }

// Open returns an empty database. It is closed at the end of the test.
func Open(t testing.TB) *database.Store {
	t.Helper()
	store, err := database.OpenFile(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
