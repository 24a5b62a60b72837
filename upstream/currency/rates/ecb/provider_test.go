package ecb_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
)

// evening is after the publication of Monday, 13 April 2026, the newest day
// of the fixtures.
var evening = time.Date(2026, time.April, 13, 20, 0, 0, 0, time.UTC)

// bank is a web server with two files that tests replace.
type bank struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string]string
	requests map[string]int
}

// newBank returns a bank with the files of the fixtures.
func newBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{requests: make(map[string]int), files: map[string]string{
		historyPath: fixture(t, "eurofxref-hist.csv"), dailyPath: fixture(t, "eurofxref-daily.xml"),
	}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests[r.URL.Path]++
	if !strings.HasPrefix(r.UserAgent(), "tollgate (+http") {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	content, found := b.files[r.URL.Path]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(content))))
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

func (b *bank) put(path, content string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files[path] = content
}

func (b *bank) asked(path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[path]
}

const (
	historyPath = "/eurofxref-hist.zip"
	dailyPath   = "/eurofxref-daily.xml"
)

// options are those of a provider of that bank, with the clock at evening.
func (b *bank) options(t *testing.T) ecb.Options {
	return ecb.Options{
		Indicative: base(t),
		Directory:  filepath.Join(t.TempDir(), "rates"),
		URL:        b.URL,
		Timeout:    time.Minute,
		RetryWait:  time.Millisecond,
		Now:        func() time.Time { return evening },
	}
}

// base is one day of a snapshot.
func base(t *testing.T) *rates.Dataset {
	t.Helper()
	var b rates.Builder
	day := parseDate(t, "2026-04-13")
	b.Set(day, "USD", parseValue(t, "1.16"), rates.SourceIndicative)
	b.Set(day, "KES", parseValue(t, "151.2"), rates.SourceIndicative)
	return b.Build()
}

