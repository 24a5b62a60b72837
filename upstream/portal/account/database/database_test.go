package database_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest/postgrestest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
)

// both runs a test over an empty database of each kind. open may be
// called several times for the same database.
func both(t *testing.T, test func(t *testing.T, open func() *database.Store)) {
	t.Helper()
	run := func(t *testing.T, open func() (*database.Store, error)) {
		t.Parallel()
		test(t, func() *database.Store {
			store, err := open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			return store
		})
	}
	t.Run("SQLite", func(t *testing.T) {
		directory := t.TempDir()
		run(t, func() (*database.Store, error) { return database.OpenFile(t.Context(), directory) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		address := postgrestest.URL(t)
		run(t, func() (*database.Store, error) { return database.OpenURL(t.Context(), address) })
	})
}

var created = time.Date(2026, 11, 20, 9, 30, 0, 123_000_000, time.UTC)

func ada() account.Account {
	return account.Account{ID: "acc_ada", Email: "ada@example.com", CreatedAt: created, UpdatedAt: created}
}

func mustAdd(t *testing.T, store *database.Store, a account.Account) {
	t.Helper()
	if err := store.Add(t.Context(), a, "hash"); err != nil {
		t.Fatal(err)
	}
}

func TestAddFindRemove(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		store := open()
		mustAdd(t, store, ada())
		want := account.Credential{Identity: account.Identity{Account: ada(), Version: 1}, Hash: "hash"}

		other := open() // a second process over the same database
		for name, find := range map[string]func() (account.Credential, error){
			"by e-mail": func() (account.Credential, error) { return other.ByEmail(t.Context(), "ada@example.com") },
			"by id":     func() (account.Credential, error) { return other.ByID(t.Context(), "acc_ada") },
		} {
			got, err := find()
			if err != nil || got != want {
				t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
			}
		}
		if _, err := store.ByEmail(t.Context(), "bob@example.com"); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("unknown e-mail: got %v", err)
		}
		if _, err := store.ByID(t.Context(), "acc_ADA"); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("id of another case: got %v", err)
		}
		if err := store.Remove(t.Context(), "acc_ada"); err != nil {
			t.Fatal(err)
		}
		if err := other.Remove(t.Context(), "acc_ada"); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("removed twice: got %v, want ErrNotFound", err)
		}
		mustAdd(t, store, ada()) // the address is free again
	})
}

// Of many that add one address at once, through two processes, exactly
// one gets it.
func TestEmailIsUniqueInARace(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		stores := []*database.Store{open(), open()}
		var wait sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			wait.Go(func() {
				a := ada()
				a.ID = fmt.Sprintf("acc_%d", i)
				errs[i] = stores[i%2].Add(t.Context(), a, "hash")
			})
		}
		wait.Wait()
		var added int
		for _, err := range errs {
			switch {
			case err == nil:
				added++
			case !errors.Is(err, account.ErrEmailTaken):
				t.Error(err)
			}
		}
		if added != 1 {
			t.Errorf("%d were added, want 1", added)
		}
	})
}

// second is a change of ada's first password.
func second(hash string, at time.Time) account.Credential {
	a := account.Account{ID: "acc_ada", UpdatedAt: at}
	return account.Credential{Identity: account.Identity{Account: a, Version: 1}, Hash: hash}
}

func TestSetPassword(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		store := open()
		mustAdd(t, store, ada())
		later := created.Add(time.Hour)
		change := second("second", later)
		change.ChangesUntil = later.Add(time.Minute)
		if err := store.SetPassword(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		who := account.Identity{Account: ada(), Version: 2, ChangesUntil: change.ChangesUntil}
		want := account.Credential{Identity: who, Hash: "second", LoginsEnd: 2}
		want.UpdatedAt = later
		if got, err := store.ByID(t.Context(), "acc_ada"); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		for _, id := range []string{"acc_ada", "acc_bob"} {
			change.ID, change.Hash = id, "x"
			if err := store.SetPassword(t.Context(), change); !errors.Is(err, account.ErrOvertaken) {
				t.Errorf("%s, whose version is not 1: got %v", id, err)
			}
		}
		if got, err := store.ByID(t.Context(), "acc_ada"); err != nil || got != want {
			t.Errorf("after a change that came too late: got %+v, %v; want %+v", got, err, want)
		}
	})
}

