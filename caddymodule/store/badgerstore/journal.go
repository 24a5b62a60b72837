package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
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

	// settleAgain is the pause before what failed is tried again.
	settleAgain = 5 * time.Second
)

// journal is the ledger's log: every count is in a write-ahead log before
// its call is admitted, and moves to the archive behind that, a segment at
// a time and each counter once per segment. The rows of a segment are
// values, not differences, so they may be moved twice.
//
// The days that the log has rows of are in the ledger's memory for as long
// as it has them, so nobody misses what the archive does not have yet.
type journal struct {
	archive *archive
	disk    *disk
	log     *wal.Log
	append  func(record []byte, durable bool) error // log.Append
	logger  *zap.Logger
	buf     []byte // one record; only one Append runs at a time

	moving sync.Mutex // held while ended segments are moved

	mu   sync.Mutex
	days map[calendar.Day]uint64 // the last segment with rows of a day, if it is still needed
	last struct {                // what days was told last, for Append alone
		day     calendar.Day
		segment uint64
	}
}

// openJournal moves what a crash has left in the log to the archive, and
// begins anew behind that.
func openJournal(d *disk, a *archive, f format, o Options, logger *zap.Logger) (*journal, error) {
	log, left, err := wal.Open(d.dir, f.segment, wal.Options{Sync: o.Sync, Room: func() error { return a.room() }, Size: o.segmentSize})
	if err != nil {
		return nil, damaged("its log: %w", err)
	}
	j := &journal{archive: a, disk: d, log: log, append: log.Append, logger: logger, days: map[calendar.Day]uint64{}}
	if err := j.recover(f, left); err != nil {
		for _, segment := range left {
			err = errors.Join(err, segment.Close())
		}
		return nil, errors.Join(err, log.Close())
	}
	return j, nil
}

func (j *journal) recover(f format, left []*wal.Segment) error {
	if f.version != version && len(left) > 0 {
		return damaged("there is a log and nothing that it belongs to")
	}
	for _, segment := range left {
		if err := j.move(segment); err != nil {
			return err
		}
	}
	if f.segment != j.log.Number() && len(left) == 0 {
		if err := j.archive.try(true, formatRows(j.log.Number())); err != nil {
			return err
		}
	}
	for _, segment := range left {
		if err := segment.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// Append implements ledger.Log. The log needs no space on the disk, but
// what is in it has to be moved one day.
func (j *journal) Append(g *ledger.Group) error {
	if err := j.archive.failed(); err != nil {
		return err
	}
	if err := j.disk.checkRecently(); err != nil {
		return err
	}
	j.buf = j.buf[:0]
	for i := range g.Counts {
		j.buf = appendCount(j.buf, &g.Counts[i])
	}
	if err := j.append(j.buf, g.Sync); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	segment := j.log.Number()
	for i := range g.Counts {
		j.note(g.Counts[i].Day, segment)
	}
	return nil
}

// appendCount appends a row of a record: the length of its key, the key
// as it is in the archive, and the count.
func appendCount(buf []byte, c *ledger.CountChange) []byte {
	buf = binary.AppendUvarint(buf, uint64(countKeySize(c.Call)))
	buf = appendCountKey(buf, c.Call)
	return binary.AppendUvarint(buf, uint64(c.Used))
}

// eachCount calls fn with the rows of a record. The key is valid until it
// returns.
func eachCount(record []byte, fn func(key []byte, used uint64)) error {
	for len(record) > 0 {
		length, size := binary.Uvarint(record)
		if size <= 0 || length > uint64(len(record)-size) {
			return fmt.Errorf("its log: %w", errCorrupt)
		}
		key, rest := record[size:size+int(length)], record[size+int(length):]
		used, size := binary.Uvarint(rest)
		if size <= 0 || used > uint64(store.Unlimited) || len(key) < dayEnd || key[0] != prefixCount {
			return fmt.Errorf("its log: %w", errCorrupt)
		}
		fn(key, used)
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

// run makes the segment that comes next and moves those that have ended,
// until stop is closed.
func (j *journal) run(stop <-chan struct{}) {
	again := time.NewTicker(settleAgain)
	defer again.Stop()
	for {
		if err := j.settle(); err != nil {
			j.logger.Error("moving counts to the archive", zap.Error(err))
		}
		select {
		case <-stop:
			return
		case <-j.log.Full():
		case <-again.C:
		}
	}
}

// settle moves all segments that have ended to the archive, having made
// the one that will follow them.
func (j *journal) settle() error {
	if err := j.log.Prepare(); err != nil {
		return err
	}
	return j.moveEnded()
}

// moveEnded moves all segments that have ended to the archive.
func (j *journal) moveEnded() error {
	j.moving.Lock()
	defer j.moving.Unlock()
	for segment := j.log.Ended(); segment != nil; segment = j.log.Ended() {
		if err := j.move(segment); err != nil {
			return err
		}
		j.passed(segment.Number())
		if err := j.log.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// move writes the counts of a segment to the archive, and with the last of
// them that the segment is needed no more.
func (j *journal) move(segment *wal.Segment) error {
	var counts lastCounts
	if err := segment.Each(counts.read); err != nil {
		return err
	}
	rows := append(counts.rows(), formatRows(segment.Number()+1)...)
	for part := range slices.Chunk(rows, settleRows) {
		if err := j.archive.try(true, part); err != nil {
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
	return eachCount(record, func(key []byte, used uint64) {
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
	})
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
	if !j.log.Empty() {
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
