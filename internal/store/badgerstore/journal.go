package badgerstore

import (
	"cmp"
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

// journal is the ledger's log, and that of the changes of rows. Every count is
// in a write-ahead log before its call is admitted, and the rows of a change are
// before they are written to the archive. When a segment of the log has ended,
// its counts are written to the archive, each counter once. They are values, not
// differences, so they can be written twice. The rows are written again as they
// are then, because only that makes sure that they are on the disk: see archive.
//
// A day stays in the ledger's memory while the log has counts of it, so that
// readers do not miss counts that the archive lacks.
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

	// append writes a record. Tests replace it.
	append    func(record []byte) error
	appending sync.Mutex // held to append; guards buf and last
	buf       []byte     // one record

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

	// keeping is held for reading from before a receipt is in the log until it is in
	// the archive.
	keeping sync.RWMutex

	mu      sync.Mutex
	days    map[calendar.Day]uint64        // the last segment with counts of a day that the archive lacks
	changed map[uint64]map[string]struct{} // the keys of the rows in a segment
	last    struct {                       // the newest entry of days
		day     calendar.Day
		segment uint64
	}
}

// openJournal writes what a crash left in the log to the archive, and begins an
// empty segment.
func openJournal(d *disk, a *archive, f format, o Options, logger *zap.Logger) (*journal, error) {
	segments, err := wal.Scan(d.dir, f.segment)
	if err != nil {
		return nil, damagedLog(err)
	}
	// A first start that was interrupted leaves an empty segment.
	hasRecords := slices.ContainsFunc(segments, func(s *wal.Segment) bool { return !s.Empty() })
	if hasRecords && f.version == "" {
		return nil, damaged("there is a log and nothing that it belongs to")
	}
	j := &journal{
		archive: a, disk: d, sync: o.Sync, batch: cmp.Or(o.batchRows, batchRows), logger: logger, committed: o.Committed,
		days: map[calendar.Day]uint64{}, changed: map[uint64]map[string]struct{}{},
	}
	j.log, err = wal.Open(d.dir, f.segment, segments, wal.Options{
		CheckSpace: func() error { return a.checkDisk() }, Size: o.segmentSize, Fill: o.Sync, DataSync: o.dataSync,
	})
	if err != nil {
		return nil, damagedLog(err)
	}
	j.append = j.log.Append
	if err := j.archiveLeft(segments); err != nil {
		return nil, errors.Join(err, j.log.Close())
	}
	a.log, a.inLog = j.appendChanges, j.inLog
	return j, nil
}

func damagedLog(err error) error {
	if errors.Is(err, wal.ErrDamaged) {
		return damaged("its log: %w", err)
	}
	return fmt.Errorf("its log: %w", err)
}

// archiveLeft writes the segments that a crash left to the archive.
func (j *journal) archiveLeft(left []*wal.Segment) error {
	for _, segment := range left {
		j.warnOfTorn(segment.Torn())
		var rows lastRows
		if err := segment.Each(func(record []byte) error { return eachRow(record, rows.count, rows.row) }); err != nil {
			return err
		}
		if err := j.archiveRows(rows.changes); err != nil {
			return err
		}
	}
	if err := j.beginWith(j.log.Number()); err != nil {
		return err
	}
	for _, segment := range left {
		if err := segment.Remove(); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) warnOfTorn(t *wal.Torn) {
	if t == nil {
		return
	}
	fields := []zap.Field{zap.String("file", t.File), zap.Int("byte", t.At)}
	for name, at := range map[string]time.Time{"since": t.Since, "until": t.Until} {
		if !at.IsZero() {
			fields = append(fields, zap.Time(name, at))
		}
	}
	j.logger.Warn("the power was lost before all of the log was on the disk: calls of its last moment are not counted", fields...)
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
	err := errors.Join(j.archive.failed(), j.hangs())
	if err == nil {
		err = j.appendCounts(g)
	}
	if err == nil && (g.Sync || j.sync) {
		err = j.log.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}

func (j *journal) appendCounts(g *ledger.Group) error {
	counts := g.Counts
	j.appending.Lock()
	defer j.appending.Unlock()
	if err := j.disk.checkRecently(); err != nil {
		return err
	}
	receipts := receiptRows(g.Receipts)
	var err error
	if j.buf, err = beginCounts(j.buf[:0], receipts); err != nil {
		return err
	}
	for i := range counts {
		j.buf = appendCount(j.buf, &counts[i])
	}
	if err := j.append(j.buf); err != nil {
		return err
	}
	segment := j.log.Number()
	for i := range counts {
		j.note(counts[i].Day, segment)
	}
	j.noteRows(receipts)
	return nil
}

// appendChanges appends the rows of changes, each group as one record. After an
// error none of them is made: a log that has some of them is not used again. It
// syncs the log if sync is set, and always with Options.Sync.
func (j *journal) appendChanges(groups [][]change, sync bool) error {
	err := j.hangs()
	for i := 0; i < len(groups) && err == nil; i++ {
		if err = j.appendRows(groups[i]); err != nil && i > 0 {
			err = j.log.Fail(err)
		}
	}
	if err == nil && (sync || j.sync) {
		err = j.log.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}

func (j *journal) appendRows(group []change) error {
	record, err := encodeRows(group)
	if err != nil {
		return err
	}
	j.appending.Lock()
	defer j.appending.Unlock()
	if err := j.append(record); err != nil {
		return err
	}
	j.noteRows(group)
	return nil
}

// noteRows notes that the segment has rows. appending is held.
func (j *journal) noteRows(group []change) {
	if len(group) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	keys := j.changed[j.log.Number()]
	if keys == nil {
		keys = map[string]struct{}{}
		j.changed[j.log.Number()] = keys
	}
	for _, c := range group {
		keys[string(c.key)] = struct{}{}
	}
}

// inLog tells whether the log has a row, so that it would be written over what is
// only in Badger when the store opens.
func (j *journal) inLog(key []byte) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, keys := range j.changed {
		if _, found := keys[string(key)]; found {
			return true
		}
	}
	return false
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
	delete(j.changed, segment)
}

// changedUntil returns the keys of the rows in the segments up to a number.
func (j *journal) changedUntil(last uint64) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := map[string]struct{}{}
	for segment, keys := range j.changed {
		if segment <= last {
			maps.Copy(all, keys)
		}
	}
	return slices.Sorted(maps.Keys(all))
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
	return j.archive.writeChecked(durable, func() (changes []change, err error) {
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
	used := e.Values(func(day calendar.Day, holder string) (used int64) {
		value, failed := valueTxn(txn, appendCountKey(nil, day, holder, e.Endpoint))
		if failed == nil && value != nil {
			used, failed = parseCount(value)
		}
		err = errors.Join(err, failed)
		return used
	})
	if err != nil {
		return nil, err
	}
	e.Run(used, func(day calendar.Day, holder string, used int64) {
		row := countRow(appendCountKey(nil, day, holder, e.Endpoint), uint64(used))
		row.joined = len(rows) > 0
		rows = append(rows, row)
	})
	return rows, nil
}
