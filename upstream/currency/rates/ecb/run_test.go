package ecb_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
)

// wire answers requests without a network, whose waiting a bubble of
// testing/synctest cannot see through.
type wire func(*http.Request) string

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusOK, w(r)
	if body == "" {
		code = http.StatusForbidden
	}
	return &http.Response{
		StatusCode: code, Header: make(http.Header), Request: r,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// A bubble's clock starts on Saturday, 1 January 2000: the first window is
// Monday the 3rd from 14:00 UTC.
func TestRunPollsWhenRatesAreDue(t *testing.T) {
	t.Parallel()
	publication := fixture(t, "eurofxref-daily.xml")
	synctest.Test(t, func(t *testing.T) {
		var polls []time.Time
		published := strings.Replace(publication, "2026-04-13", "1999-12-31", 1)
		p := open(t, ecb.Options{
			Indicative: base(t), URL: "http://bank.invalid",
			Client: &http.Client{Transport: wire(func(r *http.Request) string {
				if !strings.HasSuffix(r.URL.Path, "daily.xml") {
					return published
				}
				polls = append(polls, time.Now().UTC())
				if time.Now().Day() == 3 && time.Now().UTC().Hour() >= 15 {
					return strings.Replace(publication, "2026-04-13", "2000-01-03", 1)
				}
				return published
			})},
		})
		defer running(t, p)()
		synctest.Wait()
		start := time.Now()
		time.Sleep(4 * 24 * time.Hour) // to Wednesday the 5th
		synctest.Wait()
		// Start, three times on Monday until the rates came at 15:00, then
		// Tuesday's window up to its very end, as nothing came.
		want := []string{
			"01 00:00", "03 14:0", "03 14:3", "03 15:0", "04 14:0", "04 14:3", "04 15:0", "04 15:3", "04 16:0", "04 16:3", "04 17:0",
		}
		if len(polls) != len(want) {
			t.Fatalf("got %d polls: %v", len(polls), polls)
		}
		if !polls[0].Equal(start) {
			t.Errorf("the first poll was at %s, want %s", polls[0], start)
		}
		for i, prefix := range want {
			if got := polls[i].Format("02 15:04"); !strings.HasPrefix(got, prefix) {
				t.Errorf("poll %d was at %s, want %s", i, got, prefix)
			}
		}
		if got := p.Status().Newest.String(); got != "2000-01-03" {
			t.Errorf("got %s", got)
		}
		if next, window := p.NextExpected(time.Now()), time.Date(2000, 1, 5, 14, 0, 0, 0, time.UTC); next.Before(window) || next.After(window.Add(time.Minute)) {
			t.Errorf("rates are expected at %s", next)
		}
	})
}

// After a failure the next try comes in half an hour, window or not. Each
// failure is one line of the log: the first is a warning, the others are
// errors.
func TestRunTriesAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var polls []time.Time
		var log bytes.Buffer
		p := open(t, ecb.Options{
			Indicative: base(t), Bank: embeddedTo(t, "2026-04-09"), URL: "http://bank.invalid", Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Client: &http.Client{Transport: wire(func(r *http.Request) string {
				if strings.HasSuffix(r.URL.Path, "daily.xml") {
					polls = append(polls, time.Now())
				}
				return ""
			})},
		})
		defer running(t, p)()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if len(polls) != 6 {
			t.Errorf("got %d polls in three hours: %v", len(polls), polls)
		}
		for i := 1; i < len(polls); i++ {
			if pause := polls[i].Sub(polls[i-1]); pause < 30*time.Minute || pause > 31*time.Minute {
				t.Errorf("a pause of %s", pause)
			}
		}
		const line = ` msg="refreshing rates failed" reason="fetching rates: unexpected answer: status 403; fetching rates: unexpected answer: status 403" newest=2026-04-09 next=2000-01-01T`
		text := log.String()
		if strings.Count(text, "level=WARN"+line) != 1 || strings.Count(text, "level=ERROR"+line) != 5 || strings.Count(text, "\n") != 6 {
			t.Errorf("got %s", text)
		}
	})
}

