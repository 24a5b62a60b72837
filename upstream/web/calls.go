package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

const callsPath = usagePath + "/calls"

// callRow is one recent call.
type callRow struct {
	At           moment
	Method, Path string
	Status       int
	// Code is why the gate refused the call. It is empty for an admitted call.
	Code string
	// Kind is ok, near or over, by the class of the status.
	Kind, Meaning string
	// Duration is empty for a refused call: it did not run.
	Duration string
	Key      string
}

// callList is some recent calls, with the filter of them.
type callList struct {
	Rows   []callRow
	Filter callFilter
	// Keys and Endpoints are the values to choose from.
	Keys, Endpoints []string
	// All is the number of recent calls, and More how many of the filtered ones
	// are not in Rows.
	All, More int
}

// callFilter selects recent calls. Empty members select all.
type callFilter struct {
	Key, Endpoint string
	// Status is a class, such as 2xx, or refused.
	Status string
}

// Classes are the values of Status, with their texts.
func (callFilter) Classes() []option {
	return []option{
		{"2xx", "2xx: succeeded"}, {"3xx", "3xx: not modified"}, {"4xx", "4xx: errors of the request"}, {"5xx", "5xx: errors of the service"},
		{statusRefused, "Refused by a limit or a permission"},
	}
}

// option is a choice in a form.
type option struct{ Value, Text string }

const statusRefused = "refused"

func readCallFilter(query url.Values) callFilter {
	return callFilter{query.Get("key"), query.Get("endpoint"), query.Get("status")}
}

// IsSet tells whether the filter leaves out calls.
func (f callFilter) IsSet() bool { return f != callFilter{} }

func (f callFilter) selects(c api.UsageCall) bool {
	return (f.Key == "" || f.Key == c.Key) && (f.Endpoint == "" || f.Endpoint == c.Endpoint) && f.selectsStatus(c)
}

func (f callFilter) selectsStatus(c api.UsageCall) bool {
	switch f.Status {
	case "":
		return true
	case statusRefused:
		return c.Code != ""
	}
	return f.Status == strconv.Itoa(c.Status/100)+"xx"
}

// callList returns up to limit recent calls that a filter selects.
func (v *visit) callList(document api.UsageDocument, filter callFilter, limit int) callList {
	list := callList{Filter: filter, All: len(document.RecentCalls)}
	var selected []api.UsageCall
	for _, c := range document.RecentCalls {
		if !slices.Contains(list.Keys, c.Key) && c.Key != "" {
			list.Keys = append(list.Keys, c.Key)
		}
		if !slices.Contains(list.Endpoints, c.Endpoint) {
			list.Endpoints = append(list.Endpoints, c.Endpoint)
		}
		if filter.selects(c) {
			selected = append(selected, c)
		}
	}
	slices.Sort(list.Keys)
	slices.Sort(list.Endpoints)
	shown := min(limit, len(selected))
	list.Rows, list.More = v.callRows(selected[:shown]), len(selected)-shown
	return list
}

// calls lists all recent calls.
func (s *site) calls(w http.ResponseWriter, r *http.Request, v *visit) error {
	document, err := s.usageOf(r.Context(), v, 0)
	if err != nil {
		return err
	}
	list := v.callList(document, readCallFilter(r.URL.Query()), len(document.RecentCalls))
	return s.views.show(w, http.StatusOK, "calls", v.page("Recent calls", "usage", list))
}

func (v *visit) callRows(calls []api.UsageCall) []callRow {
	rows := make([]callRow, 0, len(calls))
	for _, c := range calls {
		row := callRow{
			At: v.clock.precise(c.At.Time), Method: c.Method, Path: c.Path, Code: c.Code,
			Status: c.Status, Kind: statusKind(c.Status), Meaning: http.StatusText(c.Status), Key: c.Key,
		}
		if c.Code == "" {
			row.Duration = strconv.FormatFloat(c.DurationMS, 'f', 1, 64)
		}
		rows = append(rows, row)
	}
	return rows
}

func statusKind(status int) string {
	switch {
	case status < 400:
		return "ok"
	case status < 500:
		return "near"
	}
	return "over"
}
