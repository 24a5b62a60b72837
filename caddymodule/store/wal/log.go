// Package wal is a write-ahead log of small records, in mapped files.
//
// To append a record is to copy it into memory that the operating system
// writes to the disk by itself: no system call, no other goroutine, some
// hundred nanoseconds. What was appended survives the death of the process
// at any instruction; with Options.Sync it has reached the disk before
// Append returns, and survives the loss of power.
//
// A log is a row of segments, files of a fixed size that are written in
// full when they are made. So no record can meet a full disk, which a
// mapped file answers by ending the process. Whoever reads the log removes
// the segments that he is done with, oldest first.
//
// Every record is sealed with its place. A segment of which a part was
// changed, cut off or is missing is refused when it is opened, and so is a
// row of segments with a gap. What cannot be told from a crash is the loss
// of the last records, as if they had never been written.
package wal

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
)

// SegmentSize is the size of a segment unless Options say otherwise, in
// bytes.
const SegmentSize = 1 << 20

// MaxRecord is the size of the largest record that fits into such a
// segment, in bytes.
const MaxRecord = SegmentSize - headerSize - 2*wordSize

// ErrTooLarge says that a record does not fit into a segment.
var ErrTooLarge = errors.New("record is too large")

// Options change how a log works.
type Options struct {
	// Sync makes every record reach the disk before Append returns.
	Sync bool
	// Room tells why no further segment may be made now, nil if it may.
	// It is called before each.
	Room func() error
	// Size is the size of a new segment, in bytes; zero means SegmentSize.
	// Older segments of another size are used as they are.
	Size int
}

// Log appends records. Append, Rotate, Empty, Number and Close must not be
// called by two goroutines at once; all else may be, beside the first two.
type Log struct {
	dir string
	Options

	current *Segment
	at      int // where the next record goes
	flusher flusher

	full chan struct{} // wakes whoever waits for a segment

	// broken is the sync that failed. The kernel may have dropped what it
	// could not write, and says so once only: no later sync can be
	// believed.
	broken error

	mu     sync.Mutex
	ended  []*Segment // oldest first
	making sync.Mutex // held while a segment is made; guards what follows
	spare  *Segment
	next   uint64 // the number of the next segment that is made
}

// Open opens the log in a directory of which the segments before first are
// done with; 0 begins a log where there is none. It returns the segments
// that are left, oldest first, for the caller to use and to remove, and a
// log that goes on behind them. Options.Room is not asked.
func Open(dir string, first uint64, o Options) (l *Log, left []*Segment, err error) {
	r, err := openRow(dir, first)
	if err != nil {
		return nil, nil, err
	}
	if err = r.check(first); err == nil {
		err = removeUnfinished(dir)
	}
	if err != nil {
		return nil, nil, errors.Join(err, r.close())
	}
	o.Size = cmp.Or(o.Size, SegmentSize)
	l = &Log{dir: dir, Options: o, at: headerSize, full: make(chan struct{}, 1)}
	for _, s := range r {
		left = append(left, s.Segment)
	}
	l.next = first + 1
	if n := len(r) - 1; n >= 0 {
		l.next = r[n].number + 1
		if r[n].blank() {
			l.current, left = r[n].Segment, left[:n]
		}
	}
	if l.current == nil {
		if l.current, err = l.create(); err != nil {
			return nil, nil, errors.Join(err, r.close())
		}
	}
	l.flusher = newFlusher()
	return l, left, nil
}

// Append adds a record, which is copied. With durable it has reached the
// disk when Append returns, whatever Options.Sync says, and so has all
// before it. After an error nothing was added, with one
// exception: when a sync failed the record may come back after a restart.
// From then on the log fails always.
func (l *Log) Append(record []byte, durable bool) error {
	if l.broken != nil {
		return l.broken
	}
	if len(record) == 0 || len(record) > l.Size-headerSize-2*wordSize {
		return ErrTooLarge
	}
	takes := footprint(len(record))
	if l.at+takes+wordSize > len(l.current.file.Data) {
		if err := l.Rotate(); err != nil {
			return err
		}
	}
	data, at := l.current.file.Data, l.at
	copy(data[at+wordSize:], record)
	publish(data, at, word(l.current.number, at, uint32(len(record)), record))
	l.at += takes
	switch {
	case l.Sync:
		return l.flush(at)
	case durable:
		if err := l.flushEnded(); err != nil {
			return err
		}
		return l.flush(0)
	}
	return nil
}

// flushEnded makes the segments that have ended reach the disk: a record
// that outlived the end of the one in front of it would be damage.
func (l *Log) flushEnded() error {
	l.mu.Lock() // nobody removes one meanwhile
	defer l.mu.Unlock()
	for _, s := range l.ended {
		if err := l.flusher.flush(s, 0, len(s.file.Data)); err != nil {
			l.broken = fmt.Errorf("syncing: %w", err)
			return l.broken
		}
	}
	return nil
}

// Rotate ends the segment that is written to and begins another, which is
// there before that.
func (l *Log) Rotate() error {
	if l.broken != nil {
		return l.broken
	}
	next, err := l.take()
	if err != nil {
		return fmt.Errorf("beginning a segment: %w", err)
	}
	old, at := l.current, l.at
	publish(old.file.Data, at, word(old.number, at, endMark, nil))
	if l.Sync {
		if err := l.flush(at); err != nil {
			return errors.Join(err, next.Close()) // the log ends here
		}
	}
	l.mu.Lock()
	l.ended = append(l.ended, old)
	l.mu.Unlock()
	l.current, l.at = next, headerSize
	select {
	case l.full <- struct{}{}:
	default: // somebody is awake already
	}
	return nil
}

// flush makes the current segment reach the disk from a place on.
func (l *Log) flush(from int) error {
	to := min(l.at+wordSize, len(l.current.file.Data))
	if err := l.flusher.flush(l.current, from, to); err != nil {
		l.broken = fmt.Errorf("syncing: %w", err)
	}
	return l.broken
}

// take returns the next segment, a new one if none is ready.
func (l *Log) take() (*Segment, error) {
	l.making.Lock()
	defer l.making.Unlock()
	if err := l.prepare(); err != nil {
		return nil, err
	}
	s := l.spare
	l.spare = nil
	return s, nil
}

// Prepare makes the next segment ready, so that no Append has to.
func (l *Log) Prepare() error {
	l.making.Lock()
	defer l.making.Unlock()
	return l.prepare()
}

func (l *Log) prepare() (err error) {
	if l.spare != nil {
		return nil
	}
	if err = l.Room(); err == nil {
		l.spare, err = l.create()
	}
	return err
}

func (l *Log) create() (*Segment, error) {
	s, err := create(l.dir, l.next, l.Size)
	if err == nil {
		l.next++
	}
	return s, err
}

// Empty tells whether the segment that is written to has no record.
func (l *Log) Empty() bool { return l.at == headerSize }

// Number is that of the segment that is written to.
func (l *Log) Number() uint64 { return l.current.number }

// Full is sent to when a segment has ended.
func (l *Log) Full() <-chan struct{} { return l.full }

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

// Remove removes the segment that Ended returned.
func (l *Log) Remove() error {
	l.mu.Lock()
	s := l.ended[0]
	l.ended = l.ended[1:]
	l.mu.Unlock()
	return s.Remove()
}

// Close closes the files. What they hold stays.
func (l *Log) Close() error {
	err := l.flusher.close()
	l.flusher = direct{}
	for _, s := range append(l.ended, l.current, l.spare) {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	l.ended, l.current, l.spare = nil, nil, nil
	return err
}
