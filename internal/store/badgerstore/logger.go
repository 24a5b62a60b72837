package badgerstore

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// badgerLogger logs Badger's messages. Badger repeats some of them every second
// while a disk is full, so each kind has its own outage.Log.
type badgerLogger struct {
	log   *slog.Logger
	kinds sync.Map // of *outage.Log, by format: these are constants of Badger
}

// Errorf logs an error. A repeated one is logged once a minute.
func (l *badgerLogger) Errorf(format string, args ...any) { l.failed(slog.LevelError, format, args) }

// Warningf logs a warning. A repeated one is logged once a minute.
func (l *badgerLogger) Warningf(format string, args ...any) { l.failed(slog.LevelWarn, format, args) }

// Infof logs a message at the level DEBUG.
func (l *badgerLogger) Infof(format string, args ...any) { l.Debugf(format, args...) }

// Debugf logs a message at the level DEBUG.
func (l *badgerLogger) Debugf(format string, args ...any) { l.log.Debug(message(format, args)) }

func (l *badgerLogger) failed(level slog.Level, format string, args []any) {
	kind, known := l.kinds.Load(format)
	if !known {
		kind, _ = l.kinds.LoadOrStore(format, outage.New(l.log, level, "message of the database"))
	}
	kind.(*outage.Log).Failed(slog.String("message", message(format, args)))
}

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}
