package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

const callsPath = usagePath + "/calls"

// callRow is one recent call, or several equal refusals in a row.
type callRow struct {
	// At is the time of the newest call, Since that of the oldest if there are
	// several.
	At    moment
	Since *moment
	Calls int
	// Path is the pattern of the endpoint if the paths differ.
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
	// Keys and Endpoints are the values to choose from: of keys their names,
	// and the id that the filter has.
	Keys, Endpoints []string
	// All is the number of recent calls. More tells that older ones match the
	// filter, and Older that newer ones do.
	All         int
	More, Older bool
}

// Newest returns the link to the newest calls, and Oldest to those before.
func (l callList) Newest() string { return callsPath + "?" + l.Filter.values().Encode() }

// Oldest returns the link to the calls that are not on the first page.
func (l callList) Oldest() string { return l.Newest() + "&" + olderParameter + "=1" }

// callsPerPage is the number of calls on a page of recent calls, olderParameter
// asks for the second page.
const (
	callsPerPage   = 50
	olderParameter = "older"
)

// callFilter selects recent calls. Empty members select all.
type callFilter struct {
	// Key is the name of a key at the time of the call, or its id.
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

func (f callFilter) values() url.Values {
	return url.Values{"key": {f.Key}, "endpoint": {f.Endpoint}, "status": {f.Status}}
}

// IsSet tells whether the filter leaves out calls.
func (f callFilter) IsSet() bool { return f != callFilter{} }

func (f callFilter) selects(c api.UsageCall) bool {
	return (f.Key == "" || f.Key == c.Key || f.Key == c.KeyID) && (f.Endpoint == "" || f.Endpoint == c.Endpoint) && f.selectsStatus(c)
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

// callList returns the rows of the recent calls that a filter selects, up to
// limit after some that are skipped.
func (v *visit) callList(document api.UsageDocument, filter callFilter, skip, limit int) callList {
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
	if strings.HasPrefix(filter.Key, "key_") && !slices.Contains(list.Keys, filter.Key) {
		list.Keys = append(list.Keys, filter.Key)
	}
	slices.Sort(list.Keys)
	slices.Sort(list.Endpoints)
	rows := v.callRows(selected)
	first := min(skip, len(rows))
	last := min(first+limit, len(rows))
	list.Rows, list.More, list.Older = rows[first:last], last < len(rows), first > 0
	return list
}

// calls lists all recent calls, on two pages.
func (s *site) calls(w http.ResponseWriter, r *http.Request, v *visit) error {
	document, err := s.usageOf(r.Context(), v, 0)
	if err != nil {
		return err
	}
	skip, limit := 0, callsPerPage
	if r.URL.Query().Has(olderParameter) {
		skip, limit = callsPerPage, len(document.RecentCalls)
	}
	list := v.callList(document, readCallFilter(r.URL.Query()), skip, limit)
	return s.views.show(w, http.StatusOK, "calls", v.page("Recent calls", "usage", list))
}

// callRows returns the rows of calls, newest first.
func (v *visit) callRows(calls []api.UsageCall) []callRow {
	rows := make([]callRow, 0, len(calls))
	for i, c := range calls {
		if i > 0 && isSameRefusal(c, calls[i-1]) {
			row := &rows[len(rows)-1]
			row.Calls++
			row.Since = new(v.clock.precise(c.At.Time))
			if row.Path != c.Path {
				row.Path = v.patternOf(c.Endpoint)
			}
			continue
		}
		row := callRow{
			Calls: 1, At: v.clock.precise(c.At.Time), Method: c.Method, Path: c.Path, Code: c.Code,
			Status: c.Status, Kind: statusKind(c.Status), Meaning: http.StatusText(c.Status), Key: c.Key,
		}
		if c.Code == "" {
			row.Duration = strconv.FormatFloat(c.DurationMS, 'f', 1, 64)
		}
		rows = append(rows, row)
	}
	return rows
}

// isSameRefusal tells whether two calls were refused for the same reason.
func isSameRefusal(a, b api.UsageCall) bool {
	return a.Code != "" && a.Code == b.Code && a.Status == b.Status && a.Endpoint == b.Endpoint && a.Method == b.Method && a.Key == b.Key && a.KeyID == b.KeyID
}

// patternOf returns the path of an endpoint, or its name if it is no longer
// configured.
func (v *visit) patternOf(endpoint string) string {
	for _, e := range v.plans.Endpoints {
		if e.Name == endpoint {
			return e.Path
		}
	}
	return endpoint
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
