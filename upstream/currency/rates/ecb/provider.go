package ecb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// BaseURL is where the European Central Bank publishes its reference rates.
const BaseURL = "https://www.ecb.europa.eu/stats/eurofxref/"

const (
	// historyFile has the rates of all days since 1999, dailyFile those of the
	// newest day.
	historyFile = "eurofxref-hist.zip"
	dailyFile   = "eurofxref-daily.xml"

	defaultTimeout   = 10 * time.Second
	defaultRetryWait = time.Second
)

// Options configure a Provider.
type Options struct {
	// Indicative has rates for what the bank does not publish. Required.
	Indicative *rates.Dataset
	// Bank has rates of the bank to begin with: see Embedded. Default: none.
	Bank *rates.Dataset
	// Directory stores the bank's rates that are not in Bank over restarts. It
	// is created when it is first needed. Empty: the rates are in memory only.
	Directory string
	// URL is the base URL of the bank's files: eurofxref-hist.zip is fetched
	// once for each Bank, since it may correct old days, and whenever a
	// publication day was missed; eurofxref-daily.xml each time. Without a URL
	// the provider serves what it has and what is on disk.
	URL string
	// Timeout bounds one request, body included. Default: 10 seconds.
	Timeout time.Duration
	// RetryWait is the pause before a failed request is tried again; it
	// grows from try to try. Default: one second.
	RetryWait time.Duration
	// Client makes the requests. Default: a client of its own.
	Client *http.Client
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger receives what a background refresh did. Default: nothing is
	// logged.
	Logger *slog.Logger
}

// Provider serves rates and keeps them fresh. Its methods may be called
// concurrently; Current never waits for a refresh.
type Provider struct {
	options Options
	fetcher fetcher
	logger  *slog.Logger

	current atomic.Pointer[view]
	planned atomic.Int64 // Unix nanoseconds of the next poll, 0 for none

	mu       sync.Mutex // held by a refresh or an import
	disk     disk
	accepted *rates.Dataset // believed and waiting values
	believed *rates.Dataset
	waiting  []Quote
	served   *rates.Dataset // the believed rates that merged has
	merged   *rates.Dataset // believed, with the parities and Indicative
	state    state
}

// view is what readers see, swapped as one.
type view struct {
	data   *rates.Dataset
	status Status
}

// Status is how fresh the rates are.
type Status struct {
	// Live is true if the provider has a URL.
	Live bool
	// Newest is the last day with rates of the bank, zero without any, and
	// Days the number of such days.
	Newest civil.Date
	Days   int
	// FetchedAt is when rates last came in and CheckedAt when the bank was
	// last asked with success, zero if never.
	FetchedAt, CheckedAt time.Time
	// Err is why the last refresh, or reading what is on disk, failed; nil
	// if it did not.
	Err error
	// Waiting are values that jumped and are held back until they are
	// confirmed.
	Waiting []Quote
}

// Open returns a provider that serves Bank, Indicative and the rates on disk. A
// table on disk that cannot be read is renamed and reported by Status. It does
// not prevent the start: rates can be fetched again.
func Open(options Options) (*Provider, error) {
	if options.Indicative == nil {
		return nil, errors.New("opening rates: no indicative rates")
	}
	options.Bank = cmp.Or(options.Bank, new(rates.Builder).Build())
	if options.Now == nil {
		options.Now = time.Now
	}
	p := &Provider{
		options: options,
		fetcher: fetcher{
			client:  cmp.Or(options.Client, &http.Client{}),
			timeout: cmp.Or(options.Timeout, defaultTimeout),
			wait:    cmp.Or(options.RetryWait, defaultRetryWait),
		},
		logger: cmp.Or(options.Logger, slog.New(slog.DiscardHandler)),
		disk:   disk{folder: options.Directory},
	}
	p.accepted, p.believed = options.Bank, options.Bank
	failed := p.load()
	if failed != nil && options.Directory != "" {
		failed = errors.Join(failed, p.disk.setAside())
	}
	p.publish(failed)
	return p, nil
}

// Current returns the rates to serve now. It costs nothing and never
// returns nil.
func (p *Provider) Current() *rates.Dataset { return p.current.Load().data }

// Status returns how fresh the rates are.
func (p *Provider) Status() Status { return p.current.Load().status }

// Missed returns how many publications of the bank the rates lack now. One that
// is due counts from 17:00 UTC.
func (p *Provider) Missed(now time.Time) int { return missed(now, p.Status().Newest) }

// Refresh fetches new rates. If one of the two files is invalid, the rates of
// the other are still used. The error has all failures; existing rates stay.
func (p *Provider) Refresh(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed error
	if p.disk.folder != "" && p.disk.changed() {
		failed = p.load() // another process imported rates
	}
	if p.gap() {
		p.state.Complete = false
	}
	var files []string
	if p.options.URL != "" {
		if !p.state.Complete {
			files = append(files, historyFile)
		}
		files = append(files, dailyFile)
	}
	for _, file := range files {
		err := p.fetch(ctx, file)
		failed = errors.Join(failed, err)
		if errors.As(err, new(*unreachableError)) {
			break // the other file has the same host
		}
	}
	p.publish(failed)
	return failed
}

