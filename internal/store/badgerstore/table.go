package badgerstore

import (
	"errors"
	"io/fs"
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
// deletes the others: a crash leaves them. If the manifest has lost its end, rows are
// missing when Badger is open, see loadKept.
func inspectTables(dir string, manifest badger.Manifest) error {
	var g errgroup.Group
	g.SetLimit(tableReaders)
	for id, listed := range manifest.Tables {
		g.Go(func() error {
			path := table.NewFilename(id, dir)
			err := readTable(path, listed.Compression)
			if file := (*fs.PathError)(nil); err == nil || errors.As(err, &file) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return damaged("%s: %w", filepath.Base(path), err)
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
