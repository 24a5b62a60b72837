//go:build 386 || arm || mipsle

package badgerstore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// TestDatesOfTables: tables of the last run are younger than ten seconds, so that
// level 0 is not merged into a table that the memory does not fit.
func TestDatesOfTables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		db, err := openFitting(badger.DefaultOptions(dir).WithLogger(nil).WithValueLogFileSize(16 << 20))
		if err != nil {
			t.Fatal(err)
		}
		tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		if err != nil {
			t.Error(err)
		}
		for _, path := range tables {
			if is, err := os.Stat(path); err != nil || !is.ModTime().After(time.Now()) {
				t.Errorf("the table has the date %v (%v)", is.ModTime(), err)
			}
		}
		t.Logf("%d tables", len(tables))
		err = db.Update(func(txn *badger.Txn) error { return txn.Set([]byte("key"), []byte("value")) })
		if err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Errorf("got %d tables (%v): the test needs one", len(tables), err)
	}
}