// That login tokens are to end is known to every process, until the gate
// has ended those of the last change.
func TestLoginsToEnd(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		store, other := open(), open()
		mustAdd(t, store, ada())
		mustAdd(t, store, account.Account{ID: "acc_bob", Email: "bob@example.com", CreatedAt: created, UpdatedAt: created})
		want := func(want ...string) {
			t.Helper()
			got, err := other.LoginsToEnd(t.Context(), "", 10)
			if err != nil || !slices.EqualFunc(got, want, func(c account.Credential, id string) bool { return c.ID == id }) {
				t.Errorf("got %v, %v; want %v", got, err, want)
			}
		}
		want()
		for version := range int64(2) {
			change := second("next", created)
			change.Version = version + 1
			if err := store.SetPassword(t.Context(), change); err != nil {
				t.Fatal(err)
			}
		}
		want("acc_ada")
		ended := func(version int64) {
			t.Helper()
			if err := store.LoginsEnded(t.Context(), "acc_ada", version); err != nil {
				t.Fatal(err)
			}
		}
		ended(2) // by then there was another change
		want("acc_ada")
		ended(3)
		want()
	})
}

// A hash that is renewed must not undo a change of the password that
// happened meanwhile.
func TestRehash(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		store := open()
		mustAdd(t, store, ada())
		hash := func() string {
			c, err := store.ByID(t.Context(), "acc_ada")
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%s v%d", c.Hash, c.Version)
		}
		if err := store.Rehash(t.Context(), "acc_ada", 1, "dearer"); err != nil {
			t.Fatal(err)
		}
		if got, want := hash(), "dearer v1"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := store.SetPassword(t.Context(), second("second", created)); err != nil {
			t.Fatal(err)
		}
		if err := store.Rehash(t.Context(), "acc_ada", 1, "stale"); err != nil {
			t.Fatal(err)
		}
		if got, want := hash(), "second v2"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Processes that start at once over an empty database all come up.
func TestOpenInARace(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		directory := filepath.Join(t.TempDir(), "made", "on the way", "50%?#")
		openInARace(t, func() (*database.Store, error) { return database.OpenFile(t.Context(), directory) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		address := postgrestest.URL(t)
		openInARace(t, func() (*database.Store, error) { return database.OpenURL(t.Context(), address) })
	})
}

func openInARace(t *testing.T, open func() (*database.Store, error)) {
	t.Helper()
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			store, err := open()
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(store.Ping(t.Context()), store.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// Threat: another user of the machine reads e-mail addresses and hashes
// from the database, its log or its directory, whatever the umask was.
func TestFilesAreForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	directory := filepath.Join(t.TempDir(), "upstream")
	store, err := database.OpenFile(t.Context(), directory)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mustAdd(t, store, ada())
	seen := 0
	err = filepath.WalkDir(directory, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		seen++
		return err
	})
	if err != nil || seen < 4 { // the directory, the database, its log and index
		t.Errorf("saw %d files, %v", seen, err)
	}
}

// Threat: a mistyped URL ends in a log with the password in it.
func TestOpenURLKeepsThePassword(t *testing.T) {
	t.Parallel()
	secret := "hunter2secret"
	closed := url.URL{Scheme: "postgres", User: url.UserPassword("u", secret), Host: "127.0.0.1:1", Path: "/x"}
	for name, address := range map[string]string{
		"another scheme": "mysql://u:" + secret + "@localhost/x",
		"bad port":       "postgres://u:" + secret + "@localhost:port/x",
		"bad option":     "postgres://u:" + secret + "@localhost/x?sslmode=" + secret,
		"a password with a slash and a percent sign": "postgres://u:%" + secret + "/@localhost/x",
		"connection refused":                         closed.String(),
	} {
		_, err := database.OpenURL(t.Context(), address)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
