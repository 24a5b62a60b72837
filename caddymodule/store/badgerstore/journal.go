package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/wal"
)

const (
	// settleRows is how many counts are moved to the archive at a time.
	settleRows = 4096

	// syncEvery is how often the log reaches the disk without Options.Sync,
	// and so about how much a loss of power costs.
	syncEvery = time.Second
)

// journal is the ledger's log. Every count is in a write-ahead log before
// its call is admitted. It moves to the archive later: a segment at a
// time, and each counter once per segment. The rows of a segment are
// values, not differences, so they may be moved twice.
//
// The days that the log has rows of are in the ledger's memory for as long
// as it has them, so a reader does not miss what is not in the archive yet.
//
// The log also has the number of the archive's last change. A database
// with an older number has lost what it had written.
type journal struct {
	archive *archive
	disk    *disk
	log     *wal.Log
	sync    bool // every record is synced
	logger  *zap.Logger
	counts  func() []ledger.Counter // that moved; see ledger.Moved

	// append writes a record and makes it reach the disk if asked to. It is
	// a field for tests.
	append    func(record []byte, sync bool) error
	writing   sync.Mutex // held to append; guards buf and last
	buf       []byte     // one record
	confirmed atomic.Uint64

	moving sync.Mutex // held while counts move to the archive

	mu   sync.Mutex
	days map[calendar.Day]uint64 // the last segment with rows of a day, if it is still needed
	last struct {                // what days was told last
		day     calendar.Day
		segment uint64
	}
}

// openJournal checks that the archive has all changes that the log knows
// of, moves what a crash has left in the log to the archive, and begins an
// empty segment.
func openJournal(d *disk, a *archive, f format, o Options, logger *zap.Logger) (*journal, error) {
	segments, err := wal.Scan(d.dir, f.segment)
	if err != nil {
		return nil, damaged("its log: %w", err)
	}
	if err := checkChanges(f, segments); err != nil {
		return nil, err
	}
	if len(segments) > 0 && f.version != version && f.version != versionUnconfirmed {
		return nil, damaged("there is a log and nothing that it belongs to")
	}
	j := &journal{archive: a, disk: d, sync: o.Sync, logger: logger, days: map[calendar.Day]uint64{}}
	j.append = j.appendSynced
	j.confirmed.Store(f.changes)
	j.log, err = wal.Open(d.dir, f.segment, segments, wal.Options{
		Room: func() error { return a.room() }, Size: o.segmentSize, DataSync: o.dataSync,
	})
	if err != nil {
		return nil, damaged("its log: %w", err)
	}
	if err := j.recover(f, segments); err != nil {
		return nil, errors.Join(err, j.log.Close())
	}
	a.confirm = j.confirm
	return j, nil
}

// checkChanges refuses an archive that has lost changes which the log
// knows of: a file of Badger's is missing or empty, or was brought back
// from an older copy. The opposite is what a crash leaves.
func checkChanges(f format, segments []*wal.Segment) error {
	newest := uint64(0)
	for _, segment := range segments {
		err := segment.Each(func(record []byte) error {
			return eachRow(record, func(_ []byte, _ uint64) {}, func(changes uint64) { newest = max(newest, changes) })
		})
		if err != nil {
			return damaged("its log: %w", err)
		}
	}
	if f.changes < newest {
		return damaged("its last %d changes of accounts, keys or usage are missing", newest-f.changes)
	}
	return nil
}

