package badgerstore

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/ristretto/v2/z"
	"golang.org/x/sync/errgroup"
)

// tableReaders is how many tables are verified at the same time.
const tableReaders = 4

// inspectTables verifies the checksums of all tables in the manifest. Badger
// deletes the others: a crash leaves them, and a manifest that has lost its end is
// noticed when their rows are missing.
func inspectTables(dir string, manifest badger.Manifest) error {
	var g errgroup.Group
	g.SetLimit(tableReaders)
	for id, listed := range manifest.Tables {
		g.Go(func() error {
			path := table.NewFilename(id, dir)
			if err := readTable(path, listed.Compression); err != nil {
				return damaged("%s: %w", filepath.Base(path), err)
			}
			return nil
		})
	}
	return g.Wait()
}

// readTable verifies a table. Badger panics on most kinds of damage, such as a
// wrong checksum.
func readTable(path string, compression options.CompressionType) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("a checksum or its structure is wrong")
		}
	}()
	file, err := z.OpenMmapFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close(-1)
	_, err = table.OpenTable(file, table.Options{
		ReadOnly: true, ChkMode: options.OnTableAndBlockRead, Compression: compression, BlockSize: blockSize,
	})
	return err
}
