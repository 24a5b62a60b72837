package api_test

import (
	"net/http"
	"strings"
	"testing"
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
