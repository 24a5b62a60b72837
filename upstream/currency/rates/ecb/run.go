package ecb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// maxJitter spreads the polls of many installations over a minute. Its random
// part need not be strong.
const maxJitter = time.Minute

// NextExpected returns when the rates may next change: at the next poll;
// without a URL, at the next look at the disk; without either, at the next
// UTC midnight.
func (p *Provider) NextExpected(now time.Time) time.Time {
	if planned := time.Unix(0, p.planned.Load()); planned.After(now) {
		return planned.UTC()
	}
	switch status := p.Status(); {
	case status.Live:
		return nextPoll(now, status.Newest)
	case p.options.Directory != "":
		return now.Add(pollInterval).UTC()
	}
	return (civil.Of(now.UTC()) + 1).Time()
}

// Run refreshes the rates until the context ends: first at once, then
// when new rates are expected, and half an hour after a failure. Without a URL
// it looks every half hour for rates that another process wrote. Without URL
// and Directory it returns at once.
func (p *Provider) Run(ctx context.Context) {
	keep, wait := p.poll, time.Duration(0)
	if !p.Status().Live {
		keep, wait = p.watch, pollInterval
		if p.options.Directory == "" {
			return
		}
	}
	for next := p.options.Now().Add(wait); p.wait(ctx, next); {
		next = keep(ctx)
	}
}

// wait returns at a time, and whether the context has not ended. It looks at the
// clock every half hour: the machine may have started with a wrong one.
func (p *Provider) wait(ctx context.Context, next time.Time) bool {
	p.planned.Store(next.UnixNano())
	for left := next.Sub(p.options.Now()); left > 0; left = next.Sub(p.options.Now()) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(left, pollInterval)):
		}
	}
	return ctx.Err() == nil
}

// poll refreshes the rates and returns when to do so again. A failure is a
// warning, and an error if the try before failed, too.
func (p *Provider) poll(ctx context.Context) time.Time {
	level := slog.LevelWarn
	if p.Status().Err != nil {
		level = slog.LevelError
	}
	err := p.Refresh(ctx)
	now, wait := p.options.Now(), rand.N(maxJitter)
	// A canceled refresh is not a failure.
	if err == nil || ctx.Err() != nil {
		return nextPoll(now, p.Status().Newest).Add(wait)
	}
	next := now.Add(pollInterval + wait)
	// A console writes a line break as it is: an error of two files is one line.
	p.logger.Log(ctx, level, "refreshing rates failed", "reason", strings.ReplaceAll(err.Error(), "\n", "; "),
		"newest", p.Status().Newest.String(), "next", next.UTC().Truncate(time.Second))
	return next
}

// watch loads rates that another process wrote and returns when to look
// again. An error of Status stays until the table changes.
func (p *Provider) watch(context.Context) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.disk.changed() {
		err := p.load()
		p.publish(err)
		if err != nil {
			p.logger.Error("reading rates failed", "error", err)
		} else {
			p.logger.Info("rates read from disk", "newest", p.believed.Newest().String())
		}
	}
	return p.options.Now().Add(pollInterval)
}

const (
	// The rates appear at about 16:00 in Frankfurt, 14:00 or 15:00 UTC by
	// the season. Polling from 14:00 to 17:00 UTC finds them in both, and
	// still on a late day. The last poll is at the very end: what it
	// misses is served a day late.
	windowStart = 14 * time.Hour
	windowEnd   = 17 * time.Hour
	// pollInterval is the time between two polls of the window, after a
	// failure at any time, and between two looks at the disk where there is
	// nothing to poll.
	pollInterval = 30 * time.Minute
)

// publishes reports whether the bank publishes rates on a day: Monday to
// Friday but for the six holidays of its payment system TARGET.
func publishes(day civil.Date) bool {
	switch day.Weekday() {
	case time.Saturday, time.Sunday:
		return false
	}
	t := day.Time()
	switch month, dom := t.Month(), t.Day(); {
	case month == time.January && dom == 1,
		month == time.May && dom == 1,
		month == time.December && (dom == 25 || dom == 26):
		return false
	}
	easter := easterSunday(t.Year())
	return day != easter-2 && day != easter+1
}

