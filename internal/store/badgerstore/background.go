package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/system"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/wal"
)

const (
	// batchRows is how many counts are written to the archive at a time.
	batchRows = 4096

	// syncEvery is how often the log is synced without Options.Sync. A loss
	// of power costs about so much.
	syncEvery = time.Second

	// hangsAfter is how long such a sync may take. After that no call is
	// admitted.
	hangsAfter = 3 * time.Second
)

// runSync syncs the log every second until stop is closed. It has its own
// goroutine because the other background work can wait for Badger.
func (j *journal) runSync(stop <-chan struct{}) {
	j.everySecond(stop, "syncing the log of counts", func() error {
		j.syncBegan.Store(new(time.Now()))
		defer j.syncBegan.Store(nil)
		return errors.Join(j.log.Sync(), j.log.Mark())
	})
}

// run writes ended segments to the archive, restores a log that failed, and
// syncs what is not in the log, until stop is closed.
func (j *journal) run(stop <-chan struct{}) {
	j.everySecond(stop, "keeping the log of counts", func() error {
		if err := j.archiveEnded(); err != nil {
			return err
		}
		return j.archive.flush()
	})
}

// everySecond calls do until stop is closed, and logs its errors.
func (j *journal) everySecond(stop <-chan struct{}, what string, do func() error) {
	failing := outage.New(outage.Logger(j.logger), slog.LevelError, what)
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if err := do(); err != nil {
			failing.Failed(slog.Any("error", err))
		} else {
			failing.Worked()
		}
	}
}

// hangs returns an error while a sync takes longer than hangsAfter: a loss of
// power would cost any number of calls.
func (j *journal) hangs() error {
	began := j.syncBegan.Load()
	if began == nil || time.Since(*began) < hangsAfter {
		return nil
	}
	return fmt.Errorf("syncing the log takes longer than %s", hangsAfter)
}

// check writes to the log as an admitted call does, and syncs it.
func (j *journal) check() error {
	if err := j.archive.failed(); err != nil {
		return err
	}
	if err := j.disk.check(); err != nil {
		return err
	}
	j.appending.Lock()
	err := j.append(nil)
	j.appending.Unlock()
	if err == nil {
		err = j.log.Sync()
	}
	return err
}

// restore makes a log that failed usable again. The kernel may have dropped
// pages whose write failed, so the log is not read back: every counter that
// changed since the store was opened is written from memory to the archive
// and synced before another call is admitted, and so are the rows that only the
// log has for sure. archiving is held.
//
// From Renew to Mend the log refuses records. So no count changes and no
// segment ends, and the segment that failed needs no end. None of this is
// true for a log that works, so restore does nothing then.
func (j *journal) restore() error {
	failure := j.log.Failed()
	if failure == nil {
		return nil
	}
	if err := errors.Join(j.archive.failed(), j.archive.checkDisk()); err != nil {
		return errors.Join(failure, err)
	}
	j.appending.Lock() // what is appended is noted
	number, err := j.log.Renew()
	j.appending.Unlock()
	if err != nil {
		return errors.Join(failure, err)
	}
	var rows []change
	for _, c := range j.counts() {
		rows = append(rows, countRow(appendCountKey(nil, c.Day, c.Holder, c.Endpoint), uint64(c.Used)))
	}
	if err := j.archiveUpTo(number-1, rows); err != nil {
		return errors.Join(failure, err)
	}
	j.log.Mend()
	// Later segments can have ended since. A file that cannot be deleted is ignored
	// at the next start, because the log begins behind it.
	for segment := j.log.Ended(); segment != nil && segment.Number < number; segment = j.log.Ended() {
		j.archived(segment.Number)
		err = errors.Join(err, j.log.Remove())
	}
	return err
}

