package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/logging"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// TestRequestID: with an access log, a refusal and each recent call have the id
// that the line of the log has. The line of a revoked key has the key and its
// account. Without a log, an admitted call has no id unless a header shows it.
func TestRequestID(t *testing.T) {
	for _, shown := range []string{"log", "header", ""} {
		before := "log_append account {http.auth.candidate.id}\nlog_append key {http.tollgate.key}\n"
		switch shown {
		case "log":
			before = "log\n" + before
		case "header":
			before += "header X-Request-Id {http.request.uuid}"
		}
		s, log := logged(t, "INFO", setup{zone: calmZone(), before: before})
		account, bearer := s.account(t, "small")
		first := s.get(t, "/api/convert/EUR/1/USD", bearer)
		refused := s.get(t, "/api/convert/batch", bearer)
		if first.status != 200 || refused.status != 405 {
			t.Fatalf("got %d, %d", first.status, refused.status)
		}
		for range 5 {
			refused = s.get(t, "/api/convert/EUR/1/USD", bearer)
		}
		var body struct {
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(refused.body), &body); err != nil || refused.status != 429 || len(body.RequestID) != 36 {
			t.Fatalf("got %d %s (%v), want an id", refused.status, refused.body, err)
		}
		var usage api.UsageDocument
		if err := json.Unmarshal([]byte(s.get(t, "/api/usage", bearer).body), &usage); err != nil {
			t.Fatal(err)
		}
		if n := len(usage.RecentCalls); n != 6 || usage.RecentCalls[0].RequestID != body.RequestID {
			t.Fatalf("%q: got %+v", shown, usage.RecentCalls)
		}
		id := usage.RecentCalls[5].RequestID
		if (id != "") != (shown != "") || shown == "header" && first.header.Get("X-Request-Id") != id {
			t.Errorf("%q: the admitted call has the id %q", shown, id)
		}
		if shown != "log" {
			continue
		}
		keys, err := s.store(t).Keys(t.Context(), account)
		if err == nil {
			err = s.store(t).RevokeKey(t.Context(), account, keys[0].ID, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		ended := s.get(t, "/api/convert/EUR/1/USD", bearer)
		if ended.status != 401 || strings.Contains(ended.body, "request_id") {
			t.Fatalf("got %d %s, want the same bytes for all", ended.status, ended.body)
		}
		eventually(t, "the log has the ids", func() bool {
			return strings.Contains(log(), `"uuid":"`+id+`"`) && strings.Contains(log(), `"uuid":"`+body.RequestID+`"`) && strings.Contains(log(), `"status":401`)
		})
		whose := fmt.Sprintf(`"key":%q,"account":%q`, keys[0].ID, account)
		for line := range strings.Lines(log()) {
			if strings.Contains(line, `"status":401`) && !strings.Contains(line, whose) {
				t.Errorf("the line of a revoked key: got %s, want %s", line, whose)
			}
		}
	}
}
