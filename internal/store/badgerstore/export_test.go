package badgerstore

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// WithSegments sets the size of the log's segments, in bytes.
func (o Options) WithSegments(size int) Options {
	o.segmentSize = size
	return o
}

// WithFaults makes syncs of the log fail while faulty returns true.
func (o Options) WithFaults(faulty func() bool) Options {
	o.dataSync = func(f *os.File) error {
		if faulty() {
			return errDisk
		}
		return f.Sync()
	}
	return o
}

// methods are those of a book for tests.
type methods = storetest.Store

// TestStore is a store with the methods of a book on it. A method of both is
// that of the store.
type TestStore struct {
	*Store
	*methods
}

// OpenTest opens a store with a book on it.
func OpenTest(dir string, o Options) (TestStore, error) {
	s, err := Open(dir, o)
	if err != nil {
		return TestStore{}, err
	}
	return TestStore{s, storetest.New(s)}, nil
}

// Close closes the book and then the store.
func (s TestStore) Close() error {
	if err := s.Book.Close(); err != nil && !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return s.Store.Close()
}

// CountReceipts returns how many receipts of an account there are.
func (s *Store) CountReceipts(account string) (n int64, err error) {
	err = s.archive.scan(receiptKey(account, ""), func(_, _ []byte) error { n++; return nil })
	return n, err
}

// FlushForTest does the background work of a second.
func (s *Store) FlushForTest() error { return s.journal.syncNow() }

// syncNow does at once what the background does every second.
func (j *journal) syncNow() error {
	j.archiving.Lock()
	err := j.restore()
	j.archiving.Unlock()
	if err == nil {
		err = j.archive.flush()
	}
	if err == nil {
		err = errors.Join(j.log.Sync(), j.log.Mark())
	}
	return err
}

// stopBackground stops what a store does by itself.
func stopBackground(s TestStore) {
	s.closing.Lock()
	defer s.closing.Unlock()
	s.stopped = true
	close(s.stop)
	s.done.Wait()
}

// writeDurably writes rows as a change does.
func writeDurably(s TestStore, rows ...change) error {
	return s.archive.write(durable, rows...)
}

// SetPatience sets how long Close waits for the disk.
func (s *Store) SetPatience(patience time.Duration) { s.patience = patience }

// AwaitStop returns when Close has begun.
func AwaitStop(s *Store) { <-s.stop }

// TakeDaily takes a call with a limit of the day, and returns how much of it is
// used.
func TakeDaily(s *Store, call store.Call, limit int64) (used int64, admitted bool, err error) {
	rooms := make([]store.Room, 1)
	admitted, err = s.Take(context.Background(), call, Daily(call.Endpoint, limit), rooms)
	return limit - rooms[0].Remaining, admitted, err
}

// Daily returns a limit of the calls to an endpoint on one day.
func Daily(endpoint string, limit int64) []store.Limit {
	return []store.Limit{{Endpoint: endpoint, Period: store.Day, Max: limit}}
}

// FailLog makes each write of that number to the log fail, none if it is 0.
func (s *Store) FailLog(every int) {
	s.journal.appending.Lock()
	defer s.journal.appending.Unlock()
	s.journal.append = s.journal.log.Append
	if writes := 0; every > 0 {
		s.journal.append = func(record []byte) error {
			if writes++; writes%every == 0 {
				return errDisk
			}
			return s.journal.log.Append(record)
		}
	}
}

// Forget removes days from memory that are in the archive, but those to keep.
func (s *Store) Forget(keep func(calendar.Day) bool) {
	s.ledger.RetainDays(func(day calendar.Day) bool { return keep(day) || s.journal.holds(day) })
}