// A machine without the network gets one plain line.
func TestRunWithoutTheNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := open(t, ecb.Options{
			Indicative: base(t), Bank: embeddedTo(t, "2026-04-09"), URL: "https://bank.invalid/rates", Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Client: &http.Client{Transport: cut{}},
		})
		defer running(t, p)()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		const line = `level=WARN msg="refreshing rates failed" reason="cannot reach bank.invalid (dial: no network)" newest=2026-04-09 next=2000-01-01T00:3`
		if strings.Count(log.String(), line) != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("got %s, want %s", &log, line)
		}
	})
}

// cut is a machine without the network.
type cut struct{}

func (cut) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errors.New("no network")}
}

// running runs a provider, and returns what stops it.
func running(t *testing.T, p *ecb.Provider) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	return func() {
		cancel()
		<-done
	}
}

// A clock that is set right while Run waits for the end of a weekend does not
// delay the rates until then.
func TestRunAfterTheClockWasSet(t *testing.T) {
	t.Parallel()
	publication := fixture(t, "eurofxref-daily.xml")
	synctest.Test(t, func(t *testing.T) {
		var set, polls atomic.Int64 // the clock begins on Saturday
		p := open(t, ecb.Options{
			Indicative: base(t), URL: "http://bank.invalid", Now: func() time.Time { return time.Now().Add(time.Duration(set.Load())) },
			Client: &http.Client{Transport: wire(func(r *http.Request) string {
				if strings.HasSuffix(r.URL.Path, "daily.xml") {
					polls.Add(1)
				}
				return strings.Replace(publication, "2026-04-13", "1999-12-31", 1)
			})},
		})
		defer running(t, p)()
		time.Sleep(time.Hour)
		synctest.Wait()
		before := polls.Load()
		set.Store(int64(62 * time.Hour)) // it is Monday, 15:00
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if after := polls.Load() - before; before != 1 || after == 0 {
			t.Errorf("got %d polls on Saturday and %d in the window of Monday, want one and more", before, after)
		}
	})
}

// Without a URL, rates that another process writes to the disk are served half
// an hour later.
func TestRunWatchesTheDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		options := ecb.Options{
			Indicative: base(t), Directory: t.TempDir(),
			Now: func() time.Time { return evening.Add(time.Since(began)) },
		}
		p := open(t, options)
		defer running(t, p)()
		expect := func(after time.Duration) {
			t.Helper()
			synctest.Wait()
			if got, want := p.NextExpected(options.Now()), evening.Add(after); !got.Equal(want) {
				t.Errorf("rates are expected at %s, want %s", got, want)
			}
		}
		expect(30 * time.Minute)

		time.Sleep(40 * time.Minute)
		expect(time.Hour)
		if _, err := open(t, options).Import("testdata/eurofxref-hist.csv"); err != nil {
			t.Fatal(err)
		}
		want(t, p, "2026-04-13", "USD", "1.16", "indicative")
		time.Sleep(20 * time.Minute)
		expect(90 * time.Minute)
		want(t, p, "2026-04-13", "USD", "1.1684", "ECB")

		// A table that cannot be read changes nothing, and is told until
		// there is another.
		path := filepath.Join(options.Directory, "ecb.csv")
		if err := os.WriteFile(path, []byte("<html>"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		want(t, p, "2026-04-13", "USD", "1.1684", "ECB")
		if p.Status().Err == nil {
			t.Error("the damage is not reported")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, options).Import("testdata/eurofxref-daily.xml"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if status := p.Status(); status.Err != nil || status.Days != 1 {
			t.Errorf("got %+v", status)
		}
	})
}

// Without URL and disk there is nothing to run for, and rates can change at
// the turn of the day at most.
func TestNextExpectedWhenOff(t *testing.T) {
	t.Parallel()
	p := open(t, ecb.Options{Indicative: base(t)})
	p.Run(t.Context())
	want := time.Date(2026, time.April, 14, 0, 0, 0, 0, time.UTC)
	if got := p.NextExpected(evening.In(time.FixedZone("", -5*3600))); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
