package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// conversion is a conversion as a client with a decimal type reads it.
type conversion struct {
	From    string         `json:"from"`
	To      string         `json:"to"`
	Amount  jsontext.Value `json:"amount"`
	Rate    jsontext.Value `json:"rate"`
	Result  jsontext.Value `json:"result"`
	Rounded jsontext.Value `json:"rounded"`
	Date    string         `json:"date"`
	Source  string         `json:"source"`
}

func TestConvert(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for target, want := range map[string]string{
		"/api/convert/eur/100/uSd":                   `{"from":"EUR","to":"USD","amount":100,"rate":1.1701,"result":117.01,"rounded":117.01,"date":"2026-09-25","source":"ECB"}`,
		"/api/convert/us%64/007.50/gbp":              `{"from":"USD","to":"GBP","amount":7.5,"rate":0.745620032476,"result":5.59215024357,"rounded":5.59,"date":"2026-09-25","source":"ECB"}`,
		"/api/convert/USD/1/KWD":                     `{"from":"USD","to":"KWD","amount":1,"rate":0.305207637621,"result":0.305207637621,"rounded":0.305,"date":"2026-09-25","source":"ECB+indicative"}`,
		"/api/convert/EUR/1/XAU":                     `{"from":"EUR","to":"XAU","amount":1,"rate":0.000312345678,"result":0.000312345678,"rounded":0.000312345678,"date":"2026-09-25","source":"indicative"}`,
		"/api/convert/VND/0.0000000001/XAU":          `{"from":"VND","to":"XAU","amount":0.0000000001,"rate":0.0000000101042061343,"result":0.00000000000000000101042061343,"rounded":0.00000000000000000101042061343,"date":"2026-09-25","source":"indicative"}`,
		"/api/convert/EUR/999999999999999/VND":       `{"from":"EUR","to":"VND","amount":999999999999999,"rate":30912.4412,"result":30912441200000000000,"rounded":30912441199999969088,"date":"2026-09-25","source":"indicative"}`,
		"/api/convert/EUR/100/USD?date=2026-09-23":   `{"from":"EUR","to":"USD","amount":100,"rate":1.1779,"result":117.79,"rounded":117.79,"date":"2026-09-23","source":"ECB"}`,
		"/api/convert/EUR/100/USD?date=2026-09-14":   `{"from":"EUR","to":"USD","amount":100,"rate":1.1688,"result":116.88,"rounded":116.88,"date":"2026-08-31","source":"ECB"}`,
		"/api/convert/EUR/100/USD?date=2026%2D09-29": `{"from":"EUR","to":"USD","amount":100,"rate":1.1701,"result":117.01,"rounded":117.01,"date":"2026-09-25","source":"ECB"}`,
		"/api/convert/BGN/1/EUR?date=2025-12-31":     `{"from":"BGN","to":"EUR","amount":1,"rate":0.511291881196,"result":0.511291881196,"rounded":0.51,"date":"2025-12-30","source":"ECB"}`,
		"/api/convert/EUR/0.125/EUR":                 `{"from":"EUR","to":"EUR","amount":0.125,"rate":1,"result":0.125,"rounded":0.12,"date":"2026-09-25","source":"ECB"}`,
		"/api/convert/EUR/0.135/EUR":                 `{"from":"EUR","to":"EUR","amount":0.135,"rate":1,"result":0.135,"rounded":0.14,"date":"2026-09-25","source":"ECB"}`,
		"/api/convert/JPY/2.5/JPY":                   `{"from":"JPY","to":"JPY","amount":2.5,"rate":1,"result":2.5,"rounded":2,"date":"2026-09-25","source":"ECB"}`,
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			a := s.get(t, target)
			if a.status != http.StatusOK || string(a.body) != want {
				t.Errorf("got  %d %s\nwant 200 %s", a.status, a.body, want)
			}
		})
	}
}

func TestConvertRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t)
	amounts := []string{
		"-1", "0", "1e3", ".5", "1,5", "NaN", "1234567890123456", "1.12345678901", "1/2", "1\x00", "1 ", strings.Repeat("9", 10_000),
	}
	for _, amount := range amounts {
		t.Run(fmt.Sprintf("amount %.20q", amount), func(t *testing.T) {
			t.Parallel()
			s.get(t, "/api/convert/EUR/"+url.PathEscape(amount)+"/USD").refused(t, 400, "invalid_amount")
		})
	}
	for _, code := range []string{"US", "USDX", "U5D", "ıls", "US ", "U\u212aD", "E/R"} {
		escaped := url.PathEscape(code)
		t.Run(fmt.Sprintf("code %q", code), func(t *testing.T) {
			t.Parallel()
			targets := []string{
				"/api/convert/" + escaped + "/1/USD", "/api/convert/USD/1/" + escaped, "/api/rates/" + escaped,
				"/api/history/" + escaped + "/USD", "/api/history/USD/" + escaped,
			}
			if strings.Trim(code, " ") == code { // a list allows spaces
				targets = append(targets, "/api/rates/EUR?symbols=USD,"+url.QueryEscape(code))
			}
			for _, target := range targets {
				s.get(t, target).refused(t, 400, "invalid_currency")
			}
		})
	}
	for _, code := range []string{"ZZZ", "SYP"} {
		t.Run("unknown "+code, func(t *testing.T) {
			t.Parallel()
			for _, target := range []string{
				"/api/convert/" + code + "/1/USD", "/api/convert/USD/1/" + code, "/api/rates/" + code,
				"/api/rates/EUR?symbols=" + code, "/api/history/" + code + "/USD", "/api/history/USD/" + code,
			} {
				s.get(t, target).refused(t, 404, "unknown_currency")
			}
		})
	}
	for code, successor := range map[string]string{"DEM": "EUR", "BGN": "EUR", "ANG": "XCG"} {
		t.Run("retired "+code, func(t *testing.T) {
			t.Parallel()
			for _, target := range []string{
				"/api/convert/" + code + "/1/USD", "/api/convert/USD/1/" + code, "/api/rates/" + code + "?date=2026-09-25",
				"/api/rates/EUR?symbols=" + code, "/api/history/" + code + "/USD",
			} {
				p := s.get(t, target).refused(t, 404, "currency_retired")
				if p.Successor == nil || *p.Successor != successor {
					t.Errorf("%s: successor %v, want %s", target, p.Successor, successor)
				}
			}
		})
	}
	for _, date := range []string{
		"2026-02-30", "2026-2-1", "2026-02-01T00:00:00Z", "2026-09-30", "9999-12-31", "0000-01-01", "", " 2026-09-01",
	} {
		t.Run("date "+date, func(t *testing.T) {
			t.Parallel()
			escaped := url.QueryEscape(date)
			for _, target := range []string{
				"/api/convert/EUR/1/USD?date=", "/api/rates/EUR?date=", "/api/history/EUR/USD?start_date=", "/api/history/EUR/USD?end_date=",
			} {
				s.get(t, target+escaped).refused(t, 400, "invalid_date")
			}
		})
	}
	for _, target := range []string{
		"/api/convert/EUR/1/USD?date=2026-09-17",         // 17 days after the last before it
		"/api/convert/EUR/1/USD?date=1998-01-01",         // before everything
		"/api/convert/BGN/1/USD?date=2024-01-01",         // lived, but no rates are kept
		"/api/convert/AED/1/USD?date=2026-09-21",         // its first rate is of the 22nd
		"/api/rates/AED?date=2026-09-21",                 //
		"/api/rates/EUR?symbols=AED,USD&date=2026-09-21", //
		"/api/history/EUR/USD?start_date=2026-09-01&end_date=2026-09-10",
		"/api/history/EUR/AED?end_date=2026-09-21",
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			s.get(t, target).refused(t, 404, "no_rate")
		})
	}
}

// TestFirstMistakeCounts: what is malformed is said before what is unknown,
// and from left to right, so that a client can mend one thing at a time.
func TestFirstMistakeCounts(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.get(t, "/api/convert/ZZZ/x/U?date=x").refused(t, 400, "invalid_amount")
	s.get(t, "/api/convert/ZZZ/1/U?date=x").refused(t, 400, "invalid_currency")
	s.get(t, "/api/convert/ZZZ/1/USD?date=x").refused(t, 400, "invalid_date")
	s.get(t, "/api/convert/ZZZ/1/USD?date=2026-09-01").refused(t, 404, "unknown_currency")
	s.get(t, "/api/convert/ZZZ/1/USD?data=2026-09-01").refused(t, 400, "unknown_parameter")
}

// TestFirstDayIsTheServers: a message names the first day that this server has,
// and not the first day of the euro.
func TestFirstDayIsTheServers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, target := range []string{
		"/api/convert/EUR/1/USD?date=1998-01-01", "/api/convert/EUR/1/USD?date=2025-12-29", "/api/rates/EUR?date=2000-01-01",
		"/api/history/EUR/USD?end_date=2025-12-29",
	} {
		if got, want := s.get(t, target).refused(t, 404, "no_rate").Message, "There are no rates before 2025-12-30."; got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}

var (
	anyAmount = rapid.Custom(func(t *rapid.T) string {
		digits := rapid.StringMatching(`[1-9][0-9]{0,14}`).Draw(t, "digits")
		point := rapid.IntRange(0, min(10, len(digits)-1)).Draw(t, "point")
		if point == 0 {
			return digits
		}
		return digits[:len(digits)-point] + "." + digits[len(digits)-point:]
	})
)
