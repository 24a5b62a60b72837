package wal

import (
	"os"

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
	return z.Msync(s.file.Data[from:to])
}

func (direct) close() error { return nil }
