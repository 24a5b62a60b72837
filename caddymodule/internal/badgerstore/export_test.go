package badgerstore

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
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

// FlushForTest writes recent calls and does the background work of a second.
func (s *Store) FlushForTest() error {
	return errors.Join(s.recent.flush(), s.journal.syncNow())
}

// syncNow does at once what the background does every second.
func (j *journal) syncNow() error {
	if err := j.syncArchive(); err != nil {
		return err
	}
	return j.log.Sync()
}

// SetPatience sets how long Close waits for the disk.
func (s *Store) SetPatience(patience time.Duration) { s.patience = patience }

// SetMaxQueued sets how many events wait at most, and returns how many did.
func (s *Store) SetMaxQueued(most int) (was int) {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	was, s.events.most = s.events.most, most
	return was
}

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
