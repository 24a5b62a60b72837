package badgerstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

const mebibyte = 1 << 20

// TestDiskFull: a disk below its reserve costs a 503 per call, not the
// process, which Badger would take down with a SIGBUS, and it recovers by
// itself.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	disk := storetest.NewSmallDisk(t)
	dir := filepath.Join(disk.Dir, "gate")
	reopen := func() (badgerstore.TestStore, error) { return badgerstore.OpenTest(dir, badgerstore.Options{}) }
	s, err := reopen()
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	call := store.Call{Account: "acc_1", Endpoint: "convert", Day: today}
	used := int64(0)
	take := func(want bool) {
		t.Helper()
		got, admitted, err := badgerstore.TakeDaily(s.Store, call, store.Unlimited)
		if want {
			used++
		}
		if err := s.Check(t.Context()); errors.Is(err, store.ErrUnavailable) == want {
			t.Fatalf("check: got %v, want calls admitted %v", err, want)
		}
		if admitted != want || (want && got != used) || (!want && !errors.Is(err, store.ErrUnavailable)) {
			t.Fatalf("take: got %d, %v, %v, want admitted %v", got, admitted, err, want)
		}
	}
	// A call can find a disk that is full since the store looked at it. Then the
	// log needs a moment to begin again.
	fill := func(leave uint64) func() {
		t.Helper()
		empty := disk.Fill(t, leave)
		for _, admitted, _ := badgerstore.TakeDaily(s.Store, call, store.Unlimited); admitted; _, admitted, _ = badgerstore.TakeDaily(s.Store, call, store.Unlimited) {
			used++
		}
		return func() {
			empty()
			for end := time.Now().Add(time.Minute); s.Check(t.Context()) != nil && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	account := store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}
	if _, err := storetest.PutAccount(t.Context(), s.Book, account); err != nil {
		t.Fatalf("creating the account: %v", err)
	}
	take(true)
	for _, leave := range []uint64{badgerstore.DefaultReserve - mebibyte, mebibyte, 0} {
		empty := fill(leave)
		for range 20 {
			take(false)
		}
		if _, err := storetest.PutAccount(t.Context(), s.Book, account); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("changing an account with %d bytes free: %v", leave, err)
		}
		if got, err := s.Account(t.Context(), "acc_1"); err != nil || !reflect.DeepEqual(got, account) {
			t.Errorf("reading an account with %d bytes free: %+v, %v", leave, got, err)
		}
		empty()
		take(true)
	}

	// A disk that is too full even to close or to open.
	empty := disk.Fill(t, mebibyte)
	if err := s.Close(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("closing on a full disk: got %v", err)
	}
	empty()
	if err := s.Close(); err != nil {
		t.Fatalf("closing again: %v", err)
	}
	empty = disk.Fill(t, badgerstore.DefaultReserve/4-mebibyte)
	if _, err := reopen(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("opening on a full disk: got %v", err)
	}
	empty()

	// Below the reserve it opens, answers what it knows and admits nobody.
	empty = disk.Fill(t, badgerstore.DefaultReserve/2)
	if s, err = reopen(); err != nil {
		t.Fatalf("opening below the reserve: %v", err)
	}
	take(false)
	if got, err := s.Account(t.Context(), "acc_1"); err != nil || !reflect.DeepEqual(got, account) {
		t.Errorf("reading an account: %+v, %v", got, err)
	}
	empty()
	take(true)
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
}

// TestDiskFillsDuringChanges: while accounts change, the disk is full again and
// again. Each change is refused, or it is there with its key, its row and its
// entry of the audit log.
func TestDiskFillsDuringChanges(t *testing.T) {
	t.Parallel()
	disk := storetest.NewSmallDisk(t)
	dir := filepath.Join(disk.Dir, "gate")
	s, err := badgerstore.OpenTest(dir, badgerstore.Options{})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	c := &changed{}
	var refused, made [changeCallers]atomic.Int64
	var done atomic.Bool
	var callers sync.WaitGroup
	for caller := range changeCallers {
		callers.Go(func() {
			for !done.Load() {
				number, err := changeNext(t.Context(), s, changedAccount(caller))
				switch {
				case err == nil:
					c.acknowledged[caller] = number
					made[caller].Add(1)
				case errors.Is(err, store.ErrUnavailable):
					refused[caller].Add(1)
				default:
					t.Errorf("changing an account: %v", err)
					return
				}
			}
		})
	}
	await := func(counts *[changeCallers]atomic.Int64) {
		for caller := range counts {
			for least := counts[caller].Load() + 3; counts[caller].Load() < least && !t.Failed(); time.Sleep(time.Millisecond) {
			}
		}
	}
	for _, leave := range []uint64{badgerstore.DefaultReserve - mebibyte, mebibyte, 0} {
		await(&made)
		// A change that is being written needs the reserve: a disk does not lose
		// all of it at once.
		disk.Fill(t, badgerstore.DefaultReserve-mebibyte)
		await(&refused)
		empty := disk.Fill(t, leave)
		await(&refused)
		empty()
	}
	await(&made)
	done.Store(true)
	callers.Wait()
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
	if s, err = badgerstore.OpenTest(dir, badgerstore.Options{}); err != nil {
		t.Fatalf("opening again: %v", err)
	}
	c.check(t, s)
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
}

// asUser runs fn as a user who is not root, whether or not this is root.
func asUser(t *testing.T, fn func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		var err error
		if os.Geteuid() == 0 {
			err = unix.Setfsuid(65534)
		}
		if err == nil {
			fn()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("changing the user: %v", err)
	}
}

// TestDirectory opens places where no store can be. The directory of a store is
// private, whatever its mode was.
func TestDirectory(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	file := filepath.Join(parent, "file")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly, foreign := filepath.Join(parent, "readonly"), filepath.Join(parent, "foreign")
	for dir, mode := range map[string]os.FileMode{readOnly: 0o555, foreign: 0} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	for dir := parent; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, dir string
		want      error
	}{
		{"a file", file, unix.ENOTDIR},
		{"below a file", filepath.Join(file, "gate"), unix.ENOTDIR},
		{"read-only", readOnly, nil},
		{"below a read-only directory", filepath.Join(readOnly, "gate"), fs.ErrPermission},
		{"of another user", foreign, fs.ErrPermission},
	}
	for _, test := range tests {
		asUser(t, func() {
			s, err := badgerstore.OpenTest(test.dir, badgerstore.Options{})
			if err == nil {
				t.Errorf("%s: opened, %v", test.name, s.Close())
				return
			}
			if !strings.Contains(fmt.Sprint(err), test.dir) || (test.want != nil && !errors.Is(err, test.want)) {
				t.Errorf("%s: got %v, want %v", test.name, err, test.want)
			}
		})
	}
	missing := filepath.Join(parent, "a", "b")
	if err := open(t, missing).Close(); err != nil {
		t.Errorf("a missing directory: %v", err)
	}
	if err := os.Chmod(missing, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, missing)
	if info, err := os.Stat(missing); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v, want mode 0700", info.Mode(), err)
	}
}
