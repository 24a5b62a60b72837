package ecb_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
)

func parseDate(t *testing.T, text string) civil.Date {
	t.Helper()
	day, err := civil.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return day
}

func parseValue(t *testing.T, text string) rates.Value {
	t.Helper()
	value, err := rates.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Threat: the bank's server, or an attacker in its place, is down, slow,
// broken or lying. Whatever it does, the refresh fails with an error that
// says so, and every rate stays as it was, in memory and on disk.
func TestMisbehavingServer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    error
		tries   int64
	}{
		{"down for a while", status(http.StatusServiceUnavailable), ecb.ErrStatus, 3},
		{"moved away", status(http.StatusNotFound), ecb.ErrStatus, 1},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, context.DeadlineExceeded, 3},
		{"cuts the line", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			writeAll(w, "Date,USD,\n2026-04-14,1.2,\n")
		}, nil, 3},
		{"a page", content("<html><body>Maintenance</body></html>"), ecb.ErrMalformed, 1},
		{"cut XML", content(`<Envelope><Cube><Cube time="2026-04-14"><Cube currency="USD" rate="1.1`), ecb.ErrMalformed, 1},
		{"too few rates", content("Date,USD,JPY,\n2026-04-14,1.2,187,\n"), ecb.ErrTooFew, 1},
		{"rates of tomorrow", content("Date,USD,\n2026-04-15,1.2,\n"), ecb.ErrMalformed, 1},
		{"zero and less", content("Date,USD,JPY,\n2026-04-14,0,-1,\n"), ecb.ErrMalformed, 1},
		{"another past", content("Date,USD,JPY,\n2026-04-13,11.684,18.6,\n"), ecb.ErrMalformed, 1},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for chunk := bytes.Repeat([]byte("Date,USD,\n"), 1000); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, ecb.ErrTooLarge, 1},
		{"nothing new where nothing was asked", status(http.StatusNotModified), nil, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if errors.Is(test.want, context.DeadlineExceeded) {
				timeout = 200 * time.Millisecond
			}
			options := ecb.Options{
				Indicative: base(t), Directory: t.TempDir(),
				Timeout: timeout, RetryWait: time.Millisecond,
				Now: func() time.Time { return evening.AddDate(0, 0, 1) },
			}
			good := open(t, options)
			if _, err := good.Import("testdata/eurofxref-hist.csv"); err != nil {
				t.Fatal(err)
			}
			version := good.Current().Version()

			var tries atomic.Int64
			server := httptest.NewServer(test.handler)
			defer server.Close()
			options.URL = server.URL
			// Counted here: on a busy machine a try can end before the server sees it.
			options.Client = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == historyPath {
					tries.Add(1)
				}
				return http.DefaultTransport.RoundTrip(r)
			})}
			p := open(t, options)
			err := p.Refresh(t.Context())
			harmless := strings.HasPrefix(test.name, "nothing new")
			if (err == nil) != harmless || !errors.Is(err, test.want) && test.want != nil {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if (p.Status().Err == nil) != harmless {
				t.Errorf("the status says %v", p.Status().Err)
			}
			if got := tries.Load(); got != test.tries {
				t.Errorf("got %d tries, want %d", got, test.tries)
			}
			if p.Current().Version() != version {
				t.Error("a rate changed")
			}
			if open(t, options).Current().Version() != version {
				t.Error("a rate changed on disk")
			}
		})
	}
}

// transport is what a client sends a request with.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func content(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeAll(w, text) }
}

// writeAll sends a part of an answer at once. That the client may be gone is
// the test's own doing.
func writeAll(w http.ResponseWriter, text string) {
	if _, err := w.Write([]byte(text)); err != nil {
		return
	}
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
}

// One of the two files is broken: the other's rates are taken.
func TestHalfAFailure(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.put(historyPath, "<html></html>")
	p := open(t, b.options(t))
	if err := p.Refresh(t.Context()); !errors.Is(err, ecb.ErrMalformed) {
		t.Errorf("got %v, want ErrMalformed", err)
	}
	want(t, p, "2026-04-13", "USD", "1.1684", "ECB")

	b.put(historyPath, fixture(t, "eurofxref-hist.csv"))
	if err := p.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Status().Err != nil {
		t.Errorf("the failure is still reported: %v", p.Status().Err)
	}
}

// TestErrorsQuoteNothing: a server that answers something else than rates, and
// the path of its URL, are not quoted in errors, which are logged.
func TestErrorsQuoteNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a header that is none": "HTTP/1.1 200 OK\r\nada@example.com\r\n\r\n",
		"a redirect":            "HTTP/1.1 302 Found\r\nLocation: http://ada@example.com:ada/\r\n\r\n",
		"another document":      "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n<ada@example.com/> ",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		}))
		p := open(t, ecb.Options{
			Indicative: base(t), Directory: t.TempDir(), URL: server.URL + "/s3cret", Timeout: time.Minute, RetryWait: time.Millisecond,
			Now: func() time.Time { return evening },
		})
		err := p.Refresh(t.Context())
		if err == nil || strings.Contains(err.Error(), "ada") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v", name, err)
		}
		server.Close()
	}
}
