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

// Close refuses all further calls with store.ErrClosed, writes what waits
// and closes the database. It is idempotent.
//
// On a disk that is full, read-only or dead it fails with
// store.ErrNotClosed and leaves the database open. All that was synced is
// in the logs for the next process. Close waits for the disk ten seconds at
// the most. It can be repeated, and succeeds once the disk works again.
// While it waits for a close that is under way already, it gives up sooner.
// Any other error is that of a database which is closed, as after a sync of
// it that failed, and is returned each time.
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
		s.ledger.Close()
		s.done.Wait()
		err = s.recent.flush()
		s.archive.checkDisk = s.disk.checkOpen
	}
	if s.ended {
		return s.result
	}
	if bad := s.disk.checkOpen(); bad != nil {
		return errors.Join(err, fmt.Errorf("%w: %w", store.ErrNotClosed, bad))
	}
	failed := s.journal.finish()
	if failed != nil && s.archive.failed() == nil {
		return errors.Join(err, fmt.Errorf("%w: %w", store.ErrNotClosed, failed))
	}
	s.ended = true
	s.result = errors.Join(err, failed, s.journal.log.Close(), s.archive.db.Close())
	return s.result
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

// await returns the result of what was begun, or store.ErrNotClosed if it has not
// ended in time.
func await(result <-chan error, patience time.Duration) (err error, ended bool) {
	select {
	case err := <-result:
		return err, true
	case <-time.After(patience):
		return fmt.Errorf("%w: writing to the disk takes longer than %s", store.ErrNotClosed, patience), false
	}
}
