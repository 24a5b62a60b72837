package badgerstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/wal"
)

// journal is the ledger's log. Every count is in a write-ahead log before
// its call is admitted. When a segment of the log has ended, its counts are
// written to the archive, each counter once. They are values, not
// differences, so they can be written twice.
//
// A day stays in the ledger's memory while the log has counts of it, so that
// readers do not miss counts that the archive lacks.
//
// The log also has the number of the archive's last change. An archive with
// a lower number has lost changes.
type journal struct {
	archive *archive
	disk    *disk
	log     *wal.Log
	sync    bool // every record is synced
	batch   int  // batchRows, except in tests
	logger  *zap.Logger
	// committed is Options.Committed, which may be nil.
	committed func(took time.Duration, calls int)
	counts    func() []ledger.Count // that changed; see ledger.Moved

	// append writes a record and syncs it if sync is set. Tests replace it.
	append    func(record []byte, sync bool) error
	appending sync.Mutex    // held to append; guards buf and last
	buf       []byte        // one record
	confirmed atomic.Uint64 // the greatest number of a change in the log

	// syncBegan is when the background began the sync that it waits for, nil
	// if it waits for none. It has a monotonic reading, so that a step of the
	// clock does not look like a disk that hangs.
	syncBegan atomic.Pointer[time.Time]

	// Lock archiving before you write counts to the archive, restore a log that
	// failed, remove segments, or end one that is not full. Calls end a full
	// segment without archiving, and the end is on the disk before the next
	// record. Only restore ends a segment without an end mark. No record
	// follows until the archive does not need it.
	archiving sync.Mutex

	mu   sync.Mutex
	days map[calendar.Day]uint64 // the last segment with counts of a day that the archive lacks
	last struct {                // the newest entry of days
		day     calendar.Day
		segment uint64
	}
}

// openJournal checks that the archive has all changes that the log knows,
// writes the counts that a crash left in the log to the archive, and begins
// an empty segment.
func openJournal(d *disk, a *archive, f format, o Options, logger *zap.Logger) (*journal, error) {
	segments, err := wal.Scan(d.dir, f.segment)
	if err != nil {
		return nil, damaged("its log: %w", err)
	}
	if err := checkChanges(f, segments); err != nil {
		return nil, err
	}
	// A first start that was interrupted leaves an empty segment.
	hasRecords := slices.ContainsFunc(segments, func(s *wal.Segment) bool { return !s.Empty() })
	if hasRecords && f.version == "" {
		return nil, damaged("there is a log and nothing that it belongs to")
	}
	j := &journal{archive: a, disk: d, sync: o.Sync, batch: cmp.Or(o.batchRows, batchRows), logger: logger, committed: o.Committed, days: map[calendar.Day]uint64{}}
	j.append = j.appendSynced
	j.confirmed.Store(f.changes)
	j.log, err = wal.Open(d.dir, f.segment, segments, wal.Options{
		CheckSpace: func() error { return a.checkDisk() }, Size: o.segmentSize, Fill: o.Sync, DataSync: o.dataSync,
	})
	if err != nil {
		return nil, damaged("its log: %w", err)
	}
	if err := j.archiveLeft(segments); err != nil {
		return nil, errors.Join(err, j.log.Close())
	}
	a.confirm, a.logFailed = j.confirm, j.log.Failed
	return j, nil
}

// checkChanges refuses an archive that has lost changes which the log knows:
// a file of Badger is missing, empty or from an older copy. After a crash the
// archive can have more changes than the log knows.
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

