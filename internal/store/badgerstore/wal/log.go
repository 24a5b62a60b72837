// Package wal is a write-ahead log of small records in files.
//
// Append writes a record with one system call. The record survives the
// death of the process at any instruction. It survives a loss of power
// once Sync has returned. Each record has a mark: how far the log was known to
// be on the disk by then.
//
// A log is a sequence of segments: files of a fixed size. The caller
// reads segments that have ended and removes them, oldest first.
//
// After a failed write or sync the log refuses all records: the kernel may
// have dropped pages that it could not write, and reports that only once. A
// caller that has stored the log's content in another place can continue with
// Renew and Mend.
//
// Every record has a checksum that depends on its place. What cannot be read
// before the last mark is damage, and Scan refuses it. Behind the last mark a
// loss of power leaves any part of what was written: the segment ends before
// that. Open refuses a missing segment. So damage behind the last mark looks
// like a loss of power and is not detected.
package wal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/system"
)

// SegmentSize is the default size of a segment, in bytes. The caller stores
// each counter once for each segment, so small segments are expensive when
// many counters change.
const SegmentSize = 8 << 20

// MaxRecord is the size of the largest record, in bytes. A segment is larger than
// Options.Size if a record needs it.
const MaxRecord = endMark - 1

// ErrTooLarge says that a record is larger than MaxRecord.
var ErrTooLarge = errors.New("record is too large")

// Options change how a log works.
type Options struct {
	// CheckSpace returns an error if there is no space for another segment.
	// It is called before each but the first. Required.
	CheckSpace func() error
	// Size is the size of a new segment, in bytes; zero means SegmentSize.
	// Existing segments keep their size.
	Size int
	// Fill writes zeros to a new segment before it is used. Then a sync writes
	// no metadata of the file system. Without it, Linux can report a sync of
	// ext4 as done, and lose its records, if an error of the file system ends
	// its journal at that moment.
	Fill bool
	// DataSync makes a file's data reach the disk; nil means fdatasync(2).
	DataSync func(*os.File) error
}

// Log appends records. All methods are safe for concurrent use.
type Log struct {
	Options
	dir string

	// failure is the error of the first write or sync that failed.
	failure atomic.Pointer[error]
	written atomic.Int64 // the place up to which records are written
	synced  atomic.Int64 // the place up to which they are on the disk

	// A goroutine holds appending to append, syncing to sync, and both to begin a
	// segment, appending first. So a sync does not delay records.
	appending sync.Mutex
	syncing   sync.Mutex
	file      *os.File // of the current segment
	number    uint64
	size      int
	at        int    // where the next record goes; behind everything that was written
	records   int    // where the last record with content ends
	marked    int    // what the last mark tells
	buf       []byte // of one record
	next      uint64 // number of the next segment
	nextSize  int    // in bytes

	mu    sync.Mutex // guards ended
	ended []*Segment // oldest first
}

// Open begins a new segment after those that Scan returned for the same
// directory and first. It deletes the segments before first. For a new log,
// first is 0 and there are no segments. It does not call Options.CheckSpace.
func Open(dir string, first uint64, segments []*Segment, o Options) (*Log, error) {
	if err := checkSequence(first, segments); err != nil {
		return nil, err
	}
	if err := removeOthers(dir, first); err != nil {
		return nil, err
	}
	o.Size = cmp.Or(o.Size, SegmentSize)
	if o.DataSync == nil {
		o.DataSync = dataSync
	}
	l := &Log{Options: o, dir: dir, next: max(first, 1)}
	if n := len(segments); n > 0 {
		l.next = segments[n-1].Number + 1
	}
	file, err := l.create(0)
	if err != nil {
		return nil, err
	}
	l.begin(file)
	return l, nil
}

// create makes the file of the next segment, of that size at least. It is synced
// before it gets its name.
func (l *Log) create(least int) (*os.File, error) {
	path := segmentPath(l.dir, l.next)
	l.nextSize = max(l.Size, least)
	file, err := writeEmpty(path+unfinished, l.next, l.nextSize, l.Fill)
	if err != nil {
		return nil, err
	}
	// Windows does not rename an open file.
	if err = errors.Join(l.DataSync(file), file.Close()); err == nil {
		err = errors.Join(os.Rename(path+unfinished, path), system.SyncDir(l.dir))
	}
	if err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// begin makes a file from create the current segment.
func (l *Log) begin(file *os.File) {
	l.file, l.number, l.size = file, l.next, l.nextSize
	l.at, l.records, l.marked = headerSize, headerSize, headerSize
	l.written.Store(headerSize)
	l.synced.Store(headerSize)
	l.next++
}

// Append writes a record and does not keep it. When it returns, the record
// survives the death of the process. After an error the log may have a part
// of the record, which Scan ignores. An empty record is only a mark.
func (l *Log) Append(record []byte) error {
	l.appending.Lock()
	defer l.appending.Unlock()
	return l.add(record)
}

func (l *Log) add(record []byte) error {
	if err := l.Failed(); err != nil {
		return err
	}
	if len(record) > MaxRecord {
		return ErrTooLarge
	}
	if l.at+footprint(len(record))+headSize > l.size {
		if err := l.rotate(headerSize + footprint(len(record)) + headSize); err != nil {
			return err
		}
	}
	if err := l.write(uint32(len(record)), record); err != nil {
		return l.Fail(fmt.Errorf("writing: %w", err))
	}
	if len(record) > 0 {
		l.records = l.at
	}
	l.written.Store(int64(l.at))
	return nil
}

// write writes a record of a size, or the end of the segment.
func (l *Log) write(size uint32, record []byte) error {
	l.marked = int(l.synced.Load())
	l.buf = appendRecord(l.buf[:0], l.number, l.at, size, newMark(time.Now(), l.marked), record)
	_, err := l.file.WriteAt(l.buf, int64(l.at))
	l.at += len(l.buf) // after an error, too: a part may be written
	return err
}

// Mark writes a mark if all records are on the disk and no mark tells it. Call it
// when there may be no record for some time.
func (l *Log) Mark() error {
	l.appending.Lock()
	defer l.appending.Unlock()
	if l.Failed() != nil || l.marked >= l.records || int(l.synced.Load()) < l.records {
		return l.Failed()
	}
	return l.add(nil)
}

// Sync returns when all records appended before it are on the disk. After an
// error they may be lost, or be there after a restart.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	written := l.written.Load()
	if err := l.Failed(); err != nil || l.synced.Load() == written {
		return err
	}
	if err := l.DataSync(l.file); err != nil {
		return l.Fail(fmt.Errorf("syncing: %w", err))
	}
	l.synced.Store(written)
	return nil
}

