package badgerstore

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// TestRepeatedMessages: each kind of message is logged once, then once a minute
// with the number of messages.
func TestRepeatedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.InfoLevel)
		l := &badgerLogger{log: outage.Logger(zap.New(core))}
		for i := range 100 {
			l.Errorf("Failure %d while flushing\n", i)
			l.Warningf("slow")
			l.Infof("chatter")
		}
		for range 2 {
			entries := log.TakeAll()
			slices.SortFunc(entries, func(a, b observer.LoggedEntry) int { return cmp.Compare(b.Level, a.Level) })
			if len(entries) != 2 || entries[0].Level != zapcore.ErrorLevel || entries[1].Level != zapcore.WarnLevel {
				t.Errorf("got %+v, want an error and a warning", entries)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		}
		if entries := log.TakeAll(); len(entries) != 0 {
			t.Errorf("got %+v", entries)
		}
	})
}
