package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// errDamaged begins every message about a damaged directory.
var errDamaged = errors.New("store is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w; restore the last backup", errDamaged, fmt.Errorf(format, args...))
}

// inspect refuses damage that Badger would repair by dropping data, and damage on
// which a goroutine of Badger would panic and end the process. What a log of a
// memtable or the end of the manifest has lost is noticed when Badger is open: see
// loadKept. It removes or cuts only files that Badger cannot read.
func inspect(dir string) error {
	manifest, err := readManifest(dir)
	if err != nil {
		return err
	}
	if err := inspectLogs(dir); err != nil {
		return err
	}
	if err := inspectTables(dir, manifest); err != nil {
		return err
	}
	if err := inspectValueLogs(dir); err != nil {
		return err
	}
	return inspectKeyRegistry(dir)
}

// Without encryption Badger's list of encryption keys is registryIV random
// bytes and registryText.
const (
	registryIV   = 16
	registryText = "Hello Badger"
)

// inspectKeyRegistry refuses any other list: Badger reads the length of a key
// from the file and allocates so much, up to 4 GiB, before it verifies a
// checksum. A missing list is accepted: Badger writes it again.
func inspectKeyRegistry(dir string) error {
	const size = registryIV + len(registryText)
	content, err := readHead(filepath.Join(dir, badger.KeyRegistryFileName), size+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(content) != size || string(content[registryIV:]) != registryText:
		return damaged("invalid %s: without encryption it has %d bytes and ends with %q",
			badger.KeyRegistryFileName, size, registryText)
	}
	return nil
}

// readManifest returns the tables in the manifest. It accepts a torn end, which
// Badger cuts off: inspectTables finds the tables that the end listed.
func readManifest(dir string) (badger.Manifest, error) {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return badger.Manifest{}, inspectEmpty(dir)
	}
	if err != nil {
		return badger.Manifest{}, err
	}
	defer f.Close()
	manifest, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		return badger.Manifest{}, damaged("its manifest: %w", err)
	}
	return manifest, nil
}

// inspectEmpty refuses data without a manifest. Badger writes the manifest
// first, and without one it begins a new database.
func inspectEmpty(dir string) error {
	for _, end := range []string{".sst", ".mem", ".vlog", ".log", "KEYREGISTRY", "DISCARD"} {
		found, err := list(dir, end)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return damaged("there is data but no manifest")
		}
	}
	return nil
}

// A log of Badger 4 has a header of 20 bytes, entries, then zeros. The header
// begins with the id of the encryption key, here 0. An entry has 2 bytes, the
// lengths of its key and its value and the time it expires as uvarints, key and
// value, and 4 bytes of a checksum.
const (
	logHeader = 20
	logKeyID  = 8
)

// inspectLogs refuses a log of a memtable with a wrong header. What cannot be read
// behind it is no damage: Badger drops it, and our log has it, or what is missing
// is noticed then. It cuts off an entry that is too long, because Badger allocates
// its length before it verifies a checksum. It removes a log without a header, on
// which Badger fails. A crash leaves it when it is made, and when its rows are in a
// table.
func inspectLogs(dir string) error {
	paths, err := list(dir, ".mem")
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		switch {
		case err != nil:
		case len(data) < logHeader:
			err = os.Remove(path)
		case !bytes.Equal(data[:logKeyID], make([]byte, logKeyID)):
			err = damaged("%s: invalid header", filepath.Base(path))
		default:
			if end := tooLong(data); end < len(data) {
				err = os.Truncate(path, int64(end))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tooLong returns where a log has an entry that is longer than any, or its size.
func tooLong(log []byte) int {
	for at := logHeader; at+2 < len(log); {
		key, n := binary.Uvarint(log[at+2:])
		value, m := binary.Uvarint(log[at+2+max(0, n):])
		_, o := binary.Uvarint(log[at+2+max(0, n)+max(0, m):])
		switch {
		case n <= 0 || m <= 0 || o <= 0 || key > 1<<16 || value >= maxValue:
			return at
		case key == 0:
			return len(log)
		}
		at += 2 + n + m + o + int(key+value) + 4
	}
	return len(log)
}

// inspectValueLogs refuses a value log with entries: no row is large enough for
// it, so it belongs to another database or its header is overwritten. It
// removes an empty file, which a crash leaves and which makes Badger fail.
func inspectValueLogs(dir string) error {
	paths, err := list(dir, ".vlog")
	if err != nil {
		return err
	}
	for _, path := range paths {
		head, err := readHead(path, 2*logHeader)
		if err != nil {
			return err
		}
		if len(head) == 0 {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		var zeros [logHeader]byte
		if len(head) < logHeader || !bytes.Equal(head[:logKeyID], zeros[:logKeyID]) || !bytes.HasPrefix(zeros[:], head[logHeader:]) {
			return damaged("%s has entries and must have none", filepath.Base(path))
		}
	}
	return nil
}

// list returns the paths of the files in a directory whose names have an end.
func list(dir, end string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), end) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// readHead returns the first bytes of a file, fewer if the file is shorter.
func readHead(path string, size int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, size)
	n, err := f.ReadAt(head, 0)
	if n < size && errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], err
}
