package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/wal"
)

const (
	// settleRows is how many counts are moved to the archive at a time.
	settleRows = 4096

	// syncEvery is how often the log reaches the disk without Options.Sync,
	// and so about how much a loss of power costs.
	syncEvery = time.Second

	// hangsAfter is how long such a sync may take before no call is
	// admitted any more.
	hangsAfter = 3 * time.Second
)

// runSync syncs the log every second until stop is closed. What else is
// done in the background may wait for Badger, and this must not.
func (j *journal) runSync(stop <-chan struct{}) {
	j.everySecond(stop, "syncing the log of counts", func() error {
		j.slow.Store(time.Now().UnixNano())
		defer j.slow.Store(0)
		return j.log.Sync()
	})
}

// run moves segments that have ended, and lets a log that failed begin
// again, until stop is closed.
func (j *journal) run(stop <-chan struct{}) {
	j.everySecond(stop, "keeping the log of counts", func() error {
		if err := j.settleChanges(); err != nil {
			return err
		}
		return j.moveEnded()
	})
}

// everySecond calls do until stop is closed, and logs what fails.
func (j *journal) everySecond(stop <-chan struct{}, what string, do func() error) {
	failing := outage.New(structured(j.logger), slog.LevelError, what)
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

// hangs refuses calls while the disk has not answered a sync for hangsAfter.
// They would be lost with the power, and there is no telling how many.
func (j *journal) hangs() error {
	began := j.slow.Load()
	if began == 0 || time.Since(time.Unix(0, began)) < hangsAfter {
		return nil
	}
	return errors.New("the disk has not answered a sync for seconds")
}

// syncNow does at once what the background does every second.
func (j *journal) syncNow() error {
	if err := j.settleChanges(); err != nil {
		return err
	}
	return j.log.Sync()
}

// settleChanges makes what was written to the archive reach the disk, and
// tells the log. A log that failed begins again if it can.
func (j *journal) settleChanges() error {
	if j.log.Failed() != nil {
		return j.restore()
	}
	changes, err := j.archive.flush(j.confirmed.Load())
	if err == nil && changes > j.confirmed.Load() {
		err = j.confirm(changes)
	}
	return err
}

// check writes to the log as an admitted call does, and makes that reach
// the disk.
func (j *journal) check() error {
	if err := j.archive.failed(); err != nil {
		return err
	}
	if err := j.disk.check(); err != nil {
		return err
	}
	return j.confirm(j.confirmed.Load())
}

// restore lets a log that failed begin again. The kernel forgets pages
// whose write failed, so what the log has is not read back: every counter
// that moved since the store was opened goes from memory to the archive,
// on the disk, before another call is admitted. No count changes meanwhile,
// as the log refuses it.
func (j *journal) restore() error {
	j.moving.Lock()
	defer j.moving.Unlock()
	failure := j.log.Failed()
	if err := errors.Join(j.archive.failed(), j.archive.room()); err != nil {
		return errors.Join(failure, err)
	}
	number, err := j.log.Renew()
	if err != nil {
		return errors.Join(failure, err)
	}
	if err := j.settle(j.counts(), number); err != nil {
		return errors.Join(failure, err)
	}
	j.log.Mend()
	if err := j.confirm(j.confirmed.Load()); err != nil {
		return err
	}
	// All of them: moving one that is left would write values that are
	// older than those in the archive. A file that cannot be deleted is
	// ignored at the next start, as the log begins behind it.
	for segment := j.log.Ended(); segment != nil; segment = j.log.Ended() {
		j.passed(segment.Number)
		err = errors.Join(err, j.log.Remove())
	}
	return err
}

// settle writes counts to the archive, and with the last of them that the
// log begins with a segment.
func (j *journal) settle(counts []ledger.Count, segment uint64) error {
	for part := range slices.Chunk(counts, settleRows) {
		rows := make([]change, len(part))
		for i, c := range part {
			rows[i] = countRow(appendCountKey(nil, c.Day, c.Account, c.Endpoint), uint64(c.Used))
		}
		if _, err := j.archive.try(true, rows); err != nil {
			return err
		}
	}
	_, err := j.archive.try(true, formatRows(segment))
	return err
}

// moveEnded moves all segments that have ended to the archive.
func (j *journal) moveEnded() error {
	j.moving.Lock()
	defer j.moving.Unlock()
	for segment := j.log.Ended(); segment != nil; segment = j.log.Ended() {
		if err := j.move(segment); err != nil {
			return fmt.Errorf("moving counts to the archive: %w", err)
		}
		if err := j.remove(segment); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the oldest segment, whose counts are in the archive. The
// number of the last change stays in the log.
func (j *journal) remove(segment *wal.Segment) error {
	if err := j.confirm(j.confirmed.Load()); err != nil {
		return err
	}
	j.passed(segment.Number)
	return j.log.Remove()
}

// move writes the counts of a segment to the archive, and with the last of
// them that the segment is needed no more.
func (j *journal) move(segment *wal.Segment) error {
	var counts lastCounts
	if err := segment.Each(counts.read); err != nil {
		return err
	}
	rows := append(counts.rows(), formatRows(segment.Number+1)...)
	for part := range slices.Chunk(rows, settleRows) {
		if _, err := j.archive.try(true, part); err != nil {
			return err
		}
	}
	return nil
}

// lastCounts is the last value of each counter in a segment.
type lastCounts struct {
	place  map[string]int
	keys   []string
	values []uint64
}

// read reads a record. A counter occurs thousands of times: only the first
// time its key is kept.
func (l *lastCounts) read(record []byte) error {
	return eachRow(record, func(key []byte, used uint64) {
		if i, ok := l.place[string(key)]; ok {
			l.values[i] = used
			return
		}
		if l.place == nil {
			l.place = map[string]int{}
		}
		kept := string(key)
		l.place[kept] = len(l.keys)
		l.keys, l.values = append(l.keys, kept), append(l.values, used)
	}, func(uint64) {})
}

func (l *lastCounts) rows() []change {
	rows := make([]change, len(l.keys), len(l.keys)+2)
	for i, key := range l.keys {
		rows[i] = countRow([]byte(key), l.values[i])
	}
	return rows
}

// countRow is a count as it stands in the archive. A count of zero needs
// no row.
func countRow(key []byte, used uint64) change {
	if used == 0 {
		return change{key: key}
	}
	return change{key: key, value: binary.AppendUvarint(nil, used), expires: expiry(dayOf(key))}
}

// expiry is when the counts of a day may go.
func expiry(d calendar.Day) time.Time {
	return time.Unix((int64(d)+store.CountsFor+1)*int64(24*time.Hour/time.Second), 0)
}

// finish moves everything to the archive. What cannot be moved is still in
// the log when the store opens again.
func (j *journal) finish() error {
	var err error
	switch {
	case j.log.Failed() != nil:
		err = j.restore()
	case !j.log.Empty():
		err = j.log.Rotate()
	}
	if err == nil {
		err = j.moveEnded()
	}
	return err
}
