package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
)

// The tests of this file ask the API with the rates in the program for all of
// its data.

// offline is the API with the rates in the program, without a network and a
// disk. The clock is at noon after the newest day.
var offline = sync.OnceValues(func() (*serving, error) {
	provider, err := openOffline()
	if err != nil {
		return nil, err
	}
	noon := (provider.Current().Newest() + 1).Time().Add(12 * time.Hour)
	handler, err := api.New(provider, site, func() time.Time { return noon })
	return &serving{handler: handler}, err
})

func openOffline() (*ecb.Provider, error) {
	bank, err := ecb.Embedded()
	if err != nil {
		return nil, err
	}
	indicative, err := rates.Indicative()
	if err != nil {
		return nil, err
	}
	return ecb.Open(ecb.Options{Bank: bank, Indicative: indicative})
}

func serveOffline(t *testing.T) *serving {
	t.Helper()
	s, err := offline()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// body returns the body of an answer with 200.
func (s *serving) body(t *testing.T, target string) string {
	t.Helper()
	a := s.send(httptest.NewRequest(http.MethodGet, target, nil))
	if a.status != http.StatusOK {
		t.Fatalf("%s: got %d %s", target, a.status, a.body)
	}
	return strings.TrimSpace(string(a.body))
}

// same compares a long answer. An error shows where it differs first.
func same(t *testing.T, name, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	part := func(text string) string { return text[max(0, at-40):min(len(text), at+40)] }
	t.Errorf("%s: got …%s…, want …%s…", name, part(got), part(want))
}

// Every value of the bank's file is answered as it is written there.
func TestEveryValueOfTheBank(t *testing.T) {
	t.Parallel()
	s, f := serveOffline(t), truthOf(t)
	currencies := map[string]bool{}
	for day, values := range f.bank {
		quotes := []string{`"EUR":1`}
		for code, text := range values {
			currencies[code] = true
			quotes = append(quotes, `"`+code+`":`+quote{text: text}.rate())
		}
		slices.Sort(quotes)
		want := `{"base":"EUR","date":"` + day + `","source":"ECB","rates":{` + strings.Join(quotes, ",") + `}}`
		same(t, day, s.body(t, "/api/rates/EUR?source=ECB&date="+day), want)
	}
	if len(f.bank) < 6983 || len(currencies) < 41 {
		t.Errorf("got %d days of %d currencies, want 6983 of 41", len(f.bank), len(currencies))
	}
}

// Every day has the values of the three sources in their order: all values of
// all days are exact.
func TestEveryDay(t *testing.T) {
	t.Parallel()
	s, f := serveOffline(t), truthOf(t)
	for i, day := range f.days {
		var all sources
		var quotes []string
		for _, code := range f.codes {
			if q := f.quotes[code][i]; q.text != "" {
				quotes, all = append(quotes, `"`+code+`":`+q.rate()), all|q.sources
			}
		}
		want := `{"base":"EUR","date":"` + day + `","source":"` + all.String() + `","rates":{` + strings.Join(quotes, ",") + `}}`
		same(t, day, s.body(t, "/api/rates/EUR?date="+day), want)
	}
}

// pair is a rate from one currency to another.
type pair struct{ from, to string }

// rate returns the rate of a pair on the day of that number as the API writes
// it, and its sources, if one of the two has a value of its own.
func (f *truth) rate(i int, p pair) (rate string, all sources, found bool) {
	from, to := f.quotes[p.from][i], f.quotes[p.to][i]
	if from.text == "" || to.text == "" || !from.own && !to.own {
		return "", 0, false
	}
	if all = from.sources | to.sources; all == 0 {
		all = bankSource // the euro in euros
	}
	if to.parity != nil && to.parity.base == p.from {
		return to.parity.text, all, true
	}
	return digits(new(big.Rat).Quo(to.value(), from.value()), 12), all, true
}

// crossings are pairs of two parities with different bases.
var crossings = []pair{{"BZD", "XOF"}, {"XPF", "KYD"}, {"NPR", "SZL"}, {"DEM", "MYR"}, {"FKP", "BND"}}

// A currency that the bank publishes never has an indicative value, and its
// history has the days of the bank only. The histories of every currency are
// exact on all days: in euros, and in a currency that only the market has.
func TestEveryHistory(t *testing.T) {
	t.Parallel()
	s, f := serveOffline(t), truthOf(t)
	newest := f.days[len(f.days)-1]
	for _, code := range f.codes {
		for _, base := range []string{"EUR", "USD", "VND"} {
			f.checkHistory(t, s, pair{base, code}, "1999-01-01", "2008-12-31")
			f.checkHistory(t, s, pair{base, code}, "2009-01-01", "2018-12-31")
			f.checkHistory(t, s, pair{base, code}, "2019-01-01", newest)
		}
	}
}

// Without a date, an answer has the source of its currencies, and a table does not
// lose the currencies of the bank: the program has newer indicative rates.
func TestNewestAnswers(t *testing.T) {
	t.Parallel()
	provider, err := openOffline()
	if err != nil {
		t.Fatal(err)
	}
	s, f := serveWith(t, provider.Current()), truthOf(t)
	newest := f.published[len(f.published)-1]
	var list struct {
		Currencies []struct {
			Code   string `json:"code"`
			Source string `json:"source"`
		} `json:"currencies"`
	}
	s.get(t, "/api/currencies").decode(t, &list)
	for _, c := range list.Currencies {
		var one conversion
		s.get(t, "/api/convert/USD/1/"+c.Code).decode(t, &one)
		if indicative := c.Source == "indicative"; strings.Contains(one.Source, "indicative") != indicative || (one.Date == newest) == indicative {
			t.Errorf("USD in %s, of %s: got %+v", c.Code, c.Source, one)
		}
		var batch struct {
			Results []conversion `json:"results"`
		}
		s.batch(t, `{"conversions":[{"from":"USD","to":"`+c.Code+`","amount":1}]}`).decode(t, &batch)
		if got := batch.Results[0]; got.Date != one.Date || got.Source != one.Source || string(got.Rate) != string(one.Rate) {
			t.Errorf("USD in %s: got %+v in a batch, %+v alone", c.Code, got, one)
		}
		var table struct {
			Date  string                `json:"date"`
			Rates map[string]jsonNumber `json:"rates"`
		}
		s.get(t, "/api/rates/"+c.Code).decode(t, &table)
		if table.Date > newest || table.Rates["USD"] == "" || c.Source != "indicative" && table.Date != newest {
			t.Errorf("the table of %s is of %s, with the dollar at %s", c.Code, table.Date, table.Rates["USD"])
		}
		other := strings.Replace(c.Code, "USD", "GBP", 1)
		if h := s.get(t, "/api/history/EUR/USD,"+other); !strings.Contains(string(h.body), `"USD":`) || !strings.Contains(string(h.body), `"`+other+`":`) {
			t.Errorf("the history of USD and %s is %s", other, h.body)
		}
	}
	if len(list.Currencies) < 150 {
		t.Errorf("got %d currencies", len(list.Currencies))
	}
}

// A history has each parity exactly on the last ten years of its life, and the
// crossings on all days.
func TestParitiesInHistory(t *testing.T) {
	t.Parallel()
	s, f := serveOffline(t), truthOf(t)
	newest := f.days[len(f.days)-1]
	for _, p := range f.pegs {
		end := cmp.Or(p.until, newest)
		last, err := time.Parse(time.DateOnly, end)
		if err != nil {
			t.Fatal(err)
		}
		f.checkHistory(t, s, pair{p.base, p.code}, last.AddDate(-10, 0, 1).Format(time.DateOnly), end)
	}
	for _, p := range crossings {
		f.checkHistory(t, s, p, "1999-01-01", "2008-12-31")
		f.checkHistory(t, s, p, "2009-01-01", "2018-12-31")
		f.checkHistory(t, s, p, "2019-01-01", newest)
	}
}

func (f *truth) checkHistory(t *testing.T, s *serving, p pair, start, end string) {
	t.Helper()
	var all sources
	var rows []string
	for i, day := range f.days {
		if day < start || day > end {
			continue
		}
		if rate, sources, found := f.rate(i, p); found {
			rows, all = append(rows, `{"date":"`+day+`","rate":`+rate+`}`), all|sources
		}
	}
	if len(rows) == 0 {
		return
	}
	want := fmt.Sprintf(`{"from":%q,"to":%q,"start_date":%q,"end_date":%q,"group":"day","count":%d,"source":%q,"rates":[%s]}`,
		p.from, p.to, start, end, len(rows), all.String(), strings.Join(rows, ","))
	same(t, p.from+p.to, s.body(t, "/api/history/"+p.from+"/"+p.to+"?start_date="+start+"&end_date="+end), want)
}

// Conversions agree with the parities on days of all years, and on the first
// and last day of each parity: alone and in a batch.
func TestParitiesInConversions(t *testing.T) {
	t.Parallel()
	s, f := serveOffline(t), truthOf(t)
	days := map[int]bool{}
	for i := 0; i < len(f.days); i += 400 {
		days[i] = true
	}
	for _, p := range f.pegs {
		for _, day := range []string{p.since, p.until} {
			if i, found := slices.BinarySearch(f.days, day); found || i > 0 && i < len(f.days) {
				days[i] = true
			}
		}
	}
	const amount = "7.31"
	for i := range days {
		day, pairs := f.days[i], slices.Clone(crossings)
		for _, p := range f.pegs {
			if p.holds(day) {
				pairs = append(pairs, pair{p.base, p.code})
			}
		}
		var items, want []string
		for _, p := range pairs {
			rate, sources, found := f.rate(i, p)
			if !found {
				continue
			}
			result := digits(new(big.Rat).Mul(number(amount), number(rate)), 15)
			begin := fmt.Sprintf(`"from":%q,"to":%q,"amount":%s,"rate":%s,"result":%s,"rounded":`, p.from, p.to, amount, rate, result)
			end := fmt.Sprintf(`,"date":%q,"source":%q}`, day, sources.String())
			got := s.body(t, "/api/convert/"+p.from+"/"+amount+"/"+p.to+"?date="+day)
			if !strings.HasPrefix(got, "{"+begin) || !strings.HasSuffix(got, end) {
				t.Errorf("got %s, want %s…%s", got, begin, end)
			}
			items = append(items, fmt.Sprintf(`{"from":%q,"to":%q,"amount":%s,"date":%q}`, p.from, p.to, amount, day))
			want = append(want, fmt.Sprintf(`{"index":%d,"id":null,"status":200,`, len(want))+got[1:])
		}
		r := httptest.NewRequest(http.MethodPost, "/api/convert/batch", strings.NewReader(`{"conversions":[`+strings.Join(items, ",")+`]}`))
		r.Header.Set("Content-Type", "application/json")
		a := s.send(r)
		_, results, _ := strings.Cut(strings.TrimSpace(string(a.body)), `"results":`)
		same(t, day, results, "["+strings.Join(want, ",")+"]}")
	}
	if len(days) < 30 {
		t.Errorf("got %d days", len(days))
	}
}

// Rates of the ECB that others publish, most of them across the euro. Each was
// computed by a program of others from the bank's file of the day.
func TestRatesThatOthersPublish(t *testing.T) {
	t.Parallel()
	s := serveOffline(t)
	for _, c := range []struct{ source, day, base, rates string }{
		{"https://github.com/lineofflight/frankfurter lib/public/v1/openapi.json, examples", "1999-01-04", "EUR", "AUD 1.91 CAD 1.8004 CHF 1.6168 CYP 0.58231"},
		{"https://github.com/lineofflight/frankfurter lib/public/v1/openapi.json, examples", "1999-01-05", "EUR", "AUD 1.8944"},
		{"https://github.com/lineofflight/frankfurter lib/public/v1/openapi.json, examples", "1999-01-06", "EUR", "AUD 1.882"},
		{"https://www.rubydoc.info/gems/ecb-currency_converter/0.2.0", "2013-05-17", "EUR", "USD 1.2869"},
		{"https://www.rubydoc.info/gems/ecb-currency_converter/0.2.0", "2013-05-17", "USD", "EUR 0.777061154712876"},
		{"https://pypi.org/project/python-exchangeratesapi", "2018-03-26", "EUR", "CAD 1.5997 HKD 9.7384 ISK 121.9 IDR 17045.27 RUB 70.6897 HRK 7.442 BGN 1.9558 TRY 4.9464 GBP 0.87248 KRW 1336.99 MYR 4.8425"},
		{"https://pypi.org/project/python-exchangeratesapi", "2020-03-25", "USD", "CAD 1.4352082756 HKD 7.7529324836 ISK 140.2974046366 PHP 51.0298328253 DKK 6.897755611 HUF 327.8562852129 CZK 25.3495889905 GBP 0.8451371571 RON 4.4745543549 SEK 10.1263507897 IDR 16114.9995381916 INR 76.3821926665 BRL 5.0740740741 RUB 78.3240971645 HRK 7.0271543364"},
		{"https://gist.github.com/OriHoch/087bc2ab49cb354009c1a021cf1ea5e9", "2018-10-01", "ILS", "BGN 0.4629 CAD 0.351873 HUF 76.4574 JPY 31.301 USD 0.274692 EUR 0.236681 KRW 305.356"},
		{"https://www.npmjs.com/package/forex-promise", "2019-03-20", "BRL", "JPY 29.440621222 NOK 2.253208407 DKK 1.7349576862 CNY 1.767274249"},
		{"https://www.npmjs.com/package/fxratesapi", "2019-06-20", "USD", "THB 30.9348191386 HUF 286.1767046962"},
		{"https://github.com/steph-crown/currency-rates-api", "2020-11-17", "CZK", "EUR 0.0377244605 GBP 0.033795458 USD 0.044824204"},
		{"https://pycountant.com/reference/pycountant/services/fx (12340 USD are 11640.411281954532591264975 EUR)", "2023-01-05", "USD", "EUR 0.943307235166493727"},
	} {
		var got struct {
			Date, Source string
			Rates        map[string]json.Number
		}
		if err := json.Unmarshal([]byte(s.body(t, "/api/rates/"+c.base+"?source=ECB&date="+c.day)), &got); err != nil {
			t.Fatal(err)
		}
		if got.Date != c.day || got.Source != "ECB" {
			t.Errorf("%s: got %s of %s", c.day, got.Date, got.Source)
		}
		words := strings.Fields(c.rates)
		for i := 0; i < len(words); i += 2 {
			code, theirs := words[i], words[i+1]
			ours := got.Rates[code].String()
			// Both are rounded: they differ by at most half of the last digit of each.
			difference := new(big.Rat).Sub(number(ours), number(theirs))
			allowed := new(big.Rat).Add(lastDigit(ours), lastDigit(theirs))
			if difference.Abs(difference).Cmp(allowed.Quo(allowed, big.NewRat(2, 1))) > 0 {
				t.Errorf("%s→%s on %s: got %s, want %s (%s)", c.base, code, c.day, ours, theirs, c.source)
			}
		}
	}
}

// lastDigit returns the unit of the last digit of a number.
func lastDigit(text string) *big.Rat {
	_, decimals, _ := strings.Cut(text, ".")
	return new(big.Rat).SetFrac(big.NewInt(1), power(len(decimals)))
}
