package badgerstore

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/y"
	"github.com/dgraph-io/ristretto/v2/z"
	"golang.org/x/sync/errgroup"
)

// tableReaders is how many tables are verified at the same time.
const tableReaders = 4

// inspectTables verifies the checksums of all tables in the manifest, and
// checks the tables that it does not list, which Badger deletes.
func inspectTables(dir string, manifest badger.Manifest, begins []uint64) error {
	versions := make([]uint64, 0, len(manifest.Tables))
	results := make(chan uint64, len(manifest.Tables))
	var g errgroup.Group
	g.SetLimit(tableReaders)
	for id, listed := range manifest.Tables {
		g.Go(func() error {
			path := table.NewFilename(id, dir)
			version, _, err := readTable(path, options.OnTableAndBlockRead, listed.Compression)
			if err != nil {
				return damaged("%s: %w", filepath.Base(path), err)
			}
			results <- version
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	close(results)
	for version := range results {
		versions = append(versions, version)
	}
	newest := uint64(0)
	if len(versions) > 0 {
		newest = slices.Max(versions)
	}
	return inspectOrphans(dir, manifest, newest, begins)
}

// inspectOrphans refuses a directory whose manifest has lost its end. A crash
// can also leave tables that the manifest does not list: one of a memtable whose
// log still exists and begins before the table ends, or one of a compaction, which
// is not newer than the tables that were compacted. A table that is newer than all
// listed ones and has no log was listed before, or a loss of power took its log:
// then it has no row that was kept, because that syncs the log.
func inspectOrphans(dir string, manifest badger.Manifest, newest uint64, begins []uint64) error {
	paths, err := list(dir, ".sst")
	if err != nil {
		return err
	}
	for _, path := range paths {
		id, ok := table.ParseFileID(path)
		if _, listed := manifest.Tables[id]; !ok || listed {
			continue
		}
		version, keeps, err := readTable(path, options.NoVerification, options.None)
		if err != nil {
			continue // incomplete
		}
		if keeps && version > newest && !slices.ContainsFunc(begins, func(first uint64) bool { return first <= version }) {
			return damaged("its manifest does not list %s", filepath.Base(path))
		}
	}
	return nil
}

// readTable returns the newest version in a table, and whether it has a row of
// keptKey. Badger panics on most kinds of damage, such as a wrong checksum.
func readTable(path string, mode options.ChecksumVerificationMode, compression options.CompressionType) (version uint64, keeps bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("a checksum or its structure is wrong")
		}
	}()
	file, err := z.OpenMmapFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0, false, err
	}
	defer file.Close(-1)
	t, err := table.OpenTable(file, table.Options{
		ReadOnly: true, ChkMode: mode, Compression: compression, BlockSize: blockSize,
	})
	if err != nil {
		return 0, false, err
	}
	it := t.NewIterator(0)
	defer it.Close()
	it.Seek(y.KeyWithTs(keptKey, math.MaxUint64))
	return t.MaxVersion(), it.Valid() && y.SameKey(it.Key(), y.KeyWithTs(keptKey, 0)), nil
}
