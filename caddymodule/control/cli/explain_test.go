package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// use counts calls of acc_1 today.
func (s *shell) use(t *testing.T, endpoint string, cost int64) {
	t.Helper()
	call := store.Call{Account: "acc_1", Endpoint: endpoint, Day: s.Policy().Calendar.At(s.Now()).Day, At: s.Now(), Cost: cost}
	if ok, err := s.Opened().Take(t.Context(), call, nil, nil); !ok || err != nil {
		t.Fatalf("taking a call: %v, %v", ok, err)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	var key api.IssuedKey
	if err := json.Unmarshal([]byte(s.ok(t, "key", "create", "acc_1", "--name", "ci", "--ability", "convert", "--json")), &key); err != nil {
		t.Fatal(err)
	}
	s.use(t, "convert", 1000)
	expect(t, s.ok(t, "explain", "GET", "/api/convert/USD/1/EUR", "--key", key.ID), "")
	expect(t, s.ok(t, "explain", "GET", "/api/currencies", "--account", "acc_1"), "")
	expect(t, s.ok(t, "explain", "GET", "/api/currencies", "--json"), "")

	for _, args := range [][]string{
		{"explain", "GET"},
		{"explain", "GET", "/", "--key", ""},
		{"explain", "GET", "/", "--account", "acc_2"},
	} {
		if out, _, err := s.run(t, args...); err == nil || out != "" {
			t.Errorf("%q: got %q, want an error", args, out)
		}
	}
}
