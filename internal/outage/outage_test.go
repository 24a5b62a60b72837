package outage_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// lines returns what was written since the last call.
func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.text.Reset()
	return strings.FieldsFunc(j.text.String(), func(r rune) bool { return r == '\n' })
}

func newLog() (*outage.Log, *journal) {
	j := &journal{}
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	return outage.New(logger, slog.LevelError, "work"), j
}

func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	if got := j.lines(); !slices.Equal(got, lines) {
		t.Errorf("after %s: got\n%s\nwant\n%s", time.Since(began), strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// began is when every bubble of synctest begins.
var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// fail fails so often, evenly over some time.
func fail(l *outage.Log, n int, over time.Duration, text string) {
	for range n {
		l.Failed(slog.Any("error", errors.New(text)))
		time.Sleep(over / time.Duration(n))
	}
	synctest.Wait()
}

// TestTenThousandFailures: a line at the change, then one a minute with
// the number, and one at the end.
func TestTenThousandFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := newLog()
		l.Worked()
		j.want(t)
		fail(l, 10_000, 5*time.Second, "full")
		j.want(t, `level=ERROR msg=work error=full`)
		time.Sleep(55 * time.Second)
		synctest.Wait()
		j.want(t, `level=ERROR msg=work error=full failures=9999`)
		time.Sleep(50 * time.Millisecond)
		fail(l, 1200, 2*time.Minute, "still full")
		j.want(t, `level=ERROR msg=work error="still full" failures=600`, `level=ERROR msg=work error="still full" failures=600`)
		time.Sleep(time.Hour)
		synctest.Wait()
		j.want(t)
		l.Worked()
		l.Worked()
		j.want(t, `level=INFO msg="work works again" failures=11200`)
	})
}

// TestEndBeforeTheMinute tells the number with the end.
func TestEndBeforeTheMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := newLog()
		fail(l, 10, time.Second, "away")
		time.Sleep(time.Second)
		l.Worked()
		j.want(t, `level=ERROR msg=work error=away`, `level=INFO msg="work works again" failures=10`)
		time.Sleep(time.Hour)
		synctest.Wait()
		j.want(t)
		fail(l, 1, 0, "away")
		j.want(t, `level=ERROR msg=work error=away`)
	})
}

// TestEveryOtherFails is no change with each request.
func TestEveryOtherFails(t *testing.T) {
	for name, pause := range map[string]time.Duration{"often": 20 * time.Millisecond, "seldom": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, j := newLog()
				failures := 0
				for time.Since(began) < 10*time.Minute {
					l.Failed(slog.Any("error", errors.New("one of two")))
					failures++
					time.Sleep(pause)
					l.Worked()
				}
				synctest.Wait()
				lines := j.lines()
				if len(lines) > 25 || len(lines) < 10 {
					t.Errorf("got %d lines of %d failures in ten minutes:\n%s", len(lines), failures, strings.Join(lines, "\n"))
				}
			})
		})
	}
}

// TestBurstSoonAfterTheEnd is counted and told within the minute.
func TestBurstSoonAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := newLog()
		fail(l, 1, 2*time.Second, "first")
		l.Worked()
		j.want(t, `level=ERROR msg=work error=first`, `level=INFO msg="work works again" failures=1`)
		fail(l, 100, 2*time.Second, "second")
		time.Sleep(time.Second)
		l.Worked()
		j.want(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		j.want(t, `level=ERROR msg=work error=second failures=100`)
		l.Worked()
		j.want(t)
	})
}

// TestConcurrentFailures counts each.
func TestConcurrentFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := newLog()
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				for range 200 {
					l.Failed()
					l.Worked()
				}
			})
		}
		group.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		j.want(t, `level=ERROR msg=work`, `level=ERROR msg=work failures=9999`)
	})
}