// recover moves the segments that were left to the archive. Without any,
// the archive still has to know where the log begins.
func (j *journal) recover(f format, left []*wal.Segment) error {
	for _, segment := range left {
		if err := j.move(segment); err != nil {
			return err
		}
	}
	if f.version != version || f.segment != j.log.Number() {
		if _, err := j.archive.try(true, formatRows(j.log.Number())); err != nil {
			return err
		}
	}
	if err := j.confirm(j.archive.changes); err != nil {
		return err
	}
	for _, segment := range left {
		if err := segment.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// Append implements ledger.Log.
func (j *journal) Append(g *ledger.Group) error {
	if err := j.archive.failed(); err != nil {
		return err
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	if err := j.disk.checkRecently(); err != nil {
		return err
	}
	j.buf = j.buf[:0]
	for i := range g.Counts {
		j.buf = appendCount(j.buf, &g.Counts[i])
	}
	if err := j.append(j.buf, g.Sync || j.sync); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	segment := j.log.Number()
	for i := range g.Counts {
		j.note(g.Counts[i].Day, segment)
	}
	return nil
}

func (j *journal) appendSynced(record []byte, sync bool) error {
	err := j.log.Append(record)
	if err == nil && sync {
		err = j.log.Sync()
	}
	return err
}

// confirm writes the number of the archive's last change to the log, when
// the archive has it on the disk. In the opposite order a crash between
// the two would look like damage.
func (j *journal) confirm(changes uint64) error {
	j.writing.Lock()
	err := j.append(appendRow(nil, changesKey, changes), false)
	j.writing.Unlock()
	if err == nil {
		err = j.log.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	for old := j.confirmed.Load(); old < changes && !j.confirmed.CompareAndSwap(old, changes); {
		old = j.confirmed.Load()
	}
	return nil
}

// appendCount appends a row of a record.
func appendCount(buf []byte, c *ledger.CountChange) []byte {
	buf = binary.AppendUvarint(buf, uint64(countKeySize(c.Call)))
	buf = appendCountKey(buf, c.Call)
	return binary.AppendUvarint(buf, uint64(c.Used))
}

// appendRow appends a row of a record: the length of its key, the key as
// it is in the archive, and a number.
func appendRow(buf, key []byte, number uint64) []byte {
	buf = append(binary.AppendUvarint(buf, uint64(len(key))), key...)
	return binary.AppendUvarint(buf, number)
}

// eachRow calls count with the counts of a record and changes with the
// numbers of changes. The key is valid until count returns.
func eachRow(record []byte, count func(key []byte, used uint64), changes func(uint64)) error {
	for len(record) > 0 {
		length, size := binary.Uvarint(record)
		if size <= 0 || length > uint64(len(record)-size) {
			return errCorrupt
		}
		key, rest := record[size:size+int(length)], record[size+int(length):]
		number, size := binary.Uvarint(rest)
		switch {
		case size <= 0:
			return errCorrupt
		case bytes.Equal(key, changesKey):
			changes(number)
		case len(key) >= dayEnd && key[0] == prefixCount && number <= uint64(store.Unlimited):
			count(key, number)
		default:
			return errCorrupt
		}
		record = rest[size:]
	}
	return nil
}

// note notes that a segment has rows of a day.
func (j *journal) note(day calendar.Day, segment uint64) {
	if j.last.day == day && j.last.segment == segment {
		return
	}
	j.last.day, j.last.segment = day, segment
	j.mu.Lock()
	defer j.mu.Unlock()
	j.days[day] = segment
}

// holds tells whether the log has rows of a day that are not in the
// archive.
func (j *journal) holds(day calendar.Day) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, holds := j.days[day]
	return holds
}

// passed notes that a segment is in the archive.
func (j *journal) passed(segment uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.days, func(_ calendar.Day, last uint64) bool { return last <= segment })
}

// run syncs the log and moves segments that have ended, until stop is
// closed.
func (j *journal) run(stop <-chan struct{}) {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	var failed error
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		err := j.syncNow()
		if err == nil {
			err = j.moveEnded()
		}
		switch {
		case err != nil && failed == nil:
			j.logger.Error("the log of counts does not work", zap.Error(err))
		case err == nil && failed != nil:
			j.logger.Info("the log of counts works again")
		}
		failed = err
	}
}

// syncNow makes what the archive and the log have written reach the disk.
// A log that failed begins again if it can.
func (j *journal) syncNow() error {
	if j.log.Failed() != nil {
		return j.restore()
	}
	changes, err := j.archive.flush(j.confirmed.Load())
	if err != nil {
		return err
	}
	if changes > j.confirmed.Load() {
		return j.confirm(changes)
	}
	return j.log.Sync()
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
	number, err := j.log.Renew()
	if err != nil {
		return errors.Join(failure, err)
	}
	if err := j.settle(j.counts(), number); err != nil {
		return errors.Join(failure, err)
	}
	j.log.Mend()
	for segment := j.log.Ended(); segment != nil; segment = j.log.Ended() {
		if err := j.remove(segment); err != nil {
			return err
		}
	}
	return nil
}

// settle writes counts to the archive, and with the last of them that the
// log begins with a segment.
func (j *journal) settle(counts []ledger.Counter, segment uint64) error {
	rows := make([]change, len(counts), len(counts)+2)
	for i, c := range counts {
		rows[i] = countRow(appendCountKey(nil, c.Call), uint64(c.Used))
	}
	return j.archiveRows(append(rows, formatRows(segment)...))
}

func (j *journal) archiveRows(rows []change) error {
	for part := range slices.Chunk(rows, settleRows) {
		if _, err := j.archive.try(true, part); err != nil {
			return err
		}
	}
	return nil
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
	return j.archiveRows(append(counts.rows(), formatRows(segment.Number+1)...))
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

// close moves everything to the archive and closes the log. What could not
// be moved is still in the log when the store opens again.
func (j *journal) close() error {
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
	return errors.Join(err, j.log.Close())
}

// LoadDay implements ledger.Log. The log has no rows of a day that is not
// in memory.
func (j *journal) LoadDay(day calendar.Day, fn func(account, endpoint string, used int64)) error {
	return scanParallel(j.archive.db, dayPrefix(day), func(key, value []byte) error {
		account, endpoint, err := parseCountKey(key)
		if err != nil {
			return err
		}
		used, err := parseCount(value)
		if err == nil {
			fn(account, endpoint, used)
		}
		return err
	})
}

// Clear implements ledger.Log.
func (j *journal) Clear(calls []store.Call) error {
	changes := make([]change, len(calls))
	for i, call := range calls {
		changes[i] = change{key: appendCountKey(nil, call)}
	}
	return j.archive.write(true, changes...)
}
