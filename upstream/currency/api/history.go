package api

import (
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

const (
	// defaultHistory is the number of days of a history without a start.
	defaultHistory = 30
	// longestHistory is the maximum number of days: ten years.
	longestHistory = 3660
	// mostTargets is the maximum number of currencies of a history.
	mostTargets = 10
)

// groups are the values of the query parameter group.
var groups = map[string]rates.Group{"day": rates.Daily, "week": rates.Weekly, "month": rates.Monthly}

// historyInput is the request of GET /api/history/{from}/{to}.
type historyInput struct {
	From      string `path:"from" pattern:"^[A-Za-z]{3}$" example:"EUR" doc:"The base: the rates are for one unit of it."`
	To        string `path:"to" pattern:"^[A-Za-z]{3}(,[A-Za-z]{3}){0,9}$" example:"USD" doc:"The currency that the rates are in, or a list of up to 10, separated by commas."`
	StartDate string `query:"start_date" format:"date" example:"2026-03-23" doc:"The first day. Default: 29 days before the last. It may be before the first rate."`
	EndDate   string `query:"end_date" format:"date" example:"2026-03-29" doc:"The last day. Default: the newest day with a rate of all currencies, or today if start_date is later. A history has at most 3660 days, including both."`
	Group     string `query:"group" enum:"day,week,month" default:"day" doc:"One rate for each day, week (Monday to Sunday) or month. The rate of a week or month is the last one of the period, not an average."`
	Fill      string `query:"fill" enum:"none,previous" default:"none" example:"previous" doc:"For a day, week or month without a rate: none omits it, previous repeats the newest rate before its end, at most 14 days old."`
	Summary   string `query:"summary" enum:"change" example:"change" doc:"change adds how the rate of each currency changed, from the rates of the answer. In JSON only."`
	Source    string `query:"source" default:"ECB,parity,indicative" doc:"The sources to use, separated by commas. Others are left out. A parity with a base of the ECB needs both."`
}

// history is the answer to GET /api/history/{from}/{to}.
type history struct {
	From      currency.Code `json:"from" pattern:"^[A-Z]{3}$" doc:"The base: the rates are for one unit of it."`
	To        string        `json:"to" pattern:"^[A-Z]{3}(,[A-Z]{3}){0,9}$" doc:"The currency that the rates are in, or the list of them, sorted and separated by commas."`
	StartDate civil.Date    `json:"start_date" format:"date" doc:"The first day of the request."`
	EndDate   civil.Date    `json:"end_date" format:"date" doc:"The last day of the request."`
	Group     string        `json:"group" enum:"day,week,month" doc:"The period of each rate."`
	Count     int           `json:"count" doc:"The number of rows in rates."`
	Source    sources       `json:"source" doc:"The sources of the rates, the best first, joined by +."`
	Summary   *summaries    `json:"summary,omitzero" doc:"With summary=change: how the rate changed. For a list of currencies, an object of these by code."`
	Rates     historyRows   `json:"rates" nullable:"false" doc:"The rates by ascending date."`
}

// HistoryRow has the rates of a day. It is exported because reflection ignores
// embedded structs with a private name.
type HistoryRow struct {
	Date   civil.Date `json:"date" format:"date" doc:"The day of the rate. For a filled rate, the last day of its period."`
	Rate   number     `json:"rate,omitzero" doc:"For one currency: how many units of to one unit of from bought, to 12 significant digits, rounded half-even."`
	Rates  rateTable  `json:"rates,omitempty" doc:"For a list of currencies: the same by code, without those that have no rate of the day."`
	Filled bool       `json:"filled,omitzero" doc:"True if a rate is of an earlier day."`
}

// listHistory answers GET /api/history/{from}/{to}.
func (s *service) listHistory(in *historyInput) (*history, *apierror.Error) {
	m, refusal := s.momentFrom(in.Source)
	if refusal != nil {
		return nil, refusal
	}
	r, refusal := m.historyRange(in)
	if refusal != nil {
		return nil, refusal
	}
	answer := &history{
		From: r.From, To: join(r.To, ","), StartDate: r.Start, EndDate: r.End, Group: in.Group,
		Rates: historyRows{m.data.Series(r), r.To},
	}
	points := make([][]rates.Extreme, len(r.To))
	var all rates.Source
	for row := range answer.Rates.series {
		answer.Count++
		all |= row.Source
		if in.Summary == "" {
			continue
		}
		for _, quote := range row.Rates {
			i := slices.Index(r.To, quote.Code)
			points[i] = append(points[i], rates.Extreme{Date: row.Date, Rate: quote.Rate})
		}
	}
	if answer.Count == 0 {
		return nil, m.noRate(append([]currency.Code{r.From}, r.To...), fmt.Sprintf(" from %s to %s", r.Start, r.End))
	}
	answer.Source = sources(all.String())
	if in.Summary != "" {
		answer.Summary = summarize(r.To, points)
	}
	return answer, nil
}

// historyRange reads the range and applies the defaults.
func (m moment) historyRange(in *historyInput) (rates.Range, *apierror.Error) {
	var r rates.Range
	var err error
	if r.From, err = currency.Parse(in.From); err != nil {
		return r, invalidCurrency(in.From)
	}
	var refusal *apierror.Error
	if r.To, refusal = parseTargets(in.To); refusal != nil {
		return r, refusal
	}
	start, refusal := m.date(in.StartDate)
	if refusal != nil {
		return r, refusal
	}
	end, refusal := m.rateDate(in.EndDate)
	if refusal != nil {
		return r, refusal
	}
	r.Group, r.FillPrevious = groups[in.Group], in.Fill == "previous"
	// A retired currency is allowed if it was active on the first day.
	first := start
	if first.IsZero() && !end.IsZero() {
		first = end - defaultHistory + 1
	}
	codes := append([]currency.Code{r.From}, r.To...)
	if refusal := m.known(first, codes...); refusal != nil {
		return r, refusal
	}
	r.Start, r.End, refusal = m.bounds(start, end, codes)
	return r, refusal
}

// parseTargets reads the currencies of a history and sorts them.
func parseTargets(text string) ([]currency.Code, *apierror.Error) {
	var codes []currency.Code
	for name := range strings.SplitSeq(text, ",") {
		code, err := currency.Parse(name)
		if err != nil {
			return nil, invalidCurrency(name)
		}
		if slices.Contains(codes, code) {
			return nil, invalidRequest("The currency " + string(code) + " is duplicate in the list. Give it once.")
		}
		if codes = append(codes, code); len(codes) > mostTargets {
			return nil, invalidRequest(fmt.Sprintf("The list of currencies is too long. At most %d are allowed.", mostTargets))
		}
	}
	slices.Sort(codes)
	return codes, nil
}

// bounds returns the first and last day of a history from the first currency
// to the others, checked and with defaults.
func (m moment) bounds(start, end civil.Date, codes []currency.Code) (civil.Date, civil.Date, *apierror.Error) {
	if end.IsZero() {
		end = m.today
		if newest, err := m.data.Latest(codes...); err == nil && newest.Date() >= start {
			end = newest.Date()
		}
	}
	if start.IsZero() {
		start = end - defaultHistory + 1
	}
	if start > end {
		return 0, 0, apierror.New(http.StatusBadRequest, codeInvalidDate,
			fmt.Sprintf("start_date %s is after end_date %s.", start, end))
	}
	if days := end - start + 1; days > longestHistory {
		return 0, 0, apierror.New(http.StatusBadRequest, codeInvalidDate,
			fmt.Sprintf("From %s to %s are %d days. At most %d are allowed.", start, end, days, longestHistory))
	}
	return start, end, nil
}

// summary says how a rate changed in a history.
type summary struct {
	Start   number  `json:"start" doc:"The first rate."`
	End     number  `json:"end" doc:"The last rate."`
	Change  number  `json:"change" doc:"end − start."`
	Percent number  `json:"percent" doc:"change in percent of start, to 12 significant digits."`
	High    extreme `json:"high" doc:"The highest rate, and the first day with it."`
	Low     extreme `json:"low" doc:"The lowest rate, and the first day with it."`
	Average number  `json:"average" doc:"The mean of the rates, to 12 significant digits."`
}

// extreme is a rate and its day.
type extreme struct {
	Date civil.Date `json:"date" format:"date" doc:"The day of the rate."`
	Rate number     `json:"rate" doc:"The rate."`
}

// summaries are the summary of one currency, or those of a list.
type summaries = oneOf[summary, map[currency.Code]summary]

// summarize returns the summaries of the rates of each currency. A currency of
// a list without a rate has none.
func summarize(codes []currency.Code, points [][]rates.Extreme) *summaries {
	many := make(map[currency.Code]summary, len(codes))
	for i, code := range codes {
		if len(points[i]) == 0 {
			continue
		}
		s := rates.Summarize(points[i])
		many[code] = summary{
			number{s.Start}, number{s.End}, number{s.Change}, number{s.Percent},
			extreme{s.High.Date, number{s.High.Rate}}, extreme{s.Low.Date, number{s.Low.Rate}}, number{s.Average},
		}
	}
	if len(codes) == 1 {
		return &summaries{many[codes[0]]}
	}
	return &summaries{many}
}

// historyRows are the rows of a history. They are computed each time they are
// written, and never held together: a list has up to 36,600 rates.
type historyRows struct {
	series iter.Seq[rates.Row]
	to     []currency.Code
}

// Schema describes an array of rows.
func (historyRows) Schema(registry huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: schemaOf[HistoryRow](registry)}
}

