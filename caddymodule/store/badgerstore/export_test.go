package badgerstore

import "time"

// WithSegments returns options for a log whose segments have another size,
// in bytes.
func (o Options) WithSegments(size int) Options {
	o.segmentSize = size
	return o
}

// SetPatience sets how long Close waits for the disk.
func (s *Store) SetPatience(patience time.Duration) { s.patience = patience }
