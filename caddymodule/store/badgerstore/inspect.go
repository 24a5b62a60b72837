package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// inspect looks at a directory before Badger does, for the damage that
// Badger would mend by throwing data away: without its manifest it begins
// a new database, and of a manifest that was cut short it takes the rest.
func inspect(dir string) error {
	path := filepath.Join(dir, badger.ManifestFilename)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return inspectEmpty(dir)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, end, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir))
	if err != nil {
		return fmt.Errorf("store is damaged: its manifest: %w", err)
	}
	if end != info.Size() {
		return fmt.Errorf("store is damaged: its manifest is cut short at %d of %d bytes", end, info.Size())
	}
	return nil
}

// inspectEmpty refuses data without a manifest.
func inspectEmpty(dir string) error {
	for _, pattern := range []string{"*.sst", "*.mem", "*.vlog"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("store is damaged: there is data but no manifest")
		}
	}
	return nil
}
