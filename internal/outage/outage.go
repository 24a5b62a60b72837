// Package outage logs failures that repeat with every request.
//
// When a disk is full or a service is down, each request fails. A line per
// request would fill the disk. A Log writes one line when failures begin,
// one per minute with their number while they go on, and one when they end.
package outage

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

const (
	// every is the least time between two lines about failures.
	every = time.Minute

	// calm is how long after the last failure a success is the end of the
	// outage. Earlier successes are not: one of two services may work.
	calm = time.Second
)

// Log logs the failures of one operation. It is safe for concurrent use.
type Log struct {
	logger *slog.Logger
	level  slog.Level
	what   string

	failing atomic.Bool // changed under mu

	mu       sync.Mutex
	failures int64       // since failing became true
	pending  int64       // failures not logged yet
	attrs    []slog.Attr // of the latest of them
	failed   time.Time   // of the latest failure
	line     time.Time   // of the latest line about failures
	waiting  bool        // a timer will write the next line
	logged   bool        // a line was written since failing became true
}

// Logger returns a logger for New that writes to a logger of zap, without stack
// traces: all of them would begin in this package.
func Logger(to *zap.Logger) *slog.Logger {
	const noStack = slog.Level(127)
	return slog.New(zapslog.NewHandler(to.Core(), zapslog.WithName(to.Name()), zapslog.AddStacktraceAt(noStack)))
}

// New returns a Log that writes lines of this level. what is their message
// and names the operation, such as "asking the store". The line about the
// end has the level INFO.
func New(logger *slog.Logger, level slog.Level, what string) *Log {
	return &Log{logger: logger, level: level, what: what}
}

// Failed records a failure. A line about several failures has the attrs of
// the latest one, and their number as "failures".
func (l *Log) Failed(attrs ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.failing.Load() {
		l.failing.Store(true)
		l.failures = 0
	}
	l.failures++
	l.pending++
	l.attrs, l.failed = attrs, time.Now()
	if l.waiting {
		return
	}
	if since := l.failed.Sub(l.line); !l.line.IsZero() && since < every {
		l.waiting = true
		time.AfterFunc(every-since, l.tick)
		return
	}
	l.log()
}

// Worked records a success. It is cheap if there were no failures.
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
	if !l.logged {
		return // the timer logs these failures
	}
	l.logged, l.pending, l.attrs = false, 0, nil
	l.write(slog.LevelInfo, l.what+" works again", slog.Int64("failures", l.failures))
}

func (l *Log) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = false
	if l.pending > 0 {
		l.log()
	}
}

// log writes a line about the pending failures.
func (l *Log) log() {
	attrs := l.attrs
	if l.pending > 1 {
		attrs = append(attrs[:len(attrs):len(attrs)], slog.Int64("failures", l.pending))
	}
	l.pending, l.attrs = 0, nil
	l.line, l.logged = time.Now(), l.failing.Load()
	l.write(l.level, l.what, attrs...)
}

func (l *Log) write(level slog.Level, message string, attrs ...slog.Attr) {
	l.logger.LogAttrs(context.Background(), level, message, attrs...)
}
