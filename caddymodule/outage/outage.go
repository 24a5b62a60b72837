// Package outage logs failures that repeat with every request.
//
// A full disk or a dead service makes each request fail. A line for each
// would fill the disk that the log is on. A Log writes a line when the
// failures begin, one a minute with their number while they go on, and one
// when they end.
package outage

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// every is the shortest time between two lines about failures.
	every = time.Minute

	// calm is how long nothing must fail until a success counts as the
	// end. Successes between failures, such as of the healthy one of two
	// services, are no end.
	calm = time.Second
)

// Log is the log of one thing that can fail. It is safe for concurrent
// use.
type Log struct {
	logger *slog.Logger
	level  slog.Level
	what   string

	failing atomic.Bool // changed under mu

	mu       sync.Mutex
	failures int64       // since failing became true
	untold   int64       // failures that no line tells yet
	newest   []slog.Attr // of the newest of them
	failed   time.Time   // when the newest was
	line     time.Time   // when the newest line about failures was
	waiting  bool        // for a timer that will write the next one
	told     bool        // a line tells of the failures since failing became true
}

// New returns a Log that writes lines of this level, whose message is
// what: the thing that is done, such as "asking the store". The line about
// the end has the level INFO.
func New(logger *slog.Logger, level slog.Level, what string) *Log {
	return &Log{logger: logger, level: level, what: what}
}

// Failed notes a failure. Its line has attrs. A line that tells of several
// failures has the attrs of the newest and their number, as "failures".
func (l *Log) Failed(attrs ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.failing.Load() {
		l.failing.Store(true)
		l.failures = 0
	}
	l.failures++
	l.untold++
	l.newest, l.failed = attrs, time.Now()
	if l.waiting {
		return
	}
	if since := l.failed.Sub(l.line); !l.line.IsZero() && since < every {
		l.waiting = true
		time.AfterFunc(every-since, l.tick)
		return
	}
	l.tell()
}

// Worked notes a success. Without failures before it, it costs nothing.
func (l *Log) Worked() {
	if !l.failing.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.failing.Load() || time.Since(l.failed) < calm {
		return
	}
	l.failing.Store(false)
	if !l.told {
		return // the timer tells of failures that come soon after others
	}
	l.told, l.untold, l.newest = false, 0, nil
	l.write(slog.LevelInfo, l.what+" works again", slog.Int64("failures", l.failures))
}

func (l *Log) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = false
	if l.untold > 0 {
		l.tell()
	}
}

// tell writes a line about the failures that none tells yet.
func (l *Log) tell() {
	attrs := l.newest
	if l.untold > 1 {
		attrs = append(attrs[:len(attrs):len(attrs)], slog.Int64("failures", l.untold))
	}
	l.untold, l.newest = 0, nil
	l.line, l.told = time.Now(), l.failing.Load()
	l.write(l.level, l.what, attrs...)
}

func (l *Log) write(level slog.Level, message string, attrs ...slog.Attr) {
	l.logger.LogAttrs(context.Background(), level, message, attrs...)
}
