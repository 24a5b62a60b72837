package rates_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// build makes a dataset of lines such as "2026-04-13 USD 1.1 ECB".
func build(t interface {
	Helper()
	Fatal(...any)
}, lines ...string) *rates.Dataset {
	t.Helper()
	var b rates.Builder
	for _, line := range lines {
		fields := strings.Fields(line)
		day, err := civil.Parse(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		source := rates.SourceECB
		if fields[3] == "indicative" {
			source = rates.SourceIndicative
		}
		b.Set(day, currency.Code(fields[1]), value(t, fields[2]), source)
	}
	return b.Build()
}

// codesOf returns the currencies of a day.
func codesOf(t interface {
	Helper()
	Fatal(...any)
}, day rates.Day) []currency.Code {
	t.Helper()
	table, err := day.Rates(currency.Euro)
	if err != nil {
		t.Fatal(err)
	}
	var codes []currency.Code
	for _, quote := range table {
		codes = append(codes, quote.Code)
	}
	return codes
}

func date(t *testing.T, text string) civil.Date {
	t.Helper()
	d, err := civil.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAt(t *testing.T) {
	t.Parallel()
	data := build(t,
		"2026-04-10 USD 1.1 ECB", "2026-04-10 KES 150 indicative",
		"2026-04-13 USD 1.2 ECB",
		"2026-05-20 USD 1.3 ECB",
	)
	tests := []struct {
		on    string
		codes []currency.Code
		want  string // empty for ErrNoRate
	}{
		{"2026-04-13", nil, "2026-04-13"},
		{"2026-04-12", nil, "2026-04-10"},
		{"2026-04-09", nil, ""},
		{"2026-04-13", []currency.Code{"EUR", "USD"}, "2026-04-13"},
		{"2026-04-13", []currency.Code{"KES", "USD"}, "2026-04-10"}, // the bank's day has no shilling
		{"2026-04-24", []currency.Code{"KES"}, "2026-04-10"},        // 14 days
		{"2026-04-25", []currency.Code{"KES"}, ""},                  // 15 days
		{"2026-04-27", []currency.Code{"USD"}, "2026-04-13"},
		{"2026-04-28", []currency.Code{"USD"}, ""},
		{"2026-06-03", []currency.Code{"EUR"}, "2026-05-20"},
		{"2026-06-04", []currency.Code{"EUR"}, ""},
		{"2026-04-13", []currency.Code{"ZZZ"}, ""},
	}
	for _, test := range tests {
		day, err := data.At(date(t, test.on), test.codes...)
		if test.want == "" {
			if !errors.Is(err, rates.ErrNoRate) {
				t.Errorf("%s %v: got %v, want ErrNoRate", test.on, test.codes, err)
			}
			continue
		}
		if err != nil || day.Date().String() != test.want {
			t.Errorf("%s %v: got %v, want %s", test.on, test.codes, err, test.want)
		}
	}
}

// What has ended has no rate after its last day, though one would be within
// reach.
func TestAtEndsWithTheCurrency(t *testing.T) {
	t.Parallel()
	data := build(t, "2025-12-30 BGN 1.9558 ECB", "2025-12-30 USD 1.17 ECB")
	for on, want := range map[string]string{"2025-12-30": "2025-12-30", "2025-12-31": "2025-12-30"} {
		if day, err := data.At(date(t, on), "USD", "BGN"); err != nil || day.Date().String() != want {
			t.Errorf("%s: got %v, want %s", on, err, want)
		}
	}
	if day, err := data.At(date(t, "2026-01-01"), "USD", "BGN"); !errors.Is(err, rates.ErrNoRate) {
		t.Errorf("after its end: got a rate of %s, %v, want ErrNoRate", day.Date(), err)
	}
	if _, err := data.At(date(t, "2026-01-01"), "USD"); err != nil {
		t.Errorf("another currency: got %v", err)
	}
	if day, err := data.Latest("USD", "BGN"); err != nil || day.Date().String() != "2025-12-30" {
		t.Errorf("the latest: got %v", err)
	}
}

// Without a date the newest rate is used, of any age; the answer has its date.
func TestLatest(t *testing.T) {
	t.Parallel()
	data := build(t, "2025-01-02 KES 150 indicative", "2025-01-02 USD 1.1 indicative", "2026-04-13 USD 1.2 ECB")
	for want, codes := range map[string][]currency.Code{
		"2026-04-13": {"USD", "EUR"},
		"2025-01-02": {"USD", "KES"},
	} {
		day, err := data.Latest(codes...)
		if err != nil || day.Date().String() != want {
			t.Errorf("%v: got %v, want %s", codes, err, want)
		}
	}
	if _, err := data.Latest("GBP"); !errors.Is(err, rates.ErrNoRate) {
		t.Errorf("got %v, want ErrNoRate", err)
	}
	if got := data.Newest().String(); got != "2026-04-13" || data.Days() != 2 {
		t.Errorf("got %s of %d days", got, data.Days())
	}
}

func TestEmptyDataset(t *testing.T) {
	t.Parallel()
	data := build(t)
	if _, err := data.Latest("EUR"); !errors.Is(err, rates.ErrNoRate) {
		t.Errorf("got %v, want ErrNoRate", err)
	}
	if _, err := data.At(civil.New(2026, 1, 1)); !errors.Is(err, rates.ErrNoRate) {
		t.Errorf("got %v, want ErrNoRate", err)
	}
	if !data.Newest().IsZero() || data.Listings() != nil || data.Quotes("EUR") || data.Days() != 0 {
		t.Error("an empty dataset has something")
	}
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	snapshot := build(t,
		"2026-04-10 KES 150 indicative", "2026-04-10 USD 1.09 indicative",
		"2026-04-11 KES 151 indicative", "2026-04-11 USD 1.10 indicative",
	)
	bank := build(t, "2026-04-10 USD 1.1 ECB", "2026-04-13 USD 1.2 ECB")
	merged := rates.Overlay(snapshot, bank)

	tests := []struct {
		on, usd string
		source  rates.Source
		codes   []currency.Code
	}{
		// Both have the day: the bank's dollar, the snapshot's shilling.
		{"2026-04-10", "1.1", rates.SourceECB | rates.SourceIndicative, []currency.Code{"EUR", "KES", "USD"}},
		// One of them has it: that one alone answers.
		{"2026-04-11", "1.1", rates.SourceIndicative, []currency.Code{"EUR", "KES", "USD"}},
		{"2026-04-13", "1.2", rates.SourceECB, []currency.Code{"EUR", "USD"}},
	}
	for _, test := range tests {
		day, found := merged.On(date(t, test.on))
		if !found {
			t.Fatalf("no rates on %s", test.on)
		}
		rate, err := day.Rate("EUR", "USD")
		if test.usd == "" && !errors.Is(err, rates.ErrNoRate) || test.usd != "" && (err != nil || rate.String() != test.usd) {
			t.Errorf("%s: got %s, %v, want %q", test.on, rate, err, test.usd)
		}
		if got := day.Source(); got != test.source {
			t.Errorf("%s: got %s, want %s", test.on, got, test.source)
		}
		if got := codesOf(t, day); !slices.Equal(got, test.codes) {
			t.Errorf("%s: got %v, want %v", test.on, got, test.codes)
		}
	}

	day, err := merged.At(date(t, "2026-04-10"))
	if err != nil {
		t.Fatal(err)
	}
	for pair, want := range map[[2]currency.Code]string{
		{"EUR", "USD"}: "ECB", {"USD", "KES"}: "ECB+indicative", {"KES", "EUR"}: "indicative", {"EUR", "EUR"}: "ECB",
	} {
		if got := day.Source(pair[0], pair[1]).String(); got != want {
			t.Errorf("%v: got %s, want %s", pair, got, want)
		}
	}
}

// The bank comes first, then a parity, then the indicative value. A parity has
// the source of its base, too. On a day without a publication the bank has its
// last value.
func TestMerge(t *testing.T) {
	t.Parallel()
	indicative := build(t,
		"2026-04-10 KES 150 indicative", "2026-04-10 USD 1.09 indicative", "2026-04-10 BZD 2.3 indicative",
		"2026-04-11 USD 1.10 indicative", "2026-04-12 KES 151 indicative",
		"2026-04-12 JPY 162.67516375 indicative", "2026-03-02 USD 1.23456789012345678 indicative",
	)
	data := rates.Merge(indicative, build(t, "2026-03-02 GBP 0.86 ECB", "2026-04-10 USD 1.1 ECB", "2026-04-13 USD 1.2 ECB"))
	for _, test := range []struct{ date, from, to, rate, source string }{
		{"2026-04-10", "EUR", "USD", "1.1", "ECB"},
		{"2026-04-10", "USD", "BZD", "2", "ECB+parity"},
		{"2026-04-10", "BZD", "XOF", "298.162272727", "ECB+parity"},
		{"2026-04-10", "EUR", "XOF", "655.957", "parity"},
		{"2026-04-10", "XPF", "EUR", "0.00838", "parity"},
		{"2026-04-10", "KYD", "USD", "1.2", "ECB+parity"},
		{"2026-04-10", "USD", "KYD", "0.833333333333", "ECB+parity"},
		{"2026-04-10", "KYD", "XPF", "130.180082447", "ECB+parity"},
		{"2026-04-10", "BZD", "KES", "68.1818181818", "ECB+parity+indicative"},
		{"2026-04-11", "EUR", "USD", "1.1", "ECB"},
		{"2026-04-11", "USD", "BZD", "2", "ECB+parity"},
		{"2026-04-12", "XOF", "KES", "0.230198016028", "parity+indicative"},
		{"2026-04-12", "EUR", "BZD", "2.2", "ECB+parity"},
		{"2026-03-02", "EUR", "KES", "", ""},
		{"2026-04-12", "XPF", "JPY", "1.36321787222", "parity+indicative"}, // exactly …2225: to even
		{"2026-03-02", "USD", "AED", "3.6725", "parity+indicative"},        // 23 digits
		{"2026-03-02", "EUR", "AED", "4.53395057648", "parity+indicative"},
		{"2026-03-02", "AED", "XPF", "26.3195948501", "parity+indicative"},
		{"2026-04-13", "USD", "AED", "3.6725", "ECB+parity"},
	} {
		day, found := data.On(date(t, test.date))
		if !found {
			t.Fatalf("no rates on %s", test.date)
		}
		from, to := currency.Code(test.from), currency.Code(test.to)
		got, err := day.Rate(from, to)
		if test.rate == "" {
			if !errors.Is(err, rates.ErrNoRate) {
				t.Errorf("%v: got %s, %v, want ErrNoRate", test, got, err)
			}
			continue
		}
		if err != nil || got.String() != test.rate || day.Source(from, to).String() != test.source {
			t.Errorf("%v: got %s of %s, %v", test, got, day.Source(from, to), err)
		}
	}
	day, _ := data.On(date(t, "2026-04-10"))
	if value, _ := day.Value("KYD"); value.String() != "0.916666666666666667" {
		t.Errorf("a euro bought %s KYD", value)
	}
	if version := data.Version(); version == indicative.Version() || version != data.From(rates.SourceECB).Version() {
		t.Errorf("got version %s", version)
	}
}

// The bank publishes a currency until its publications have lacked it for 14 days.
// Then the indicative rates follow. A bank whose publications do not arrive has
// not stopped: there are no indicative rates of its currencies, and its last ones
// hold for 14 days. A pair has the days of its new rates.
func TestOneSourceAtATime(t *testing.T) {
	t.Parallel()
	bank := []string{"2026-01-02 RUB 90 ECB"}
	for day := civil.New(2026, 1, 2); day <= civil.New(2026, 1, 16); day += 7 {
		bank = append(bank, day.String()+" USD 1.1 ECB")
	}
	bank = append(bank, "2026-01-17 USD 1.2 ECB")
	data := rates.Merge(build(t,
		"2026-01-01 USD 2 indicative", "2026-01-03 RUB 80 indicative", "2026-01-16 RUB 81 indicative", "2026-01-18 RUB 82 indicative",
		"2026-01-03 BZD 9 indicative", "2026-01-31 BZD 9 indicative", "2026-02-01 BZD 9 indicative",
		"2026-01-18 USD 2 indicative", "2026-01-31 USD 2 indicative", "2026-02-01 USD 2 indicative",
		"2026-01-31 KES 150 indicative", "2026-02-01 KES 151 indicative",
	), build(t, bank...))
	all := func(to ...currency.Code) rates.Range {
		return rates.Range{From: "EUR", To: to, Start: data.First(), End: data.Newest()}
	}
	for code, want := range map[currency.Code][]string{
		"USD": {"2026-01-01 2", "2026-01-02 1.1", "2026-01-09 1.1", "2026-01-16 1.1", "2026-01-17 1.2"},
		"RUB": {"2026-01-02 90", "2026-01-18 82"},
		"BZD": {"2026-01-01 4", "2026-01-02 2.2", "2026-01-09 2.2", "2026-01-16 2.2", "2026-01-17 2.4"},
		"XOF": {"2026-01-02 655.957", "2026-01-09 655.957", "2026-01-16 655.957", "2026-01-17 655.957"},
		"EUR": {"2026-01-02 1", "2026-01-09 1", "2026-01-16 1", "2026-01-17 1"},
		"KES": {"2026-01-31 150", "2026-02-01 151"},
	} {
		if got := lines(t, data, all(code)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
	mixed := all("KES")
	mixed.From = "USD"
	if got, want := lines(t, data, mixed), []string{"2026-01-31 125"}; !slices.Equal(got, want) {
		t.Errorf("USD in KES: got %q, want %q", got, want)
	}
	// A whole vector without a date has the currencies of the bank.
	for base, want := range map[currency.Code]string{"EUR": "2026-01-17", "BZD": "2026-01-17", "RUB": "2026-01-02"} {
		if day, err := data.Whole().Latest(base); err != nil || day.Date().String() != want {
			t.Errorf("the table of %s: got %s, %v, want %s", base, day.Date(), err, want)
		}
	}
	for on, want := range map[string]string{"2026-01-31": "BZD KES USD XOF", "2026-02-01": "KES"} {
		day, err := data.Whole().At(date(t, on), "EUR")
		if err != nil || day.Date().String() != on {
			t.Fatalf("%s: got %v", on, err)
		}
		var got []string
		for _, code := range strings.Fields("BZD KES RUB USD XOF") {
			if _, found := day.Value(currency.Code(code)); found {
				got = append(got, code)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", on, got, want)
		}
	}
}

// A parity whose base has no rates is no currency of the dataset.
func TestMergeWithoutABase(t *testing.T) {
	t.Parallel()
	data := rates.Merge(build(t, "2026-04-10 KES 150 indicative"), build(t, "2026-04-10 GBP 0.86 ECB"))
	for _, l := range data.Listings() {
		if l.First.IsZero() || l.Code == "BZD" {
			t.Errorf("got %+v", l)
		}
	}
	if data.Quotes("BZD") || !data.Quotes("XOF") {
		t.Error("Quotes does not agree with the listings")
	}
}

// From leaves out every value that needs another source, and nothing else.
func TestFrom(t *testing.T) {
	t.Parallel()
	data := rates.Merge(
		build(t, "2026-04-10 KES 150 indicative", "2026-04-11 KES 151 indicative", "2026-04-11 USD 1.15 indicative"),
		build(t, "2026-04-10 USD 1.1 ECB"))
	for _, test := range []struct {
		sources rates.Source
		codes   []currency.Code
		want    string
	}{
		{rates.SourceECB, []currency.Code{"EUR", "USD"}, "2026-04-10"},
		{rates.SourceECB, []currency.Code{"EUR"}, "2026-04-10"},
		{rates.SourceECB, nil, "2026-04-10"},
		{rates.SourceECB, []currency.Code{"USD", "BZD"}, ""},
		{rates.SourceECB | rates.SourceParity, []currency.Code{"USD", "BZD"}, "2026-04-10"},
		{rates.SourceParity, []currency.Code{"EUR", "XOF"}, "2026-04-10"},
		{rates.SourceParity, []currency.Code{"USD", "BZD"}, ""},
		{rates.SourceParity | rates.SourceIndicative, []currency.Code{"USD", "BZD"}, ""},
		{rates.SourceIndicative, []currency.Code{"KES", "EUR"}, "2026-04-11"},
		{rates.AllSources, []currency.Code{"KES", "USD"}, "2026-04-11"},
		{0, nil, ""},
	} {
		day, err := data.From(test.sources).Latest(test.codes...)
		if test.want == "" && !errors.Is(err, rates.ErrNoRate) || test.want != "" && (err != nil || day.Date().String() != test.want) {
			t.Errorf("%s of %s: got %v, want %q", test.codes, test.sources, err, test.want)
		}
	}
	day, err := data.From(rates.SourceECB).Latest()
	if err != nil {
		t.Fatal(err)
	}
	if got := codesOf(t, day); !slices.Equal(got, []currency.Code{"EUR", "USD"}) || day.Source() != rates.SourceECB {
		t.Errorf("got %v of %s", got, day.Source())
	}
}

// What is no value makes no rate, and no division by it.
func TestNoValueIsNotSet(t *testing.T) {
	t.Parallel()
	on := civil.New(2026, 4, 13)
	var b rates.Builder
	b.Set(on, "USD", rates.Value{}, rates.SourceECB)
	b.Set(on, "GBP", value(t, "0.8"), rates.SourceECB)
	day := newest(t, b.Build())
	if got, want := codesOf(t, day), []currency.Code{"EUR", "GBP"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, err := day.Rates("USD"); !errors.Is(err, rates.ErrNoRate) {
		t.Errorf("got %v, %v, want ErrNoRate", got, err)
	}
}

func TestListings(t *testing.T) {
	t.Parallel()
	data := build(t,
		"2026-04-10 BGN 1.95583 ECB", "2026-04-10 USD 1.1 indicative",
		"2026-04-13 USD 1.2 ECB", "2026-04-14 KES 150 indicative",
	)
	var got []string
	for _, l := range data.Listings() {
		got = append(got, strings.Join([]string{string(l.Code), l.First.String(), l.Last.String(), l.Source.String()}, " "))
	}
	want := []string{
		"BGN 2026-04-10 2026-04-10 ECB",
		"EUR 2026-04-10 2026-04-13 ECB",
		"KES 2026-04-14 2026-04-14 indicative",
		"USD 2026-04-10 2026-04-13 ECB",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !data.Quotes("BGN") || !data.Quotes("EUR") || data.Quotes("GBP") {
		t.Error("Quotes does not agree with the listings")
	}
}

// The version changes if and only if an answer may change.
func TestVersion(t *testing.T) {
	t.Parallel()
	base := []string{"2026-04-10 USD 1.1 ECB", "2026-04-10 GBP 0.86 ECB", "2026-04-13 USD 1.2 ECB"}
	version := build(t, base...).Version()
	if len(version) != 32 {
		t.Errorf("got %q", version)
	}
	for name, lines := range map[string][]string{
		"another order":     {base[2], base[1], base[0]},
		"a later value won": append([]string{"2026-04-13 USD 1.9 ECB"}, base...),
		"another spelling":  {base[0], base[1], "2026-04-13 USD 1.200 ECB"},
	} {
		if got := build(t, lines...).Version(); got != version {
			t.Errorf("%s: the version changed", name)
		}
	}
	for name, lines := range map[string][]string{
		"another value":    {base[0], base[1], "2026-04-13 USD 1.21 ECB"},
		"another scale":    {base[0], base[1], "2026-04-13 USD 12 ECB"},
		"another source":   {base[0], base[1], "2026-04-13 USD 1.2 indicative"},
		"another day":      {base[0], base[1], "2026-04-14 USD 1.2 ECB"},
		"another currency": {base[0], base[1], "2026-04-13 GBP 1.2 ECB"},
		"one less":         base[:2],
	} {
		if got := build(t, lines...).Version(); got == version {
			t.Errorf("%s: the version did not change", name)
		}
	}
}
