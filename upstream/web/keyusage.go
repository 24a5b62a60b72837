package web

import "github.com/caddy-tollgate/tollgate/caddymodule/control/api"

// fewKeyCalls is the number of recent calls on the page of a key.
const fewKeyCalls = 10

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
	return rows[:min(len(rows), fewKeyCalls)]
}
