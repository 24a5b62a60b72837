// Package wal is a write-ahead log of small records in files.
//
// Append writes a record with one system call. The record survives the
// death of the process at any instruction. It survives a loss of power
// once Sync has returned.
//
// A log is a sequence of segments: files of a fixed size, which are sparse
// until they are written to. The caller reads segments that have ended and
// removes them, oldest first.
//
// After a write or a sync that failed, the log refuses every record: the
// kernel may have forgotten pages that it could not write, and it reports
// that only once. Renew and Mend let a caller go on that has what the
// failed segment held in another place.
//
// Every record has a checksum that depends on its place. Scan refuses a
// segment with a part that was changed, cut off or lost, and Open refuses
// a gap in the sequence. The loss of the last records looks like a crash
// and is not noticed.
package wal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// SegmentSize is the size of a new segment unless Options say otherwise, in
// bytes. Each counter that moves is read back once for each segment, so
// small segments are expensive where many counters move.
const SegmentSize = 8 << 20

// MaxRecord is the size of the largest record, in bytes. Of smaller
// segments, Options.Size, the largest record is smaller too.
const MaxRecord = 1<<20 - headerSize - 2*wordSize

// ErrTooLarge says that a record is empty or does not fit into a segment.
var ErrTooLarge = errors.New("record is too large")

// Options change how a log works.
type Options struct {
	// CheckSpace says why no further segment may be made now, nil if it may.
	// It is called before each. Required.
	CheckSpace func() error
	// Size is the size of a new segment, in bytes; zero means SegmentSize.
	// Older segments of another size are used as they are.
	Size int
	// DataSync makes a file's data reach the disk; nil means fdatasync(2).
	DataSync func(*os.File) error
}

// Log appends records. All methods are safe for concurrent use.
type Log struct {
	Options
	dir string

	// failure is the write or the sync that failed.
	failure atomic.Pointer[error]
	dirty   atomic.Bool // something was written since the last sync

	// writing is held to append and to begin a segment, and syncing, after
	// it, to sync and to begin a segment: a sync does not delay a record.
	appending sync.Mutex
	syncing   sync.Mutex
	file      *os.File // of the current segment
	number    uint64
	size      int
	at        int    // where the next record goes
	buf       []byte // of one record
	next      uint64 // number of the next segment

	mu    sync.Mutex // guards ended
	ended []*Segment // oldest first
}

// Open begins a log behind the segments that Scan returned for the same
// directory and first. The segments before first are removed. A new log
// has 0 for first and no segments. Options.CheckSpace is not asked.
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
	file, err := l.create()
	if err != nil {
		return nil, err
	}
	l.begin(file)
	return l, nil
}

// create makes an empty segment, which is on the disk when it has its name.
func (l *Log) create() (*os.File, error) {
	path := segmentPath(l.dir, l.next)
	file, err := writeEmpty(path+unfinished, l.next, l.Size)
	if err != nil {
		return nil, err
	}
	// Windows cannot rename a file that is open.
	if err := errors.Join(l.DataSync(file), file.Close()); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Rename(path+unfinished, path), syncDir(l.dir)); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// begin makes a file that create returned the current segment.
func (l *Log) begin(file *os.File) {
	l.file, l.number, l.size, l.at = file, l.next, l.Size, headerSize
	l.next++
}

// Append writes a record, which is copied. When it returns, the record
// survives the death of the process. After an error the log may have a
// part of the record, which Scan leaves out.
func (l *Log) Append(record []byte) error {
	l.appending.Lock()
	defer l.appending.Unlock()
	if err := l.Failed(); err != nil {
		return err
	}
	if len(record) == 0 || len(record) > min(MaxRecord, l.Size-headerSize-2*wordSize) {
		return ErrTooLarge
	}
	if l.at+footprint(len(record))+wordSize > l.size {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	l.buf = appendRecord(l.buf[:0], l.number, l.at, record)
	_, err := l.file.WriteAt(l.buf, int64(l.at))
	l.dirty.Store(true) // also by a part of a record
	if err != nil {
		return l.fail(fmt.Errorf("writing: %w", err))
	}
	l.at += len(l.buf)
	return nil
}

// Sync returns when all records that were appended before it are on the
// disk. After an error they may be lost, or come back after a restart.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.Failed(); err != nil || !l.dirty.Swap(false) {
		return err
	}
	if err := l.DataSync(l.file); err != nil {
		return l.fail(fmt.Errorf("syncing: %w", err))
	}
	return nil
}

// Failed returns the write or the sync that failed, nil if none did.
func (l *Log) Failed() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

func (l *Log) fail(err error) error {
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
	return l.rotate()
}

// rotate makes the next segment before the current one ends, and syncs the
// end before the next one gets a record: a crash or a loss of power at any
// point leaves what Open accepts.
func (l *Log) rotate() error {
	next, err := l.prepare()
	if err != nil {
		return err
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	end := binary.LittleEndian.AppendUint64(nil, word(l.number, l.at, endMark, nil))
	_, err = l.file.WriteAt(end, int64(l.at))
	if err == nil {
		err = l.DataSync(l.file)
	}
	if err != nil {
		err = l.fail(fmt.Errorf("ending a segment: %w", err))
		return errors.Join(err, next.Close()) // the next one that is made replaces its file
	}
	return l.replace(next)
}

// prepare makes the next segment if there is room for it.
func (l *Log) prepare() (*os.File, error) {
	err := l.CheckSpace()
	if err != nil {
		return nil, fmt.Errorf("beginning a segment: %w", err)
	}
	next, err := l.create()
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
	l.dirty.Store(false)
	return err
}

// Renew begins an empty segment behind one that failed and returns its
// number. The log still refuses records. The caller stores all that the
// segments before it held in another place, and calls Mend.
func (l *Log) Renew() (number uint64, err error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	if l.at == headerSize && !l.dirty.Load() {
		return l.number, nil // it was renewed and has lost nothing
	}
	next, err := l.prepare()
	if err != nil {
		return 0, err
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	err = l.replace(next)
	return l.number, err
}

// Mend lets a log that was renewed take records again.
func (l *Log) Mend() { l.failure.Store(nil) }

// Empty tells whether the current segment has no record.
func (l *Log) Empty() bool {
	l.appending.Lock()
	defer l.appending.Unlock()
	return l.at == headerSize
}

// Number is that of the current segment.
func (l *Log) Number() uint64 {
	l.appending.Lock()
	defer l.appending.Unlock()
	return l.number
}

// Ended returns the oldest segment that has ended and was not removed, nil
// if there is none.
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

// Close closes the current file, once. What the log holds stays.
func (l *Log) Close() error {
	l.appending.Lock()
	defer l.appending.Unlock()
	l.syncing.Lock()
	defer l.syncing.Unlock()
	closed := fmt.Errorf("log is closed: %w", os.ErrClosed)
	l.failure.Store(&closed)
	return l.file.Close()
}

// removeOthers deletes the segments before first and what a crash left
// while a segment was made.
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