// archiveUpTo makes the archive have all of the segments up to a number: their
// rows as they are now, and then those counts. The log begins behind them then.
func (j *journal) archiveUpTo(last uint64, counts []change) error {
	j.keeping.Lock() // the archive has the receipts of these segments
	changed := j.changedUntil(last)
	j.keeping.Unlock()
	err := archiveParts(j, changed, j.archive.current)
	if err == nil {
		err = j.archiveRows(counts)
	}
	if err == nil {
		err = j.beginWith(last + 1)
	}
	return err
}

// archiveRows writes rows to the archive.
func (j *journal) archiveRows(rows []change) error {
	return archiveParts(j, rows, func(part []change) ([]change, error) { return part, nil })
}

// archiveParts writes the rows of parts of a list to the archive.
func archiveParts[T any](j *journal, list []T, rows func(part []T) ([]change, error)) error {
	for part := range slices.Chunk(list, j.batch) {
		if err := j.archive.commit(kept, func() ([]change, error) { return rows(part) }); err != nil {
			return err
		}
	}
	return nil
}

// beginWith makes a segment the first that is needed. The names of Badger's files
// must be on the disk before the segments before it are removed.
func (j *journal) beginWith(segment uint64) error {
	if err := j.archiveRows(formatRows(segment)); err != nil {
		return err
	}
	return system.SyncDir(j.disk.dir)
}

// archiveEnded writes all segments that have ended to the archive.
func (j *journal) archiveEnded() error {
	j.archiving.Lock()
	defer j.archiving.Unlock()
	if err := j.restore(); err != nil {
		return err
	}
	return j.archiveUntil(math.MaxUint64)
}

// archiveUntil writes the segments up to a number that have ended to the
// archive. archiving is held. The caller restores a log that failed first: the
// segment that failed has ended, too, and must not be read.
func (j *journal) archiveUntil(last uint64) error {
	for segment := j.log.Ended(); segment != nil && segment.Number <= last; segment = j.log.Ended() {
		if err := j.archiveSegment(segment); err != nil {
			return fmt.Errorf("writing counts to the archive: %w", err)
		}
		j.archived(segment.Number)
		if err := j.log.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// archiveSegment writes a segment to the archive. Its rows are there, and may be
// newer.
func (j *journal) archiveSegment(segment *wal.Segment) error {
	var counts lastRows
	err := segment.Each(func(record []byte) error { return eachRow(record, counts.count, func(change) {}) })
	if err != nil {
		return err
	}
	return j.archiveUpTo(segment.Number, counts.changes)
}

// countRow is the row of a count. A count of zero has none.
func countRow(key []byte, used uint64) change {
	if used == 0 {
		return change{key: key}
	}
	return change{key: key, value: binary.AppendUvarint(nil, used), expires: expiry(dayOf(key))}
}

// expiry is when the counts of a day expire.
func expiry(d calendar.Day) time.Time {
	return (d + store.CountsFor + 1).UTC()
}

// finish writes all counts to the archive. Counts that cannot be written stay
// in the log for the next start.
func (j *journal) finish() error {
	j.archiving.Lock()
	defer j.archiving.Unlock()
	if err := j.endSegment(); err != nil {
		return err
	}
	return j.archiveUntil(math.MaxUint64)
}

// endSegment ends a segment that has records, or restores a log that failed.
// archiving is held.
func (j *journal) endSegment() error {
	switch {
	case j.log.Failed() != nil:
		return j.restore()
	case !j.log.Empty():
		j.appending.Lock() // what is appended is noted
		defer j.appending.Unlock()
		return j.log.Rotate()
	}
	return nil
}

// snapshot writes all current counts to the archive and returns a transaction
// that reads them. No segment is being written to the archive then: the
// transaction would have only a part of its counts. It does not wait for
// segments that end meanwhile, because under load there can always be another
// one.
func (j *journal) snapshot() (*badger.Txn, error) {
	j.archiving.Lock()
	defer j.archiving.Unlock()
	last := j.log.Number()
	if err := j.endSegment(); err != nil {
		return nil, err
	}
	if err := j.archiveUntil(last); err != nil {
		return nil, err
	}
	return j.archive.db.NewTransaction(false), nil
}
