package badgerstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// closeWithin bounds how long closing waits for the disk. Badger writes
// its memtables when it is closed, and repeats that for ever while it
// fails.
const closeWithin = 10 * time.Second

// ErrNotClosed says that the disk keeps Close from writing what it must,
// so that the database is still open. It is a store.ErrUnavailable.
var ErrNotClosed = fmt.Errorf("%w: the database is still open", store.ErrUnavailable)

// Close writes what waits, refuses all further calls with
// store.ErrClosed and closes the database. It is idempotent.
//
// On a disk that is full, read-only or dead it fails with ErrNotClosed and
// leaves the database open. Nothing that was promised is lost, because all
// of it is in the logs for the next process. Close waits for the disk ten
// seconds at the most. It can be repeated, and succeeds once the disk works
// again. While it waits for a close that is under way already, it gives up
// sooner.
func (s *Store) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	patience := s.patience / 100
	if s.ending == nil {
		s.ending, patience = begin(s.end), s.patience
	}
	err, ended := await(s.ending, patience)
	if ended {
		s.ending = nil
	}
	return err
}

// end does the work of Close. It runs once at a time.
func (s *Store) end() error {
	var err error
	if !s.stopped {
		s.stopped = true
		close(s.stop)
		s.done.Wait()
		err = s.recent.flush()
		s.ledger.Close()
		s.archive.room = s.disk.checkOpen
	}
	if s.ended {
		return err
	}
	if bad := s.disk.checkOpen(); bad != nil {
		return errors.Join(err, fmt.Errorf("%w: %w", ErrNotClosed, bad))
	}
	s.ended = true
	return errors.Join(err, s.journal.close(), s.archive.db.Close())
}

// abandon closes a database that is not used. If the disk does not let it,
// the database stays open, and keeps its directory, until the process ends.
func abandon(db *badger.DB) error {
	err, _ := await(begin(db.Close), closeWithin)
	return err
}

// begin runs fn, which may never return, and sends its result.
func begin(fn func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- fn() }()
	return result
}

// await returns the result of what was begun, or ErrNotClosed if it has not
// ended in time.
func await(result <-chan error, patience time.Duration) (err error, ended bool) {
	select {
	case err := <-result:
		return err, true
	case <-time.After(patience):
		return fmt.Errorf("%w: writing to the disk takes longer than %s", ErrNotClosed, patience), false
	}
}
