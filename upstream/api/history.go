package api

import (
	"fmt"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

const (
	// defaultHistory is the number of days of a history without a start.
	defaultHistory = 30
	// longestHistory is the maximum number of days: ten years.
	longestHistory = 3660
)

// historyInput is the request of GET /api/history/{from}/{to}.
type historyInput struct {
	From      string `path:"from" pattern:"^[A-Za-z]{3}$" example:"EUR" doc:"The base: the rates are for one unit of it."`
	To        string `path:"to" pattern:"^[A-Za-z]{3}$" example:"USD" doc:"The currency that the rates are in."`
	StartDate string `query:"start_date" format:"date" example:"2026-09-21" doc:"The first day. Default: 29 days before the last. It may be before the first rate."`
	EndDate   string `query:"end_date" format:"date" example:"2026-09-27" doc:"The last day. Default: the newest day with a rate. A history has at most 3660 days, including both."`
	Group     string `query:"group" enum:"day,week,month" default:"day" doc:"One rate for each day, week (Monday to Sunday) or month. The rate of a week or month is the last one of the period, not an average."`
	Fill      string `query:"fill" enum:"none,previous" default:"none" example:"previous" doc:"For a day, week or month without a rate: none omits it, previous repeats the newest rate before its end, at most 14 days old."`
}

// history is the answer to GET /api/history/{from}/{to}.
type history struct {
	From      currency.Code  `json:"from" pattern:"^[A-Z]{3}$" doc:"The base: the rates are for one unit of it."`
	To        currency.Code  `json:"to" pattern:"^[A-Z]{3}$" doc:"The currency that the rates are in."`
	StartDate civil.Date     `json:"start_date" format:"date" doc:"The first day of the request."`
	EndDate   civil.Date     `json:"end_date" format:"date" doc:"The last day of the request."`
	Group     string         `json:"group" enum:"day,week,month" doc:"The period of each rate."`
	Count     int            `json:"count" doc:"The number of rates."`
	Source    string         `json:"source" enum:"ECB,snapshot,ECB+snapshot" doc:"Where the rates come from: ECB, snapshot (indicative) or ECB+snapshot."`
	Rates     []historyPoint `json:"rates" nullable:"false" doc:"The rates by ascending date."`
}

// historyPoint is one rate of a history.
type historyPoint struct {
	Date   civil.Date `json:"date" format:"date" doc:"The day of the rate. For a filled rate, the last day of its period."`
	Rate   number     `json:"rate" doc:"How many units of to one unit of from bought, to 12 significant digits, rounded half-even."`
	Filled bool       `json:"filled,omitzero" doc:"True for a rate of an earlier day."`
}

// listHistory answers GET /api/history/{from}/{to}.
func (s *service) listHistory(in *historyInput) (*history, *apierror.Error) {
	m := s.moment()
	r, refusal := m.historyRange(in)
	if refusal != nil {
		return nil, refusal
	}
	answer := &history{From: r.From, To: r.To[0], StartDate: r.Start, EndDate: r.End, Group: in.Group}
	var source rates.Source
	for row := range m.data.Series(r) {
		source |= row.Source
		answer.Rates = append(answer.Rates, historyPoint{row.Date, number{row.Rates[0].Rate}, row.Filled})
	}
	if answer.Count = len(answer.Rates); answer.Count == 0 {
		return nil, apierror.New(http.StatusNotFound, codeNoRate,
			fmt.Sprintf("There is no rate for %s, %s from %s to %s.", r.From, r.To[0], r.Start, r.End))
	}
	answer.Source = source.String()
	return answer, nil
}

// historyRange reads the range and applies the defaults.
func (m moment) historyRange(in *historyInput) (rates.Range, *apierror.Error) {
	var r rates.Range
	var err error
	if r.From, err = currency.Parse(in.From); err != nil {
		return r, invalidCurrency(in.From)
	}
	to, err := currency.Parse(in.To)
	if err != nil {
		return r, invalidCurrency(in.To)
	}
	r.To = []currency.Code{to}
	start, refusal := m.date(in.StartDate)
	if refusal != nil {
		return r, refusal
	}
	end, refusal := m.rateDate(in.EndDate)
	if refusal != nil {
		return r, refusal
	}
	if r.Group, refusal = parseGroup(in.Group); refusal != nil {
		return r, refusal
	}
	if r.FillPrevious, refusal = parseFill(in.Fill); refusal != nil {
		return r, refusal
	}
	// A retired currency is allowed if it was active on the first day.
	first := start
	if first.IsZero() && !end.IsZero() {
		first = end - defaultHistory + 1
	}
	if refusal := m.known(first, r.From, to); refusal != nil {
		return r, refusal
	}
	r.Start, r.End, refusal = m.bounds(start, end, r.From, to)
	return r, refusal
}

// bounds returns the first and last day of a history, checked and with
// defaults.
func (m moment) bounds(start, end civil.Date, from, to currency.Code) (civil.Date, civil.Date, *apierror.Error) {
	if end.IsZero() {
		newest, refusal := m.day(0, from, to)
		if refusal != nil {
			return 0, 0, refusal
		}
		end = max(newest.Date(), start)
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

// parseGroup reads the query parameter group.
func parseGroup(text string) (rates.Group, *apierror.Error) {
	switch text {
	case "day":
		return rates.Daily, nil
	case "week":
		return rates.Weekly, nil
	case "month":
		return rates.Monthly, nil
	}
	return 0, invalidParameter("group", text, "day", "week", "month")
}

// parseFill reads the query parameter of that name.
func parseFill(text string) (previous bool, refusal *apierror.Error) {
	switch text {
	case "none":
		return false, nil
	case "previous":
		return true, nil
	}
	return false, invalidParameter("fill", text, "none", "previous")
}
