package badgerstore

import (
	"os"
	"strings"
	"testing"
)

// inspectedVersion is the version of Badger whose file formats inspect.go,
// memtable.go and table.go read.
const inspectedVersion = "v4.9.6"

// TestBadgerVersion fails when go.mod requires another version of Badger: the
// inspection parses Badger's files itself, and their formats may have changed.
func TestBadgerVersion(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	want := "github.com/dgraph-io/badger/v4 " + inspectedVersion
	for line := range strings.Lines(string(mod)) {
		if strings.TrimSpace(line) == want {
			return
		}
	}
	t.Errorf(`go.mod does not require %s, which the inspection of damage was written for.
Check against the new version of Badger, then change inspectedVersion:
- memtable.go: the header and the entries of a memtable's log (memtable.go, structs.go, value.go: header, bitTxn, bitFinTxn)
- inspect.go: the text and the size of KEYREGISTRY (key_registry.go: sanityText), the header of a value log (value.go: vlogHeaderSize), the names of files
- table.go: what table.OpenTable verifies and when it panics (table/table.go), which tables Badger deletes at its start (levels.go: revertToManifest)
- archive.go: that a sync does not reach the log of the memtable before (db.go: Sync), the size of values that go to the value log
- store.go: the size of the log of a memtable (memtable.go: openMemTable) and the error of a directory in use (dir_unix.go)
Run the tests of damage with TOLLGATE_LONG=1.`, want)
}