// Failed returns the write or the sync that failed, nil if none did.
func (l *Log) Failed() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Fail makes the log refuse all records, as after a write that failed: for a
// caller that cannot go on. It returns the first error.
func (l *Log) Fail(err error) error {
	l.failure.CompareAndSwap(nil, &err)
	return l.Failed()
}

// Rotate ends the current segment and begins another one.
func (l *Log) Rotate() error {
	l.appending.Lock()
	defer l.appending.Unlock()
	if err := l.Failed(); err != nil {
		return err
	}
	return l.rotate(0)
}

// rotate creates the next segment before it ends the current one, and syncs
// the end before the next one gets a record, so that Open accepts what a crash
// or a loss of power leaves at any point.
func (l *Log) rotate(least int) error {
	next, err := l.prepare(least)
	if err != nil {
		return err
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	// A sync can have failed meanwhile. Then a sync that works proves nothing.
	if err := l.Failed(); err != nil {
		return errors.Join(err, next.Close())
	}
	if err = l.write(endMark, nil); err == nil {
		err = l.DataSync(l.file)
	}
	if err != nil {
		err = l.Fail(fmt.Errorf("ending a segment: %w", err))
		return errors.Join(err, next.Close()) // the next call of create overwrites the file
	}
	return l.replace(next)
}

// prepare is create if there is space for another segment.
func (l *Log) prepare(least int) (*os.File, error) {
	err := l.CheckSpace()
	if err != nil {
		return nil, fmt.Errorf("beginning a segment: %w", err)
	}
	next, err := l.create(least)
	if err != nil {
		return nil, fmt.Errorf("beginning a segment: %w", err)
	}
	return next, nil
}

// replace makes next the current segment. Both locks are held.
func (l *Log) replace(next *os.File) error {
	l.mu.Lock()
	l.ended = append(l.ended, &Segment{Number: l.number, path: segmentPath(l.dir, l.number)})
	l.mu.Unlock()
	err := l.file.Close()
	l.begin(next)
	return err
}

// Renew begins an empty segment after a failure and returns its number. The
// log still refuses records. The caller stores the content of the segments
// before it in another place, then calls Mend. A log that works is refused:
// its current segment would get no end, and records would follow.
func (l *Log) Renew() (number uint64, err error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	if l.Failed() == nil {
		return 0, errors.New("renewing a log that has not failed")
	}
	if l.at == headerSize {
		return l.number, nil // this segment is empty and unused
	}
	next, err := l.prepare(0)
	if err != nil {
		return 0, err
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	err = l.replace(next)
	return l.number, err
}

// Mend makes the log accept records again after Renew.
func (l *Log) Mend() { l.failure.Store(nil) }

// Empty tells whether the current segment has no records.
func (l *Log) Empty() bool {
	l.appending.Lock()
	defer l.appending.Unlock()
	return l.records == headerSize
}

// Number returns the number of the current segment.
func (l *Log) Number() uint64 {
	l.appending.Lock()
	defer l.appending.Unlock()
	return l.number
}

// Ended returns the oldest segment that has ended and is not removed, or nil.
func (l *Log) Ended() *Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ended) == 0 {
		return nil
	}
	return l.ended[0]
}

// Remove deletes the segment that Ended returned.
func (l *Log) Remove() error {
	l.mu.Lock()
	s := l.ended[0]
	l.ended = l.ended[1:]
	l.mu.Unlock()
	return s.Remove()
}

// Close closes the current segment. Call it once.
func (l *Log) Close() error {
	l.appending.Lock()
	defer l.appending.Unlock()
	l.syncing.Lock()
	defer l.syncing.Unlock()
	closed := fmt.Errorf("log is closed: %w", os.ErrClosed)
	l.failure.Store(&closed)
	return l.file.Close()
}

// removeOthers deletes the segments before first, and files that a crash left
// while create ran.
func removeOthers(dir string, first uint64) error {
	paths, err := list(dir, extension+unfinished)
	if err != nil {
		return err
	}
	segments, err := list(dir, extension)
	if err != nil {
		return err
	}
	for _, path := range segments {
		if number, err := numberOf(path); err == nil && number < first {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
