package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// history is a history as a client reads it.
type history struct {
	From      string `json:"from"`
	To        string `json:"to"`
	StartDate string `json:"start_date"`
	EndDate   string `json:"end_date"`
	Group     string `json:"group"`
	Count     int    `json:"count"`
	Source    string `json:"source"`
	Rates     []struct {
		Date   string     `json:"date"`
		Rate   jsonNumber `json:"rate"`
		Filled bool       `json:"filled"`
	} `json:"rates"`
}

// jsonNumber is the text of a number.
type jsonNumber string

func (n *jsonNumber) UnmarshalJSON(text []byte) error {
	*n = jsonNumber(text)
	return nil
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := serve(t)
	week := `{"date":"2026-09-21","rate":1.1789},{"date":"2026-09-22","rate":1.1808},{"date":"2026-09-23","rate":1.1779},` +
		`{"date":"2026-09-24","rate":1.1732},{"date":"2026-09-25","rate":1.1701}`
	for query, want := range map[string]string{
		"": `{"from":"EUR","to":"USD","start_date":"2026-08-27","end_date":"2026-09-25","group":"day","count":7,"source":"ECB","rates":[` +
			`{"date":"2026-08-31","rate":1.1688},{"date":"2026-09-18","rate":1.1778},` + week + `]}`,
		"?start_date=2026-09-19&end_date=2026-09-29&fill=previous": `{"from":"EUR","to":"USD","start_date":"2026-09-19","end_date":"2026-09-29","group":"day","count":11,"source":"ECB","rates":[` +
			`{"date":"2026-09-19","rate":1.1778,"filled":true},{"date":"2026-09-20","rate":1.1778,"filled":true},` + week +
			`,{"date":"2026-09-26","rate":1.1701,"filled":true},{"date":"2026-09-27","rate":1.1701,"filled":true}` +
			`,{"date":"2026-09-28","rate":1.1701,"filled":true},{"date":"2026-09-29","rate":1.1701,"filled":true}]}`,
		"?start_date=2026-08-31&end_date=2026-09-24&group=week": `{"from":"EUR","to":"USD","start_date":"2026-08-31","end_date":"2026-09-24","group":"week","count":3,"source":"ECB","rates":[` +
			`{"date":"2026-08-31","rate":1.1688},{"date":"2026-09-18","rate":1.1778},{"date":"2026-09-24","rate":1.1732}]}`,
		"?start_date=2026-08-01&group=month": `{"from":"EUR","to":"USD","start_date":"2026-08-01","end_date":"2026-09-25","group":"month","count":2,"source":"ECB","rates":[` +
			`{"date":"2026-08-31","rate":1.1688},{"date":"2026-09-25","rate":1.1701}]}`,
		// Beyond 14 days nothing is carried.
		"?start_date=2026-09-14&end_date=2026-09-16&fill=previous": `{"from":"EUR","to":"USD","start_date":"2026-09-14","end_date":"2026-09-16","group":"day","count":1,"source":"ECB","rates":[` +
			`{"date":"2026-09-14","rate":1.1688,"filled":true}]}`,
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			a := s.get(t, "/api/history/eur/usd"+query)
			if a.status != http.StatusOK || string(a.body) != want {
				t.Errorf("got  %d %s\nwant 200 %s", a.status, a.body, want)
			}
		})
	}
}