// MarshalJSONTo writes the array.
func (h historyRows) MarshalJSONTo(encoder *jsontext.Encoder) error {
	if err := encoder.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for line := range h.lines {
		if err := json.MarshalEncode(encoder, &line.(*historyLine).HistoryRow); err != nil {
			return err
		}
	}
	return encoder.WriteToken(jsontext.EndArray)
}

// historyLine is a row with its source.
type historyLine struct {
	HistoryRow
	Source sources `json:"source"`

	to     []currency.Code
	quotes rateTable
}

// lines yields each row as a *historyLine. A row is valid until the next one.
func (h historyRows) lines(yield func(row) bool) {
	line := &historyLine{to: h.to}
	for row := range h.series {
		line.Date, line.Filled, line.Source, line.quotes = row.Date, row.Filled, sources(row.Source.String()), row.Rates
		if len(h.to) == 1 {
			line.Rate = number{row.Rates[0].Rate}
		} else {
			line.Rates = row.Rates
		}
		if !yield(line) {
			return
		}
	}
}

// addTo adds the date, the rate of each currency, and the rest.
func (l *historyLine) addTo(line *csvLine) {
	line.date(l.Date)
	quotes := l.quotes
	for _, code := range l.to {
		if len(quotes) == 0 || quotes[0].Code != code {
			line.text("")
			continue
		}
		line.number(number{quotes[0].Rate})
		quotes = quotes[1:]
	}
	line.text(strconv.FormatBool(l.Filled))
	line.text(string(l.Source))
}

// table returns the rows, nil with a summary, which is no row.
func (h *history) table() *table {
	if h.Summary != nil {
		return nil
	}
	columns := []string{"date", "rate", "filled", "source"}
	if codes := strings.Split(h.To, ","); len(codes) > 1 {
		columns = slices.Replace(columns, 1, 2, codes...)
	}
	return &table{columns, h.Rates.lines}
}