// easterSunday returns the day of Western Easter, by the anonymous Gregorian
// algorithm (Meeus, Astronomical Algorithms, chapter 8).
func easterSunday(year int) civil.Date {
	golden, century := year%19, year/100
	corrected := (19*golden + century - century/4 - (century-(century+8)/25+1)/3 + 15) % 30
	weekday := (32 + 2*(century%4) + 2*(year%100/4) - corrected - year%100%4) % 7
	shift := (golden + 11*corrected + 22*weekday) / 451
	n := corrected + weekday - 7*shift + 114
	return civil.New(year, time.Month(n/31), n%31+1)
}

// publicationBefore returns the last publication day before a day.
func publicationBefore(day civil.Date) civil.Date {
	for day--; !publishes(day); day-- {
	}
	return day
}

// missed returns how many publications should have come after the newest day:
// those whose window has ended.
func missed(now time.Time, newest civil.Date) (n int) {
	for day := civil.Of(now.UTC().Add(24*time.Hour-windowEnd)) - 1; day > newest; day-- {
		if publishes(day) {
			n++
		}
	}
	return n
}

// nextPoll returns when to look for rates again: within the window of a
// publication day every half hour and at its end, until the day's rates are
// accepted; otherwise at the start of the next window.
func nextPoll(now time.Time, newest civil.Date) time.Time {
	now = now.UTC()
	day := civil.Of(now)
	if publishes(day) && newest < day {
		start, end := day.Time().Add(windowStart), day.Time().Add(windowEnd)
		switch next := now.Add(pollInterval); {
		case now.Before(start):
			return start
		case next.Before(end):
			return next
		case now.Before(end):
			return end
		}
	}
	for day++; !publishes(day); day++ {
	}
	return day.Time().Add(windowStart)
}

const (
	// maxBody bounds what is read of an answer. The zipped history has
	// 630 KB, its plain CSV 1.9 MB.
	maxBody = 5 << 20
	tries   = 3
)

const userAgent = "tollgate (+https://github.com/caddy-tollgate/tollgate)"

// errURL does not quote the URL.
var errURL = errors.New("the URL is invalid")

// validators are what makes a request conditional (RFC 9110 section 13.1).
type validators struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// fetcher gets publications over HTTP.
type fetcher struct {
	client  *http.Client
	timeout time.Duration // of one try, body included
	wait    time.Duration // before the second try
}

// answer is content with its validators; content is nil if it is unchanged.
type answer struct {
	content    []byte
	validators validators
}

// get fetches a URL unless it is unchanged. Failures that may pass (the
// network, 408, 429, 5xx) are tried again, twice at most.
func (f fetcher) get(ctx context.Context, address string, known validators) (answer, error) {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval = f.wait
	got, err := backoff.Retry(ctx, func() (answer, error) {
		return f.try(ctx, address, known)
	}, backoff.WithBackOff(policy), backoff.WithMaxTries(tries))
	if errors.As(err, new(*unreachableError)) || err == nil {
		return got, err
	}
	return answer{}, fmt.Errorf("fetching rates: %w", err)
}

// unreachableError says that a server did not answer. It names the host only:
// the path of a URL can have a token.
type unreachableError struct {
	host  string
	cause error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("cannot reach %s (%v)", e.host, e.cause)
}

func (e *unreachableError) Unwrap() error { return e.cause }

// try makes one request.
func (f fetcher) try(ctx context.Context, address string, known validators) (got answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answer{}, backoff.Permanent(errURL)
	}
	request.Header.Set("User-Agent", userAgent)
	if known.ETag != "" {
		request.Header.Set("If-None-Match", known.ETag)
	}
	if known.LastModified != "" {
		request.Header.Set("If-Modified-Since", known.LastModified)
	}
	response, err := f.client.Do(request)
	if err != nil {
		return answer{}, &unreachableError{request.URL.Host, outage.Remote(err)}
	}
	defer func() {
		if closing := response.Body.Close(); err == nil {
			err = closing
		}
	}()
	switch code := response.StatusCode; {
	case code == http.StatusNotModified:
		return answer{validators: known}, nil
	case code == http.StatusOK:
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return answer{}, fmt.Errorf("%w: status %d", ErrStatus, code)
	default:
		return answer{}, backoff.Permanent(fmt.Errorf("%w: status %d", ErrStatus, code))
	}
	content, err := readBounded(response.Body, maxBody)
	if errors.Is(err, ErrTooLarge) {
		return answer{}, backoff.Permanent(err)
	}
	if err != nil {
		return answer{}, outage.Remote(err)
	}
	return answer{content, validators{
		ETag:         response.Header.Get("ETag"),
		LastModified: response.Header.Get("Last-Modified"),
	}}, nil
}