func TestHistoryBounds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for query, want := range map[string]string{
		"start_date=2026-09-25&end_date=2026-09-24": "is after",
		"start_date=2016-09-17&end_date=2026-09-25": "3661 days",
		"start_date=1999-01-04":                     "At most 3660",
	} {
		p := s.get(t, "/api/history/EUR/USD?"+query).refused(t, 400, "invalid_date")
		if !strings.Contains(p.Message, want) {
			t.Errorf("%s: %q does not say %q", query, p.Message, want)
		}
	}
	var h history
	s.get(t, "/api/history/EUR/USD?start_date=2016-09-18&end_date=2026-09-25").decode(t, &h)
	if h.Count != 9 {
		t.Errorf("got %d rates in 3660 days, want 9", h.Count)
	}
	s.get(t, "/api/history/EUR/USD?start_date=2026-09-26").refused(t, 404, "no_rate")
	s.get(t, "/api/history/EUR/USD?end_date=0001-01-29").refused(t, 404, "no_rate")
	s.get(t, "/api/convert/EUR/1/USD?date=0001-01-14").refused(t, 404, "no_rate")
	s.get(t, "/api/convert/EUR/1/USD?date=1999-01-03").refused(t, 404, "no_rate")
	s.get(t, "/api/history/EUR/USD?end_date=1999-01-03").refused(t, 404, "no_rate")
	s.get(t, "/api/history/BGN/EUR?start_date=2026-01-01").refused(t, 404, "currency_retired")
	s.get(t, "/api/history/BGN/EUR?start_date=2025-12-31&end_date=2026-01-05").refused(t, 404, "no_rate")
	s.get(t, "/api/history/BGN/EUR?start_date=2025-12-01&end_date=2026-01-05").decode(t, &h)
	if h.Count != 1 || h.Rates[0].Date != "2025-12-30" {
		t.Errorf("the lev's last month: got %+v", h)
	}
	// Without start_date, the first day is 29 days before the last: the lev had a
	// rate then.
	s.get(t, "/api/history/BGN/EUR?end_date=2026-01-28").decode(t, &h)
	if h.Count != 1 || h.StartDate != "2025-12-30" {
		t.Errorf("the lev's last rate: got %+v", h)
	}
	s.get(t, "/api/history/BGN/EUR?end_date=2026-01-30").refused(t, 404, "currency_retired")
}

// withParities returns the fixture with the parities.
func withParities(t testing.TB) *rates.Dataset {
	return rates.Merge(fixture(t), new(rates.Builder).Build())
}

