package badgerstore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// closeWithin is how long Close waits for the disk to take something. Badger
// flushes its memtables when it is closed, and retries forever while that
// fails.
const closeWithin = 10 * time.Second

// Close refuses all further calls with store.ErrClosed, writes everything that
// is pending and closes the database. It is idempotent.
//
// On a full, read-only or dead disk it fails with store.ErrNotClosed and leaves
// the database open. Everything that was synced is in the logs for the next
// process. Close gives up when the disk has taken nothing for closeWithin: a busy
// disk can take longer in all. It can be repeated, and succeeds when the disk
// works again. It waits less if an earlier Close is still in progress. With any
// other error the database is closed, as after a failed sync of it. Close
// returns that error each time.
func (s *Store) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	patience := s.patience / 100
	if s.ending == nil {
		s.ending, patience = begin(s.end), s.patience
	}
	err, ended := await(s.ending, patience, s.archive)
	if ended {
		s.ending = nil
	}
	return err
}

// end does the work of Close. It runs once at a time.
func (s *Store) end() error {
	if !s.stopped {
		s.stopped = true
		close(s.stop)
		s.ledger.Close()
		s.done.Wait()
		s.archive.checkDisk = s.disk.checkOpen
	}
	if s.ended {
		return s.result
	}
	if bad := s.disk.checkOpen(); bad != nil {
		return fmt.Errorf("%w: %w", store.ErrNotClosed, bad)
	}
	failed := s.journal.finish()
	if failed != nil && s.archive.failed() == nil {
		return fmt.Errorf("%w: %w", store.ErrNotClosed, failed)
	}
	s.ended = true
	s.result = errors.Join(failed, s.journal.log.Close(), s.archive.db.Close())
	return s.result
}

// abandon closes an unused database. If the disk fails, the database stays open
// and its directory stays locked until the process ends.
func (a *archive) abandon() error {
	err, _ := await(begin(a.db.Close), closeWithin, a)
	return err
}

// begin runs fn in a goroutine, because it may never return, and sends its
// result.
func begin(fn func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- fn() }()
	return result
}

// await returns the result that begin sends, or store.ErrNotClosed if there is
// none and the disk has taken nothing for some time.
func await(result <-chan error, patience time.Duration, a *archive) (err error, ended bool) {
	for before := a.taken(); ; {
		select {
		case err := <-result:
			return err, true
		case <-time.After(patience):
		}
		now := a.taken()
		if slices.Equal(now, before) {
			return fmt.Errorf("%w: the disk has taken nothing for %s", store.ErrNotClosed, patience), false
		}
		before = now
	}
}

// taken is what the disk has taken: how many writes, and the size of the tables
// of each level. A write that fails and is tried again changes neither. It does
// not access the disk.
func (a *archive) taken() []int64 {
	taken := []int64{a.writes.Load()}
	for _, level := range a.db.Levels() {
		taken = append(taken, level.Size)
	}
	return taken
}
