package ecb_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
)

// embeddedTo returns the rates of the fixture to a day, as the embedded ones of
// a release are.
func embeddedTo(t *testing.T, newest string) *rates.Dataset {
	t.Helper()
	header, lines, _ := strings.Cut(fixture(t, "eurofxref-hist.csv"), "\n")
	_, older, found := strings.Cut("\n"+lines, "\n"+newest)
	if !found {
		t.Fatalf("the fixture has no %s", newest)
	}
	data, err := rates.ReadTable(header+"\n"+newest+older, rates.SourceECB)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// stored returns the lines of the table on disk, without the header.
func stored(t *testing.T, options ecb.Options) []string {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(options.Directory, "ecb.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(table)), "\n")[1:]
}

func tableInfo(t *testing.T, options ecb.Options) os.FileInfo {
	t.Helper()
	info, err := os.Stat(filepath.Join(options.Directory, "ecb.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// Live rates continue the embedded ones: the history is fetched once, the daily
// file then, and the directory has only what is not embedded.
func TestLiveRatesContinueTheEmbeddedOnes(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	now := evening
	options.Now = func() time.Time { return now }
	options.Bank = embeddedTo(t, "2026-04-09")
	p := open(t, options)
	want(t, p, "2026-04-09", "USD", "1.1685", "ECB")
	if status := p.Status(); status.Newest.String() != "2026-04-09" || status.Days != 10 || p.Missed(now) != 2 {
		t.Errorf("got %+v and %d missed", status, p.Missed(now))
	}

	refresh(t, p)
	now = now.AddDate(0, 0, 1)
	b.put(dailyPath, daily(t, "2026-04-14", "1.1700"))
	refresh(t, p)
	p = open(t, options)
	refresh(t, p)
	if history, daily := b.asked(historyPath), b.asked(dailyPath); history != 1 || daily != 3 {
		t.Errorf("got %d and %d requests, want 1 and 3", history, daily)
	}
	for day, dollar := range map[string]string{"2025-12-31": "1.175", "2026-04-09": "1.1685", "2026-04-10": "1.1711", "2026-04-13": "1.1684", "2026-04-14": "1.17"} {
		want(t, p, day, "USD", dollar, "ECB")
	}
	lines := stored(t, options)
	if status := p.Status(); len(lines) != 3 || !strings.HasPrefix(lines[2], "2026-04-10,") || status.Days != 13 || p.Missed(now) != 0 {
		t.Errorf("got %+v and the table %v", status, lines)
	}
}

// The bank corrects an old day: the directory has this value and the newest
// day, and a restart serves it.
func TestCorrectionOfAnEmbeddedDay(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	options.Bank = embeddedTo(t, "2026-04-13")
	b.put(historyPath, strings.Replace(fixture(t, "eurofxref-hist.csv"), "\n2025-12-31,1.175,", "\n2025-12-31,1.185,", 1))
	refresh(t, open(t, options))
	p := open(t, options)
	want(t, p, "2025-12-31", "USD", "1.185", "ECB")
	want(t, p, "2025-12-31", "BGN", "1.9558", "ECB")
	lines := stored(t, options)
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "2026-04-13,") || strings.Count(lines[1], "N/A") != strings.Count(lines[1], ",")-1 {
		t.Errorf("got the table %q", lines)
	}

	// It takes the correction back.
	b.put(historyPath, fixture(t, "eurofxref-hist.csv"))
	if _, err := p.Import("testdata/eurofxref-hist.csv"); err != nil {
		t.Fatal(err)
	}
	p = open(t, options)
	want(t, p, "2025-12-31", "USD", "1.175", "ECB")
	if lines := stored(t, options); len(lines) != 1 || p.Status().Err != nil {
		t.Errorf("got the table %q, %v", lines, p.Status().Err)
	}
}

// A release with newer embedded rates: they replace those on disk, which may be
// older. Later days on disk stay, and the history is fetched again.
func TestNewerEmbeddedRates(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	options.Bank = embeddedTo(t, "2026-03-31")
	b.put(historyPath, strings.Replace(fixture(t, "eurofxref-hist.csv"), "\n2026-04-01,1.1605,", "\n2026-04-01,1.1705,", 1))
	first := open(t, options)
	refresh(t, first)
	want(t, first, "2026-04-01", "USD", "1.1705", "ECB")

	options.Bank = embeddedTo(t, "2026-04-09")
	p := open(t, options)
	want(t, p, "2026-04-01", "USD", "1.1605", "ECB")
	want(t, p, "2026-04-13", "USD", "1.1684", "ECB")
	b.put(historyPath, fixture(t, "eurofxref-hist.csv"))
	refresh(t, p)
	if got := b.asked(historyPath); got != 2 {
		t.Errorf("the history was fetched %d times, want 2", got)
	}
	if lines := stored(t, options); len(lines) != 2 {
		t.Errorf("got the table %q", lines)
	}
	want(t, open(t, options), "2026-04-01", "USD", "1.1605", "ECB")

	// Nothing on disk is newer than the embedded rates.
	options.Bank = embeddedTo(t, "2026-04-13")
	p = open(t, options)
	if status := p.Status(); status.Err != nil || status.Newest.String() != "2026-04-13" || status.Days != 12 {
		t.Errorf("got %+v", status)
	}

	// An older release again: the history closes the gap.
	refresh(t, p)
	options.Bank = embeddedTo(t, "2026-03-31")
	p = open(t, options)
	refresh(t, p)
	want(t, p, "2026-04-02", "USD", "1.1525", "ECB")
}

// The history fails after a gap, and the daily file does not: the history is
// fetched again until the gap is closed, also after a restart.
func TestHistoryAfterAGap(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	options.Bank = embeddedTo(t, "2026-04-02")
	b.put(historyPath, "<html>")
	for range 2 {
		p := open(t, options)
		if err := p.Refresh(t.Context()); err == nil {
			t.Error("the failure is not reported")
		}
		want(t, p, "2026-04-13", "USD", "1.1684", "ECB")
		if _, found := p.Current().On(parseDate(t, "2026-04-10")); found {
			t.Error("there is no gap")
		}
	}
	b.put(historyPath, fixture(t, "eurofxref-hist.csv"))
	p := open(t, options)
	refresh(t, p)
	want(t, p, "2026-04-10", "USD", "1.1711", "ECB")
}

// Each publication has at least half of the currencies of the one before, and
// the last one not of the embedded ones: a restart serves all of them.
func TestFewerAndFewerCurrencies(t *testing.T) {
	t.Parallel()
	options := ecb.Options{
		Indicative: base(t), Bank: embeddedTo(t, "2026-04-13"), Directory: t.TempDir(),
		Now: func() time.Time { return evening.AddDate(0, 0, 2) },
	}
	p := open(t, options)
	for _, table := range []string{
		"Date,USD,JPY,CZK,DKK,GBP,HUF,PLN,SEK,CHF,NOK,TRY,AUD,BRL,CAD,CNY\n" +
			"2026-04-14,1.17,186,24.4,7.47,0.87,366,4.25,10.9,0.92,11.1,52.2,1.66,5.87,1.61,7.98\n",
		"Date,USD,JPY,CZK,DKK,GBP,HUF,PLN,SEK\n2026-04-15,1.18,186,24.4,7.47,0.87,366,4.25,10.9\n",
	} {
		path := filepath.Join(t.TempDir(), "table.csv")
		if err := os.WriteFile(path, []byte(table), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Import(path); err != nil {
			t.Fatal(err)
		}
	}
	p = open(t, options)
	if err := p.Status().Err; err != nil {
		t.Error(err)
	}
	want(t, p, "2026-04-14", "CNY", "7.98", "ECB")
	want(t, p, "2026-04-15", "USD", "1.18", "ECB")
}

// Threat: the table on disk is damaged. The embedded rates are served, and the
// validators of what is lost do not keep the bank from sending it again.
func TestDamagedTableBesideEmbeddedRates(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	options.Bank = embeddedTo(t, "2026-04-09")
	refresh(t, open(t, options))
	path := filepath.Join(options.Directory, "ecb.csv")
	for name, damage := range map[string]func() error{
		"cut":     func() error { return os.Truncate(path, 300) },
		"empty":   func() error { return os.Truncate(path, 0) },
		"another": func() error { return os.WriteFile(path, []byte(http.StatusText(http.StatusBadGateway)), 0o600) },
		"removed": func() error { return os.Remove(path) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		p := open(t, options)
		if status := p.Status(); (status.Err == nil) != (name == "removed") || status.Newest.String() != "2026-04-09" || status.Days != 10 {
			t.Errorf("%s: got %+v", name, status)
		}
		want(t, p, "2026-04-09", "USD", "1.1685", "ECB")
		refresh(t, p)
		want(t, p, "2026-04-10", "USD", "1.1711", "ECB")
		want(t, open(t, options), "2026-04-13", "USD", "1.1684", "ECB")
	}
}

// The bank has exactly the embedded file: it is not downloaded again.
func TestNothingNewAfterTheEmbeddedRates(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	options := b.options(t)
	options.Bank = embeddedTo(t, "2026-04-13")
	refresh(t, open(t, options))
	table := tableInfo(t, options)
	p := open(t, options)
	refresh(t, p)
	if history := b.asked(historyPath); history != 1 || len(stored(t, options)) != 1 {
		t.Errorf("got %d requests and the table %q", history, stored(t, options))
	}
	if status := p.Status(); !status.FetchedAt.Equal(evening) || status.Days != 12 {
		t.Errorf("got %+v", status)
	}
	if _, err := p.Import("testdata/eurofxref-hist.csv"); err != nil {
		t.Fatal(err)
	}
	if after := tableInfo(t, options); !os.SameFile(table, after) {
		t.Error("the same table was written again")
	}
}
