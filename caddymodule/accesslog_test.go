package caddymodule_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/gate"
)

// TestAccessLogFields: each line of a request through the gate has its id, and
// the call if there is an account, once: also where a request meets the gate
// twice, or where an error route does. The costs add up to what is counted.
func TestAccessLogFields(t *testing.T) {
	for name, c := range map[string]struct {
		setup
		calls, used int64 // calls are those with an account
	}{
		"calls":                    {setup{}, 6, 5},
		"twice":                    {setup{behind: "route {\ntollgate\nreverse_proxy UPSTREAM\n}"}, 6, 5},
		"no answer":                {setup{behind: "reverse_proxy " + deadAddress}, 6, 0},
		"broken off":               {setup{behind: "abort"}, 6, 5},
		"no answer, errors pass":   {setup{more: "errors pass", behind: "reverse_proxy " + deadAddress + "\nhandle_errors {\ntollgate\nrespond {err.status_code}\n}"}, 6, 0},
		"refusals in error routes": {setup{more: "errors pass", behind: "reverse_proxy UPSTREAM\nhandle_errors {\ntollgate\nrespond {err.status_code}\n}"}, 6, 5},
		"shadow":                   {setup{more: "mode shadow"}, 6, 5},
	} {
		t.Run(name, func(t *testing.T) {
			c.zone, c.before = calmZone(), "log"
			s, log := logged(t, "INFO", c.setup)
			account, bearer := s.account(t, "small")
			const path = "/api/convert/EUR/1/USD"
			for range 6 {
				// An answer that breaks off is an error.
				_, _ = s.try(t.Context(), "GET", path, "", "Authorization: Bearer "+bearer, "Connection: close")
			}
			_, _ = s.try(t.Context(), "GET", path, "", "Connection: close")
			var lines []string
			eventually(t, "a line for each request", func() bool {
				lines = nil
				for line := range strings.Lines(log()) {
					if strings.Contains(line, `"logger":"http.log.access`) {
						lines = append(lines, line)
					}
				}
				return len(lines) == 7
			})
			var calls, cost int64
			for _, line := range lines {
				var l struct {
					UUID      string
					RequestID string `json:"request_id"`
					Call      *gate.Logged
				}
				if err := json.Unmarshal([]byte(line), &l); err != nil || l.RequestID == "" || l.RequestID != l.UUID || strings.Count(line, `"call":`) > 1 {
					t.Errorf("got %s (%v), want the id and one call", line, err)
				}
				if l.Call != nil {
					calls++
					cost += l.Call.Cost
				}
			}
			if used := s.used(t, account, "convert"); calls != c.calls || cost != c.used || used != c.used {
				t.Errorf("the log has %d calls of the cost %d, and %d are counted; want %d and %d", calls, cost, used, c.calls, c.used)
			}
		})
	}
}
