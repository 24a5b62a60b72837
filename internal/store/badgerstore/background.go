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

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
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
		return j.log.Sync()
	})
}

// run writes ended segments to the archive and restores a log that failed,
// until stop is closed.
func (j *journal) run(stop <-chan struct{}) {
	j.everySecond(stop, "keeping the log of counts", func() error {
		if err := j.syncArchive(); err != nil {
			return err
		}
		return j.archiveEnded()
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

// syncArchive syncs the archive and confirms its changes to the log. It
// restores a log that failed.
func (j *journal) syncArchive() error {
	if j.log.Failed() != nil {
		j.archiving.Lock()
		defer j.archiving.Unlock()
		return j.restore()
	}
	changes, err := j.archive.flush(j.confirmed.Load())
	if err == nil && changes > j.confirmed.Load() {
		err = j.confirm(changes)
	}
	return err
}

// check writes to the log as an admitted call does, and syncs it.
func (j *journal) check() error {
	if err := j.archive.failed(); err != nil {
		return err
	}
	if err := j.disk.check(); err != nil {
		return err
	}
	return j.confirm(j.confirmed.Load())
}

// restore makes a log that failed usable again. The kernel may have dropped
// pages whose write failed, so the log is not read back: every counter that
// changed since the store was opened is written from memory to the archive
// and synced before another call is admitted. archiving is held.
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
	number, err := j.log.Renew()
	if err != nil {
		return errors.Join(failure, err)
	}
	if err := j.archiveCounts(j.counts(), number); err != nil {
		return errors.Join(failure, err)
	}
	j.log.Mend()
	// The segments before number are not read again, also if confirm fails:
	// their values are older than those in the archive now. Later segments
	// can have ended since Mend and have newer values. A file that cannot be
	// deleted is ignored at the next start, because the log begins behind it.
	err = j.confirm(j.confirmed.Load())
	for segment := j.log.Ended(); segment != nil && segment.Number < number; segment = j.log.Ended() {
		j.archived(segment.Number)
		err = errors.Join(err, j.log.Remove())
	}
	return err
}

// archiveCounts writes counts to the archive, then the number of the first
// segment that is still needed.
func (j *journal) archiveCounts(counts []ledger.Count, segment uint64) error {
	for part := range slices.Chunk(counts, j.batch) {
		rows := make([]change, len(part))
		for i, c := range part {
			rows[i] = countRow(appendCountKey(nil, c.Day, c.Holder, c.Endpoint), uint64(c.Used))
		}
		if err := j.archive.writeRows(rows); err != nil {
			return err
		}
	}
	return j.archive.writeRows(formatRows(segment))
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
		if err := j.remove(segment); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the oldest segment, whose counts are in the archive. It
// writes the number of the last change to the current segment first.
func (j *journal) remove(segment *wal.Segment) error {
	if err := j.confirm(j.confirmed.Load()); err != nil {
		return err
	}
	j.archived(segment.Number)
	return j.log.Remove()
}

// archiveSegment writes the counts of a segment to the archive, then the
// number of the next segment as the first that is still needed.
func (j *journal) archiveSegment(segment *wal.Segment) error {
	var counts lastCounts
	if err := segment.Each(counts.read); err != nil {
		return err
	}
	rows := append(counts.rows(), formatRows(segment.Number+1)...)
	for part := range slices.Chunk(rows, j.batch) {
		if err := j.archive.writeRows(part); err != nil {
			return err
		}
	}
	return nil
}

// lastCounts is the last value of each counter in a segment.
type lastCounts struct {
	index  map[string]int // of a key
	keys   []string
	values []uint64
}

// read reads a record. A counter occurs thousands of times, so its key is
// copied only once.
func (l *lastCounts) read(record []byte) error {
	return eachRow(record, func(key []byte, used uint64) {
		if i, ok := l.index[string(key)]; ok {
			l.values[i] = used
			return
		}
		if l.index == nil {
			l.index = map[string]int{}
		}
		added := string(key)
		l.index[added] = len(l.keys)
		l.keys, l.values = append(l.keys, added), append(l.values, used)
	}, func(uint64) {})
}

func (l *lastCounts) rows() []change {
	rows := make([]change, len(l.keys), len(l.keys)+2)
	for i, key := range l.keys {
		rows[i] = countRow([]byte(key), l.values[i])
	}
	return rows
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