// gap reports whether the daily file alone would leave a gap: it has the last
// publication, so the one before must be accepted.
func (p *Provider) gap() bool {
	last := publicationBefore(p.today() + 1)
	return p.accepted.Newest() < publicationBefore(last)
}

func (p *Provider) today() civil.Date { return civil.Of(p.options.Now().UTC()) }

// Import adds the publication in a file, in any of the bank's formats.
func (p *Provider) Import(path string) (Report, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Report{}, fmt.Errorf("importing rates: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	report, err := p.take(content)
	if err == nil {
		err = p.saveState()
	}
	if err != nil {
		err = fmt.Errorf("importing rates: %w", err)
	}
	p.publish(err)
	return report, err
}

// fetch brings the rates of one file up to date.
func (p *Provider) fetch(ctx context.Context, file string) error {
	address, err := url.JoinPath(p.options.URL, file)
	if err != nil {
		return errURL
	}
	got, err := p.fetcher.get(ctx, address, p.state.Validators[address])
	if err != nil {
		return err
	}
	now := p.options.Now().UTC()
	if got.content != nil {
		report, err := p.take(got.content)
		if err != nil {
			return fmt.Errorf("adding rates: %w", err)
		}
		p.state.FetchedAt = now
		p.logger.Info("rates fetched", "accepted", report.Accepted, "dropped", report.Dropped(), "newest", p.accepted.Newest().String())
	}
	p.state.CheckedAt = now
	if p.state.Validators == nil {
		p.state.Validators = make(map[string]validators)
	}
	p.state.Validators[address] = got.validators
	p.state.Complete = p.state.Complete || file == historyFile
	return p.saveState()
}

func (p *Provider) saveState() error {
	if err := p.disk.writeState(p.state); err != nil {
		return fmt.Errorf("storing the state of the rates: %w", err)
	}
	return nil
}

// take adds a publication to the accepted rates, in memory and on disk. If the
// disk fails, the rates in memory are still used.
func (p *Provider) take(content []byte) (Report, error) {
	records, err := parse(content)
	if err != nil {
		return Report{}, err
	}
	quotes, report, err := screen(records, p.believed, p.today())
	if err == nil {
		err = enough(quotes, p.accepted)
	}
	if err != nil {
		return report, err
	}
	before, embedded := p.accepted, p.options.Bank.Newest()
	p.add(quotes, p.accepted)
	if p.accepted == before && p.state.Embedded == embedded {
		return report, nil
	}
	if err := p.disk.writeTable(p.own()); err != nil {
		return report, fmt.Errorf("storing the rates: %w", err)
	}
	p.state.Embedded = embedded
	return report, nil
}

// add replaces the accepted rates by these and the quotes over them, and those
// that are believed.
func (p *Provider) add(quotes []Quote, accepted *rates.Dataset) {
	var news rates.Builder
	for _, q := range quotes {
		if q.Value != valueOn(accepted, q.Day, q.Code) {
			news.Set(q.Day, q.Code, q.Value, rates.SourceECB)
		}
	}
	if over := news.Build(); over.Days() > 0 {
		accepted = rates.Overlay(accepted, over)
	}
	if accepted == p.accepted {
		return
	}
	p.accepted = accepted
	p.believed, p.waiting = believe(accepted)
	for _, q := range p.waiting {
		p.logger.Warn("rate held back until it is confirmed", "currency", q.Code, "date", q.Day.String(), "value", q.Value.String())
	}
}

// own returns the accepted rates that Bank does not have, and all of the newest
// day: a table is never empty.
func (p *Provider) own() *rates.Dataset {
	return filtered(p.accepted, func(q Quote) bool {
		return q.Day == p.accepted.Newest() || q.Value != valueOn(p.options.Bank, q.Day, q.Code)
	})
}

// load replaces the accepted rates by Bank and those on disk, if they can be
// read. If they continue another Bank, those of the days of Bank may be older
// than its own: they are left out, and the history is fetched again.
func (p *Provider) load() error {
	records, kept, err := p.disk.read()
	if records == nil && err == nil {
		return nil
	}
	if newest := p.options.Bank.Newest(); kept.Embedded != newest {
		records = slices.DeleteFunc(records, func(r record) bool { return r.day <= newest })
		kept.Validators, kept.Complete = nil, false
	}
	var quotes []Quote
	if err == nil {
		quotes, _, err = screen(records, p.options.Bank, p.today())
	}
	if err != nil {
		return fmt.Errorf("reading the stored rates: %w", err)
	}
	p.add(quotes, p.options.Bank)
	p.state = kept
	return nil
}

// publish replaces the view of readers.
func (p *Provider) publish(failed error) {
	if p.served != p.believed {
		p.served, p.merged = p.believed, rates.Merge(p.options.Indicative, p.believed)
	}
	p.current.Store(&view{
		data: p.merged,
		status: Status{
			Live:      p.options.URL != "",
			Newest:    p.believed.Newest(),
			Days:      p.believed.Days(),
			FetchedAt: p.state.FetchedAt,
			CheckedAt: p.state.CheckedAt,
			Err:       failed,
			Waiting:   p.waiting,
		},
	})
}