// TestSources: an answer names the sources of its rates, and source leaves out
// the others.
func TestSources(t *testing.T) {
	t.Parallel()
	s := serveWith(t, withParities(t))
	for target, want := range map[string]struct{ rate, source string }{
		"/api/convert/EUR/1/USD":                                       {"1.1701", "ECB"},
		"/api/convert/USD/1/KYD":                                       {"0.833333333333", "ECB+parity"},
		"/api/convert/BZD/1/XOF":                                       {"280.299547047", "ECB+parity"},
		"/api/convert/XOF/1/XPF":                                       {"0.181920068302", "parity"},
		"/api/convert/EUR/1/XOF":                                       {"655.957", "parity"},
		"/api/convert/XOF/1/KWD":                                       {"0.000544431200185", "parity+indicative"},
		"/api/convert/KYD/1/KWD":                                       {"0.366249165145", "ECB+parity+indicative"},
		"/api/convert/EUR/1/AED":                                       {"4.29719225", "ECB+parity"},
		"/api/convert/EUR/1/EUR":                                       {"1", "ECB"},
		"/api/convert/EUR/1/EUR?source=indicative":                     {"1", "indicative"},
		"/api/convert/EUR/1/VND?source=indicative":                     {"30912.4412", "indicative"},
		"/api/convert/EUR/1/USD?source=ecb":                            {"1.1701", "ECB"},
		"/api/convert/EUR/1/KYD?source=parity,ECB":                     {"0.975083333333", "ECB+parity"},
		"/api/convert/EUR/1/KYD?source=+Parity+,+ecb+&date=2026-09-24": {"0.977666666667", "ECB+parity"},
		"/api/convert/EUR/1/XOF?source=PARITY":                         {"655.957", "parity"},
		"/api/convert/EUR/1/XOF?source=ECB,parity,indicative":          {"655.957", "parity"},
	} {
		var c conversion
		s.get(t, target).decode(t, &c)
		if string(c.Rate) != want.rate || c.Source != want.source {
			t.Errorf("%s: got %s of %s, want %s of %s", target, c.Rate, c.Source, want.rate, want.source)
		}
	}
	for target, want := range map[string]string{
		"/api/rates/EUR?source=ECB":                              "ECB",
		"/api/rates/EUR?source=parity":                           "parity",
		"/api/rates/EUR":                                         "ECB+parity+indicative",
		"/api/rates/EUR?symbols=KYD,VND":                         "ECB+parity+indicative",
		"/api/history/EUR/KYD":                                   "ECB+parity",
		"/api/history/EUR/XOF,VND?source=parity,indicative":      "parity+indicative",
		"/api/history/EUR/USD,XOF,KYD?source=ECB,parity":         "ECB+parity",
		"/api/history/EUR/USD,KWD?source=ECB":                    "ECB",
		"/api/history/EUR/USD,KWD?end_date=2026-09-24":           "ECB+indicative", // the last day has the ECB's alone
		"/api/history/EUR/EUR?source=parity&end_date=2026-09-25": "parity",
	} {
		a := s.get(t, target)
		if !strings.Contains(string(a.body), `"source":"`+want+`"`) {
			t.Errorf("%s: got %s, want the source %s", target, a.body, want)
		}
	}
	for target, names := range map[string]string{
		"/api/convert/EUR/1/VND?source=ECB":                        "EUR, VND of the source ECB",
		"/api/convert/EUR/1/KYD?source=ECB":                        "EUR, KYD of the source ECB",
		"/api/convert/EUR/1/KYD?source=parity":                     "EUR, KYD of the source parity",
		"/api/convert/EUR/1/USD?source=parity,indicative":          "EUR, USD of the source parity+indicative",
		"/api/convert/EUR/1/VND?source=ECB,parity&date=2026-09-25": "EUR, VND from 2026-09-25 back to 2026-09-11 of the source ECB+parity",
		"/api/rates/VND?source=ECB":                                "VND of the source ECB",
		"/api/rates/EUR?source=ECB&symbols=USD,VND":                "EUR, USD, VND of the source ECB",
		"/api/rates/EUR?source=indicative&date=2026-09-21":         "EUR from 2026-09-21 back to 2026-09-07 of the source indicative",
		"/api/history/EUR/VND?source=ECB":                          "EUR, VND from 2026-08-31 to 2026-09-29 of the source ECB",
		"/api/history/EUR/VND,KYD?source=ECB":                      "EUR, KYD, VND from 2026-08-31 to 2026-09-29 of the source ECB",
		"/api/history/EUR/VND?source=ECB&end_date=2026-09-25":      "EUR, VND from 2026-08-27 to 2026-09-25 of the source ECB",
	} {
		if got := s.get(t, target).refused(t, 404, "no_rate").Message; got != "There is no day with a rate for "+names+"." {
			t.Errorf("%s: got %q, want %q in it", target, got, names)
		}
	}
	// Duplicates do not slow down the search of all days.
	long := "/api/rates/EUR?source=ECB&symbols=" + strings.Repeat("USD,", 4000) + "VND"
	if got, want := s.get(t, long).refused(t, 404, "no_rate").Message, "There is no day with a rate for EUR, USD, VND of the source ECB."; got != want {
		t.Errorf("4000 duplicates: got %.200q, want %q", got, want)
	}
	for _, path := range []string{"/api/convert/EUR/1/USD", "/api/rates/EUR", "/api/history/EUR/USD", "/api/history/EUR/USD,GBP"} {
		for _, value := range []string{"", ",", "ECB,", "snapshot", "ECB+parity", "ECB%2Bparity", "ECB%20parity", "ECB;parity", "ecbx", "%00"} {
			p := s.get(t, path+"?source="+value).refused(t, 400, "invalid_request")
			if value != "" && value != "ECB;parity" && !strings.Contains(p.Message, "Allowed: ECB, parity, indicative, or several of them separated by commas.") {
				t.Errorf("%s?source=%s: %q does not name the sources", path, value, p.Message)
			}
		}
		s.get(t, path+"?source=ECB&source=parity").refused(t, 400, "invalid_request")
	}
	s.get(t, "/api/currencies?source=ECB").refused(t, 400, "unknown_parameter")
	s.batch(t, `{"conversions":[{"from":"EUR","to":"USD","amount":1,"source":"ECB"}]}`).refused(t, 400, "invalid_request")
}

