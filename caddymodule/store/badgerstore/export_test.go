package badgerstore

import (
	"errors"
	"time"
)

// WithSegments returns options for a log whose segments have another size,
// in bytes.
func (o Options) WithSegments(size int) Options {
	o.segmentSize = size
	return o
}

// FlushForTest writes recent calls and does what happens in the
// background every second.
func (s *Store) FlushForTest() error {
	return errors.Join(s.recent.flush(), s.journal.syncNow())
}

// SetPatience sets how long Close waits for the disk.
func (s *Store) SetPatience(patience time.Duration) { s.patience = patience }

// Version is the version of the format that is written.
const Version = version
