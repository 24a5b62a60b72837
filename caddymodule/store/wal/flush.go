package wal

import (
	"os"
	"runtime"

	"github.com/dgraph-io/ristretto/v2/z"
)

// flusher makes what was stored in a segment reach the disk.
type flusher interface {
	// flush returns when the bytes of a segment between two places are on
	// the disk. It must not be called by two goroutines at once.
	flush(s *Segment, from, to int) error
	close() error
}

// direct flushes by msync. The thread that calls it waits for the disk,
// and with it, for a while, whatever else it could do.
type direct struct{}

func (direct) flush(s *Segment, from, to int) error {
	from -= from % os.Getpagesize()
	if err := z.Msync(s.file.Data[from:to]); err != nil || runtime.GOOS == "linux" {
		return err
	}
	// Elsewhere that has brought it to the file, but not to the disk.
	return s.file.Fd.Sync()
}

func (direct) close() error { return nil }
