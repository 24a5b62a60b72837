package e2e_test

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

func conversions(n int) string {
	return `{"conversions":[` + strings.TrimSuffix(strings.Repeat(`{"from":"USD","to":"EUR","amount":1},`, n), ",") + `]}`
}

// TestBatchCost counts each conversion of a batch. A batch that a limit has no
// room for, that parsers could read differently or that no service answers
// costs nothing.
func TestBatchCost(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t, "ability convert\n", "ability convert\n\t\t\tcost json conversions\n", "batch 50\n", "batch 200\n"))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	for _, c := range []struct {
		body   string
		status int
		code   string
		used   int64
	}{
		{conversions(100), 200, "", 100},
		{conversions(101), 429, "quota_exceeded", 100},
		{conversions(201), 403, "cost_above_limit", 100},
		{`{"conversions":[1],"Conversions":[1,2]}`, 400, "invalid_request", 100},
		{conversions(0), 400, "", 101}, // the service refuses it
		{"", 502, "upstream_unreachable", 101},
	} {
		if c.body == "" {
			s.StopUpstream()
			c.body = conversions(40)
		}
		response, text := s.Call("POST", "/api/convert/batch", key.Token, strings.NewReader(c.body))
		if response.StatusCode != c.status || c.code != "" && code(t, text) != c.code {
			t.Errorf("%.50s: got %d %.300s, want %d %s", c.body, response.StatusCode, text, c.status, c.code)
		}
		if got := used(t, s, account, "batch"); got != c.used {
			t.Errorf("%.50s: counted %d, want %d", c.body, got, c.used)
		}
	}
}