// TestParities: a currency that a parity has the rate of says which, and who
// says so.
func TestParities(t *testing.T) {
	t.Parallel()
	s := serveWith(t, withParities(t))
	text := string(s.get(t, "/api/currencies").body)
	for _, want := range []string{
		`"source":"parity","parity":{"base":"USD","rate":0.833333333333,"since":"1974-04-01","authority":"Cayman Islands Monetary Authority","url":"https://www.cima.ky/"}`,
		`"source":"parity","parity":{"base":"USD","rate":3.6725,`, `"source":"parity","parity":{"base":"EUR","rate":655.957,`,
		`"source":"parity","parity":{"base":"EUR","rate":119.331742243,`, // 1000 XPF = 8.38 EUR
		`"end_date":"2026-09-25","source":"ECB"}`, `"end_date":"2026-09-25","source":"indicative"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	// The parity is the one of the last day with a rate: the manat had another
	// until 2014.
	for day, want := range map[string]string{"2014-12-31": `"rate":2.85,`, "2015-01-02": `"rate":3.5,`} {
		bank, err := rates.ReadTable("Date,USD\n2014-12-30,1.216\n"+day+",1.2141\n", rates.SourceECB)
		if err != nil {
			t.Fatal(err)
		}
		manat := string(serveWith(t, rates.Merge(new(rates.Builder).Build(), bank)).get(t, "/api/currencies").body)
		if !strings.Contains(manat, `"code":"TMT"`) || !strings.Contains(manat, `"parity":{"base":"USD",`+want) {
			t.Errorf("on %s: no TMT with %s in %s", day, want, manat)
		}
	}
	// The bank's rate goes before the parity.
	quoted := string(serveWith(t, newer(t, "2026-09-28", "AED", "4.3001")).get(t, "/api/currencies").body)
	if first, _, _ := strings.Cut(quoted, "},{"); !strings.HasSuffix(first, `"end_date":"2026-09-28","source":"ECB"`) {
		t.Errorf("the bank's AED is %s", first)
	}
	var results struct {
		Results []conversion `json:"results"`
	}
	s.batch(t, `{"conversions":[{"from":"BZD","to":"XOF","amount":2},{"from":"USD","to":"BZD","amount":2}]}`).decode(t, &results)
	if got := results.Results; string(got[0].Rate) != "280.299547047" || got[0].Source != "ECB+parity" || string(got[1].Rate) != "2" {
		t.Errorf("the batch has %+v", got)
	}
}

func TestHistoryOfMany(t *testing.T) {
	t.Parallel()
	s := serveWith(t, withParities(t))
	for target, want := range map[string]string{
		"/api/history/eur/xof,usd,Vnd?start_date=2026-09-24&end_date=2026-09-26&fill=previous": `{"from":"EUR","to":"USD,VND,XOF","start_date":"2026-09-24","end_date":"2026-09-26","group":"day","count":3,"source":"ECB+parity+indicative","rates":[` +
			`{"date":"2026-09-24","rates":{"USD":1.1732,"VND":30912.4412,"XOF":655.957},"filled":true},{"date":"2026-09-25","rates":{"USD":1.1701,"VND":30912.4412,"XOF":655.957}},` +
			`{"date":"2026-09-26","rates":{"USD":1.1701,"VND":30912.4412,"XOF":655.957},"filled":true}]}`,
		"/api/history/EUR/BGN%2CUSD?start_date=2025-12-30&end_date=2026-01-02&summary=change": `{"from":"EUR","to":"BGN,USD","start_date":"2025-12-30","end_date":"2026-01-02","group":"day","count":2,"source":"ECB","summary":{` +
			`"BGN":{"start":1.95583,"end":1.95583,"change":0,"percent":0,"high":{"date":"2025-12-30","rate":1.95583},"low":{"date":"2025-12-30","rate":1.95583},"average":1.95583},` +
			`"USD":{"start":1.1769,"end":1.1721,"change":-0.0048,"percent":-0.407851134336,"high":{"date":"2025-12-30","rate":1.1769},"low":{"date":"2026-01-02","rate":1.1721},"average":1.1745}},"rates":[` +
			`{"date":"2025-12-30","rates":{"BGN":1.95583,"USD":1.1769}},{"date":"2026-01-02","rates":{"USD":1.1721}}]}`,
		"/api/history/EUR/USD?start_date=2026-09-21&end_date=2026-09-25&summary=change": `{"from":"EUR","to":"USD","start_date":"2026-09-21","end_date":"2026-09-25","group":"day","count":5,"source":"ECB","summary":{` +
			`"start":1.1789,"end":1.1701,"change":-0.0088,"percent":-0.746458563067,"high":{"date":"2026-09-22","rate":1.1808},"low":{"date":"2026-09-25","rate":1.1701},"average":1.17618},"rates":[` +
			`{"date":"2026-09-21","rate":1.1789},{"date":"2026-09-22","rate":1.1808},{"date":"2026-09-23","rate":1.1779},{"date":"2026-09-24","rate":1.1732},{"date":"2026-09-25","rate":1.1701}]}`,
	} {
		if a := s.get(t, target); a.status != http.StatusOK || string(a.body) != want {
			t.Errorf("%s: got\n%s\nwant\n%s", target, a.body, want)
		}
	}
	// Neither the order of the list nor the letters change the answer.
	first := s.get(t, "/api/history/EUR/AED,BZD,GBP,JPY,KWD,KYD,USD,VND,XAU,XOF?summary=change")
	for range 5 {
		again := s.get(t, "/api/history/eur/xof,XAU,VND,usd,KYD,KWD,JPY,GBP,BZD,AED?summary=change")
		if again.status != http.StatusOK || string(again.body) != string(first.body) || again.header.Get("ETag") != first.header.Get("ETag") {
			t.Fatalf("got\n%s\nand\n%s", first.body, again.body)
		}
	}
	// Without end_date, the last day is the newest with a rate of all currencies.
	later := serveWith(t, newer(t, "2026-09-28", "USD", "1.1713"))
	for query, want := range map[string]string{
		"":                       `{"date":"2026-09-25","rates":{"USD":1.1701,"VND":30912.4412}}]}`,
		"?start_date=2026-09-26": `{"date":"2026-09-28","rates":{"USD":1.1713}}]}`,
	} {
		if got := string(later.get(t, "/api/history/EUR/USD,VND"+query).body); !strings.HasSuffix(got, want) {
			t.Errorf("%q: got %s, want %s at its end", query, got, want)
		}
	}
	later.get(t, "/api/history/JPY/BGN,USD?start_date=2025-12-30&end_date=2026-01-02").refused(t, 404, "no_rate")
	ten := "AED,AUD,CHF,GBP,JPY,KWD,KYD,USD,VND,XAU"
	for list, code := range map[string]string{
		"USD,":                    "invalid_currency",
		",USD":                    "invalid_currency",
		"USD,,GBP":                "invalid_currency",
		"USD,GBPX":                "invalid_currency",
		"USD,%20GBP":              "invalid_currency",
		"USD;GBP":                 "invalid_currency",
		"USD,GBP,usd":             "invalid_request",
		ten + ",XOF":              "invalid_request",
		strings.Repeat("A", 5000): "invalid_currency",
	} {
		s.get(t, "/api/history/EUR/"+list).refused(t, 400, code)
	}
	for list, code := range map[string]string{"USD,ZZZ": "unknown_currency", "USD,BGN": "currency_retired", "DEM,USD": "currency_retired"} {
		s.get(t, "/api/history/EUR/"+list).refused(t, 404, code)
	}
	for _, value := range []string{"", "none", "Change", "change,change", "1"} {
		p := s.get(t, "/api/history/EUR/USD?summary="+value).refused(t, 400, "invalid_request")
		if value != "" && !strings.Contains(p.Message, "Allowed: change.") {
			t.Errorf("summary=%s: %q", value, p.Message)
		}
	}
}

// TestHistoryOfManyIsOfEach: the rates of a list are those of the histories of
// one currency, and so are the summaries.
func TestHistoryOfManyIsOfEach(t *testing.T) {
	t.Parallel()
	s := serveWith(t, withParities(t))
	codes := []string{"EUR", "USD", "GBP", "JPY", "AED", "KWD", "VND", "XAU", "KYD", "BZD", "XOF", "XPF"}
	type rows struct {
		Count   int            `json:"count"`
		Source  string         `json:"source"`
		Summary jsontext.Value `json:"summary"`
		Rates   []struct {
			Date   string                `json:"date"`
			Rate   jsonNumber            `json:"rate"`
			Rates  map[string]jsonNumber `json:"rates"`
			Filled bool                  `json:"filled"`
		} `json:"rates"`
	}
	rapid.Check(t, func(rt *rapid.T) {
		from := rapid.SampledFrom(codes).Draw(rt, "from")
		targets := rapid.SliceOfNDistinct(rapid.SampledFrom(codes), 2, 10, rapid.ID).Draw(rt, "to")
		start := rapid.IntRange(1, 25).Draw(rt, "start")
		query := fmt.Sprintf("?summary=change&start_date=2026-09-%02d&end_date=2026-09-%02d&group=%s&fill=%s&source=%s", start, rapid.IntRange(start, 29).Draw(rt, "end"),
			rapid.SampledFrom([]string{"day", "week", "month"}).Draw(rt, "group"), rapid.SampledFrom([]string{"none", "previous"}).Draw(rt, "fill"),
			rapid.SampledFrom([]string{"ECB", "ECB,parity", "ECB,parity,indicative", "indicative,parity"}).Draw(rt, "source"))
		got, want := map[string]string{}, map[string]string{}
		summaries := map[string]string{}
		filled := map[string]bool{}
		for _, to := range targets {
			a := s.send(request(http.MethodGet, "/api/history/"+from+"/"+to+query))
			if a.status != http.StatusOK {
				a.refused(t, 404, "no_rate")
				continue
			}
			var one rows
			a.decode(t, &one)
			for _, row := range one.Rates {
				want[row.Date+to] = string(row.Rate)
				filled[row.Date] = filled[row.Date] || row.Filled
			}
			summaries[to] = string(one.Summary)
		}
		a := s.send(request(http.MethodGet, "/api/history/"+from+"/"+strings.Join(targets, ",")+query))
		if len(want) == 0 {
			a.refused(t, 404, "no_rate")
			return
		}
		var many rows
		a.decode(t, &many)
		var dates []string
		for _, row := range many.Rates {
			dates = append(dates, row.Date)
			for to, rate := range row.Rates {
				got[row.Date+to] = string(rate)
			}
			if row.Filled != filled[row.Date] {
				rt.Fatalf("%s: filled is %v", row.Date, row.Filled)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || !slices.IsSorted(dates) || many.Count != len(slices.Compact(dates)) {
			rt.Fatalf("%s: got %v on %v, want %v", query, got, dates, want)
		}
		var of map[string]jsontext.Value
		answer{status: http.StatusOK, body: many.Summary}.decode(t, &of)
		for to, summary := range summaries {
			if string(of[to]) != summary || len(of) != len(summaries) {
				rt.Fatalf("the summary of %s is %s, want %s", to, of[to], summary)
			}
		}
	})
}
