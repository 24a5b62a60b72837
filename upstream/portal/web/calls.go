package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// newestCalls is how many recent calls a page shows at first.
const newestCalls = 20

// callList is the recent calls of an account.
type callList struct {
	Rows []callRow
	// Known is how many calls the gate has, and Refused how many of them it
	// refused.
	Known, Refused int
	// Only says that the rows are the refused calls, More that older calls are
	// not shown.
	Only, More bool
}

// callList selects calls by the query of a page.
func (v *visit) callList(calls []api.UsageCall, query url.Values) callList {
	refused := slices.DeleteFunc(slices.Clone(calls), func(c api.UsageCall) bool { return c.Code == "" })
	list := callList{Known: len(calls), Refused: len(refused), Only: query.Get("calls") == "refused"}
	switch {
	case list.Only:
		calls = refused
	case query.Get("calls") != "all":
		list.More = len(calls) > newestCalls
		calls = calls[:min(len(calls), newestCalls)]
	}
	list.Rows = v.callRows(calls)
	return list
}

// Text says which of the calls are shown.
func (l callList) Text() string {
	refused, of := "none", " of the last "+plural(l.Known, "call")
	if l.Refused > 0 {
		refused = strconv.Itoa(l.Refused)
	}
	if l.Only {
		return "Refused: " + refused + of + "."
	}
	return "Shown: " + strconv.Itoa(len(l.Rows)) + of + ", " + refused + " of them refused."
}

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
	Cost     int64
	Key      string
}

// callRows returns the rows of calls, newest first.
func (v *visit) callRows(calls []api.UsageCall) []callRow {
	rows := make([]callRow, 0, len(calls))
	for _, c := range calls {
		row := callRow{
			At: v.clock.precise(c.At.Time), Method: c.Method, Path: c.Path, Code: c.Code,
			Status: c.Status, Kind: statusKind(c.Status), Meaning: http.StatusText(c.Status), Cost: c.Cost, Key: c.Key,
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

// maxKeyCalls is the number of recent calls on the page of a key.
const maxKeyCalls = 5

// keyCalls returns the last calls of a key, newest first.
func (v *visit) keyCalls(id string, document api.UsageDocument) []callRow {
	var recent []api.UsageCall
	for _, call := range document.RecentCalls {
		if call.KeyID == id {
			call.Key = "" // the page has the name
			recent = append(recent, call)
		}
	}
	rows := v.callRows(recent)
	return rows[:min(len(rows), maxKeyCalls)]
}
