package web

import (
	"net/http"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

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
