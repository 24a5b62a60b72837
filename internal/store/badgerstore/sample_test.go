package badgerstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// damageCounters is how many counters each half of the sample has.
const damageCounters = 200

// crashedStore fills a directory as a process leaves it that was killed:
// most rows in tables, the last counts in the log.
func crashedStore(t *testing.T) string {
	t.Helper()
	live, crashed := t.TempDir(), t.TempDir()
	fill := func(s badgerstore.TestStore, half int) {
		t.Helper()
		account := fmt.Sprintf("acc_%d", half)
		if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: account, Plan: "starter", CreatedAt: now}); err != nil {
			t.Fatalf("filling: %v", err)
		}
		for i := range damageCounters {
			call := store.Call{Account: account, Endpoint: fmt.Sprintf("endpoint_%d", i), Day: today}
			if _, err := s.Take(t.Context(), call, badgerstore.Daily(call.Endpoint, 9), make([]store.Room, 1)); err != nil {
				t.Fatalf("filling: %v", err)
			}
		}
	}
	for half := range 2 { // two tables
		s := open(t, live)
		fill(s, half)
		if err := s.Close(); err != nil {
			t.Fatalf("closing: %v", err)
		}
	}
	s := open(t, live)
	fill(s, 2)
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: lastAccount, Plan: "starter"}); err != nil {
		t.Fatalf("filling: %v", err)
	}
	if err := s.FlushForTest(); err != nil {
		t.Fatalf("filling: %v", err)
	}
	copyStore(t, live, crashed)
	removeSpare(t, crashed)
	return crashed
}

// removeSpare removes the segment of the log that is ready and empty, so
// that the last one is the one with records.
func removeSpare(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"*.log", "*.log.new"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range paths {
			data, failed := readFile(path)
			if err = errors.Join(err, failed); err == nil && (pattern != "*.log" || content(data) <= 32) {
				err = os.Remove(path)
			}
		}
		if err != nil {
			t.Fatalf("removing what is ready: %v", err)
		}
	}
}

// copyStore copies a directory, leaving holes where files have zeros. If the store
// is open, its background can make and remove files meanwhile: then it copies again,
// so that the copy is of one instant.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	for before := files(t, from); ; {
		for name := range before {
			err := copyFile(filepath.Join(from, name), filepath.Join(to, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("copying: %v", err)
			}
		}
		after := files(t, from)
		if maps.Equal(before, after) {
			return
		}
		for name := range before {
			if err := os.RemoveAll(filepath.Join(to, name)); err != nil {
				t.Fatalf("copying: %v", err)
			}
		}
		before = after
	}
}

// files returns the names of the files of a store, that of the manifest with the
// time of its last change.
func files(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]time.Time{}
	for _, entry := range entries {
		names[entry.Name()] = time.Time{}
	}
	if info, err := os.Stat(filepath.Join(dir, badger.ManifestFilename)); err == nil {
		names[badger.ManifestFilename] = info.ModTime()
	}
	return names
}

// copyFile copies what is no hole: Badger's logs are large and empty.
func copyFile(from, to string) error {
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	defer target.Close()
	size, err := eachPart(from, func(part []byte, at int64) error {
		_, err := target.WriteAt(part, at)
		return err
	})
	return errors.Join(err, target.Truncate(size))
}

// readFile reads what is no hole.
func readFile(path string) (data []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	data = make([]byte, info.Size())
	_, err = eachPart(path, func(part []byte, at int64) error {
		copy(data[at:], part)
		return nil
	})
	return data, err
}

// lastAccount is in the log of Badger's memtable and nowhere else.
const lastAccount = "acc_last"

// verdict opens a store and tells whether it was refused, or is complete
// or not.
func verdict(t *testing.T, dir string) string {
	t.Helper()
	s, err := badgerstore.OpenTest(dir, badgerstore.Options{})
	if err != nil {
		if !strings.Contains(err.Error(), dir) || len(err.Error()) > 500 {
			t.Errorf("the refusal is unclear: %v", err)
		}
		return "refused"
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}()
	for half := range 3 {
		counts, err := s.Counts(t.Context(), fmt.Sprintf("acc_%d", half), "", today, today)
		if err != nil || len(counts) != damageCounters {
			return fmt.Sprintf("half %d has %d counts, %v", half, len(counts), err)
		}
	}
	if _, err := s.Account(t.Context(), lastAccount); err != nil {
		return fmt.Sprintf("%s: %v", lastAccount, err)
	}
	return "complete"
}

// rewrite changes the content of a file.
func rewrite(t *testing.T, path string, fn func(data []byte) []byte) {
	t.Helper()
	data, err := readFile(path)
	if err == nil {
		// A hole where the data ends in zeros.
		data = fn(data)
		err = errors.Join(os.WriteFile(path, data[:content(data)], 0o600), os.Truncate(path, int64(len(data))))
	}
	if err != nil {
		t.Fatalf("damaging: %v", err)
	}
}

// find returns the file that a pattern names, the last one if several.
func find(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s in the store: %v", pattern, err)
	}
	return slices.Max(found)
}

// content is how much of a file is not the zeros at its end.
func content(data []byte) int {
	zeros := make([]byte, 64<<10)
	for bytes.HasSuffix(data, zeros) {
		data = data[:len(data)-len(zeros)]
	}
	return len(bytes.TrimRight(data, "\x00"))
}