func open(t *testing.T, options ecb.Options) *ecb.Provider {
	t.Helper()
	p, err := ecb.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func refresh(t *testing.T, p *ecb.Provider) {
	t.Helper()
	if err := p.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// daily is a daily publication of all the currencies of the fixture with
// another dollar.
func daily(t *testing.T, day, dollar string) string {
	t.Helper()
	text := strings.Replace(fixture(t, "eurofxref-daily.xml"), "2026-04-13", day, 1)
	return strings.Replace(text, "rate='1.1684'", "rate='"+dollar+"'", 1)
}

// want checks a rate from the euro and its source.
func want(t *testing.T, p *ecb.Provider, day, code, rate, source string) {
	t.Helper()
	at, found := p.Current().On(parseDate(t, day))
	if !found {
		t.Fatalf("no rates on %s", day)
	}
	got, err := at.Rate(currency.Euro, currency.Code(code))
	if err != nil || got.String() != rate || at.Source(currency.Code(code)).String() != source {
		t.Errorf("%s on %s: got %s of %s, %v, want %s of %s", code, day, got, at.Source(currency.Code(code)), err, rate, source)
	}
}

// The history is fetched once; after that the daily file, and that only if
// it changed.
func TestRefreshIsFrugal(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	later := evening
	options.Now = func() time.Time { return later }
	p := open(t, options)
	refresh(t, p)
	version := p.Current().Version()
	later = evening.Add(time.Hour)
	refresh(t, p)
	if history, daily := b.asked(historyPath), b.asked(dailyPath); history != 1 || daily != 2 {
		t.Errorf("got %d and %d requests, want 1 and 2", history, daily)
	}
	if status := p.Status(); !status.FetchedAt.Equal(evening) || !status.CheckedAt.Equal(later) {
		t.Errorf("an unchanged file: got fetched %s, checked %s", status.FetchedAt, status.CheckedAt)
	}
	if p.Current().Version() != version {
		t.Error("the version changed without the rates")
	}

	// The day after, the daily file continues what is held.
	later = evening.AddDate(0, 0, 1)
	b.put(dailyPath, daily(t, "2026-04-14", "1.1700"))
	refresh(t, p)
	if got := b.asked(historyPath); got != 1 {
		t.Errorf("the history was fetched %d times", got)
	}
	want(t, p, "2026-04-14", "USD", "1.17", "ECB")

	// A week without a refresh is a hole that only the history fills.
	later = evening.AddDate(0, 0, 8)
	b.put(dailyPath, daily(t, "2026-04-21", "1.1800"))
	refresh(t, p)
	if got := b.asked(historyPath); got != 2 {
		t.Errorf("the history was fetched %d times after a hole", got)
	}
}

func TestRatesAreKeptOnDisk(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	first := open(t, options)
	refresh(t, first)

	second := open(t, options)
	if got := second.Current().Version(); got != first.Current().Version() {
		t.Error("a restart changed the rates")
	}
	if status := second.Status(); !status.FetchedAt.Equal(evening) || status.Err != nil {
		t.Errorf("got %+v", status)
	}
	// The validators are kept too: nothing is downloaded again.
	served := b.asked(dailyPath)
	refresh(t, second)
	if b.asked(dailyPath) != served+1 || !second.Status().FetchedAt.Equal(evening) {
		t.Errorf("got %+v", second.Status())
	}
	files, err := os.ReadDir(options.Directory)
	if err != nil || len(files) != 2 {
		t.Errorf("got %v, %v, want two files", files, err)
	}

	// Without a URL the rates on disk are served all the same.
	options.URL = ""
	third := open(t, options)
	want(t, third, "2026-04-13", "USD", "1.1684", "ECB")
	if third.Status().Live {
		t.Error("a provider without URL is live")
	}
}

// A damaged table must not keep the program from starting, nor be
// overwritten before a person saw it.
func TestDamagedTable(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	refresh(t, open(t, options))
	path := filepath.Join(options.Directory, "ecb.csv")
	table, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, table[:len(table)-20], 0o600); err != nil {
		t.Fatal(err)
	}

	p := open(t, options)
	if p.Status().Err == nil {
		t.Error("the damage is not reported")
	}
	want(t, p, "2026-04-13", "USD", "1.16", "indicative")
	if _, err := os.Stat(path + ".damaged"); err != nil {
		t.Errorf("the damaged table is gone: %v", err)
	}
	refresh(t, p)
	want(t, p, "2026-04-13", "USD", "1.1684", "ECB")
}

// A state that is missing or damaged costs one more download, and no rate.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	refresh(t, open(t, options))
	path := filepath.Join(options.Directory, "ecb.json")
	for i, damage := range []func() error{
		func() error { return os.WriteFile(path, []byte(`{"complete": true, "validators": "none"}`), 0o600) },
		func() error { return os.Remove(path) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		p := open(t, options)
		want(t, p, "2026-04-13", "USD", "1.1684", "ECB")
		refresh(t, p)
		if got := b.asked(historyPath); got != i+2 || p.Status().Err != nil {
			t.Errorf("%d downloads of the history and the error %v, want %d", got, p.Status().Err, i+2)
		}
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	options := ecb.Options{Indicative: base(t), Directory: t.TempDir(), Now: func() time.Time { return evening }}
	running := open(t, options)
	report, err := open(t, options).Import("testdata/eurofxref-hist.csv")
	if err != nil || report.Accepted != 11*29+30 || report.Dropped() != 0 {
		t.Fatalf("got %+v, %v", report, err)
	}
	// Another process, such as the server, takes it up at its next refresh.
	refresh(t, running)
	want(t, running, "2026-04-10", "USD", "1.1711", "ECB")

	if _, err := running.Import(filepath.Join(t.TempDir(), "absent.csv")); err == nil {
		t.Error("a missing file was imported")
	}
	if _, err := running.Import("provider_test.go"); err == nil {
		t.Error("a file of something else was imported")
	}
	want(t, running, "2026-04-10", "USD", "1.1711", "ECB")
}

// A full disk or lost permission: the rates are served, the failure is reported.
func TestRatesThatCannotBeKeptAreServed(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	options.Directory = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(options.Directory, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	options.Directory = filepath.Join(options.Directory, "below")
	p := open(t, options)
	if err := p.Refresh(t.Context()); err == nil || p.Status().Err == nil {
		t.Error("the failure is not reported")
	}
	want(t, p, "2026-04-13", "USD", "1.1684", "ECB")
}

func TestSpikeIsHeldBack(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	now := evening
	options.Now = func() time.Time { return now }
	p := open(t, options)
	publish := func(day, dollar string) {
		t.Helper()
		now = parseDate(t, day).Time().Add(20 * time.Hour)
		b.put(dailyPath, daily(t, day, dollar))
		refresh(t, p)
	}
	publish("2026-04-13", "1.1684")

	publish("2026-04-14", "11.684")
	waiting := p.Status().Waiting
	if len(waiting) != 1 || waiting[0].Code != "USD" || waiting[0].Value.String() != "11.684" {
		t.Errorf("got %v waiting", waiting)
	}
	want(t, p, "2026-04-14", "JPY", "186.75", "ECB")
	day, err := p.Current().Latest("USD")
	if err != nil || day.Date().String() != "2026-04-13" {
		t.Errorf("the newest dollar is of %s, %v", day.Date(), err)
	}

	// Two more publications agree, the last after a restart.
	publish("2026-04-15", "11.7")
	p = open(t, options)
	publish("2026-04-16", "11.72")
	for date, rate := range map[string]string{"2026-04-14": "11.684", "2026-04-15": "11.7", "2026-04-16": "11.72"} {
		want(t, p, date, "USD", rate, "ECB")
	}
	if waiting := p.Status().Waiting; len(waiting) != 0 {
		t.Errorf("got %v waiting", waiting)
	}
}