// archiveLeft writes the segments that a crash left to the archive. Without
// any, the archive still needs the number of the log's first segment.
func (j *journal) archiveLeft(left []*wal.Segment) error {
	for _, segment := range left {
		if err := j.archiveSegment(segment); err != nil {
			return err
		}
	}
	if len(left) == 0 {
		if err := j.archive.writeRows(formatRows(j.log.Number())); err != nil {
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
	if j.committed == nil {
		return j.appendGroup(g)
	}
	began := time.Now()
	err := j.appendGroup(g)
	if err == nil {
		j.committed(time.Since(began), g.Changes)
	}
	return err
}

func (j *journal) appendGroup(g *ledger.Group) error {
	if err := errors.Join(j.archive.failed(), j.hangs()); err != nil {
		return err
	}
	j.appending.Lock()
	defer j.appending.Unlock()
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

// confirm writes the number of a change to the log, after the archive has
// the change on the disk. In the opposite order a crash between the two would
// look like damage.
func (j *journal) confirm(changes uint64) error {
	j.appending.Lock()
	err := j.append(appendRow(nil, changesKey, changes), false)
	if err == nil && changes > j.confirmed.Load() {
		j.confirmed.Store(changes)
	}
	j.appending.Unlock()
	if err == nil {
		err = j.log.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}

// appendCount appends a row of a record.
func appendCount(buf []byte, c *ledger.Count) []byte {
	buf = binary.AppendUvarint(buf, uint64(dayEnd+len(c.Holder)+1+len(c.Endpoint)))
	buf = appendCountKey(buf, c.Day, c.Holder, c.Endpoint)
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

// note notes that a segment has counts of a day.
func (j *journal) note(day calendar.Day, segment uint64) {
	if j.last.day == day && j.last.segment == segment {
		return
	}
	j.last.day, j.last.segment = day, segment
	j.mu.Lock()
	defer j.mu.Unlock()
	j.days[day] = segment
}

// holds tells whether the log has counts of a day that the archive lacks.
func (j *journal) holds(day calendar.Day) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, holds := j.days[day]
	return holds
}

// archived notes that a segment is in the archive.
func (j *journal) archived(segment uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.days, func(_ calendar.Day, last uint64) bool { return last <= segment })
}

// LoadDay implements ledger.Log. The log has no counts of a day that is not in
// memory.
func (j *journal) LoadDay(day calendar.Day, fn func(holder, endpoint string, used int64)) error {
	return scanParallel(j.archive.db, dayPrefix(day), func(key, value []byte) error {
		holder, endpoint, err := parseCountKey(key)
		if err != nil {
			return err
		}
		used, err := parseCount(value)
		if err == nil {
			fn(holder, endpoint, used)
		}
		return err
	})
}

// LoadHolder implements ledger.Log. As in LoadDay, the archive has all counts
// of days that are not in memory.
func (j *journal) LoadHolder(holder string, days []calendar.Day, fn func(endpoint string, used int64)) error {
	return j.archive.counts(holder, holder, days, func(_ string, c store.Count) { fn(c.Endpoint, c.Used) })
}

// Edit implements ledger.Log. Each edit is in one transaction.
func (j *journal) Edit(edits []ledger.Edit) error {
	return j.archive.writeDurably(func() (changes []change, err error) {
		err = j.archive.view(func(txn *badger.Txn) error {
			for _, e := range edits {
				of, err := editTxn(txn, &e)
				if err != nil {
					return err
				}
				changes = append(changes, of...)
			}
			return nil
		})
		return changes, err
	})
}

// editTxn returns the rows that an edit changes, which belong together.
func editTxn(txn *badger.Txn, e *ledger.Edit) (rows []change, err error) {
	used := make([]int64, len(e.Holders))
	for i, holder := range e.Holders {
		value, err := valueTxn(txn, appendCountKey(nil, e.Day, holder, e.Endpoint))
		if err == nil && value != nil {
			used[i], err = parseCount(value)
		}
		if err != nil {
			return nil, err
		}
	}
	e.Run(used, func(holder string, used int64) {
		row := countRow(appendCountKey(nil, e.Day, holder, e.Endpoint), uint64(used))
		row.joined = len(rows) > 0
		rows = append(rows, row)
	})
	return rows, nil
}
