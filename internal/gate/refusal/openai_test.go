package refusal

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
)

// TestForOpenAI has a type and a code for each refusal, and leaves the shared
// refusal as it is.
func TestForOpenAI(t *testing.T) {
	t.Parallel()
	if f := MethodNotFound(nil); f.ForOpenAI() != f {
		t.Error("a refusal in the form of JSON-RPC has two members error")
	}
	for code, c := range map[string]struct {
		status int
		want   string // type and code
	}{
		"invalid_request":      {400, `"invalid_request_error","code":"invalid_request"`},
		"invalid_token":        {401, `"authentication_error","code":"invalid_token"`},
		"cost_above_limit":     {403, `"permission_error","code":"cost_above_limit"`},
		"body_too_large":       {413, `"invalid_request_error","code":"body_too_large"`},
		"rate_limited":         {429, `"rate_limit_error","code":"rate_limited"`},
		"quota_reserved":       {429, `"rate_limit_error","code":"quota_reserved"`},
		"quota_exceeded":       {429, `"insufficient_quota","code":"insufficient_quota"`},
		"quota_exhausted":      {429, `"insufficient_quota","code":"insufficient_quota"`},
		"upstream_unreachable": {502, `"server_error","code":"upstream_unreachable"`},
	} {
		f := fixed(c.status, code, `A "word".`, outcome.Malformed)
		before := string(f.json.body)
		got := string(f.ForOpenAI().json.body)
		want := strings.TrimSuffix(before, "}") + `,"error":{"message":"A \"word\".","type":` + c.want + `}}`
		if got != want || string(f.json.body) != before {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
