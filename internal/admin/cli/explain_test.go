package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	var key api.IssuedKey
	if err := json.Unmarshal([]byte(s.ok(t, "key", "create", "acc_1", "--name", "ci", "--ability", "convert", "--json")), &key); err != nil {
		t.Fatal(err)
	}
	s.take(t, "acc_1", "convert", 1000)
	expect(t, s.ok(t, "explain", "GET", "/api/convert/USD/1/EUR", "--key", key.ID), `
Request  GET /api/convert/USD/1/EUR
Account  acc_1
Plan     starter
Key      key_xxxxxxxxxxxxxxxx
Mode     enforce

STEP         OK   MESSAGE
path         yes  There is one way to read the path.
headers      yes  The gate removes headers that clients must not set.
route        yes  The endpoint convert.
token        yes  The key is live, and the account is not disabled.
address      yes  The key may be used from any address.
entitlement  yes  The plan has the endpoint, and the key has the ability convert.
cost         yes  The call costs 1.
quota        no   Daily API limit exceeded: 1000 calls a day to convert. It resets at 2126-11-21T00:00:00+01:00.

Answer       429 quota_exceeded
Message      Daily API limit exceeded: 1000 calls a day to convert. It resets at 2126-11-21T00:00:00+01:00.
Retry after  50400 s

ENDPOINT  OF       PERIOD  USED  LIMIT  REMAINING  RESETS AT                  REFUSES
convert   account  day     1000  1000   0          2126-11-21T00:00:00+01:00  yes
`)
	out := s.ok(t, "explain", "GET", "/api/currencies", "--account", "acc_1")
	if !strings.Contains(out, "proxy        yes  The request passes to the service.\n\nAnswer   admitted\n") || strings.Contains(out, "Key") {
		t.Errorf("got %s", out)
	}
	expect(t, s.ok(t, "explain", "GET", "/api/currencies", "--json"), `
{"request":{"method":"GET","target":"/api/currencies"},"account":"","plan":"","key":"","steps":[{"step":"path","ok":true,"message":"There is one way to read the path."},{"step":"headers","ok":true,"message":"The gate removes headers that clients must not set."},{"step":"route","ok":true,"message":"The endpoint currencies."},{"step":"token","ok":false,"message":"Send an API key as a Bearer token in the Authorization header."}],"admitted":false,"passes":false,"status":401,"code":"unauthenticated","message":"Send an API key as a Bearer token in the Authorization header.","retry_after":null,"mode":"enforce","limits":[]}
`)
}

// TestExplainEnded: the operator learns why a token is not valid, and what its
// clients see.
func TestExplainEnded(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	var key api.IssuedKey
	if err := json.Unmarshal([]byte(s.ok(t, "key", "create", "acc_1", "--name", "ci", "--ttl", "1h", "--from", "192.0.2.0/24", "--json")), &key); err != nil {
		t.Fatal(err)
	}
	want := func(answer, step, message string, flags ...string) {
		t.Helper()
		out := s.ok(t, append([]string{"explain", "GET", "/api/convert/USD/1/EUR"}, flags...)...)
		if !strings.Contains(out, "\n"+step+"no   "+message) || !strings.Contains(out, "Account  acc_1\n") || !strings.Contains(out, "Answer   "+answer+"\n") {
			t.Errorf("%v: got %s, want %s of %s", flags, out, message, step)
		}
	}
	const invalid = "401 invalid_token\nMessage  The token is not valid. It may be mistyped, expired or revoked."
	want("403 address_not_allowed", "address  ", "The key may not be used from the address 203.0.113.9.", "--key", key.ID, "--from", "203.0.113.9")
	s.ok(t, "account", "set", "acc_1", "--disabled")
	want(invalid, "token    ", "The account acc_1 is disabled. Clients see the same answer for all tokens that are not valid.", "--key", key.ID)
	want(invalid, "token    ", "The account acc_1 is disabled.", "--account", "acc_1")
	s.Advance(time.Hour)
	want(invalid, "token    ", "The key expired at 2126-11-20T10:00:00Z. Clients see the same answer for all tokens that are not valid.", "--key", key.ID)
	s.ok(t, "key", "revoke", "acc_1", key.ID)
	want(invalid, "token    ", "The key was revoked at 2126-11-20T10:00:00Z. Clients see the same answer for all tokens that are not valid.", "--key", key.ID)
}

// TestExplainInShadow checks that the table tells a refusal that mode shadow
// lets pass from one that it does not.
func TestExplainInShadow(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	config := controltest.Config()
	config.Mode = policy.Shadow
	s.Configure(t, config)
	for target, answer := range map[string]string{
		"/api/currencies":  "Answer   passes; mode enforce would answer 401 unauthenticated\n",
		"/api//currencies": "Answer   400 bad_path\n",
		"/elsewhere":       "Answer   admitted\n",
	} {
		if out := s.ok(t, "explain", "GET", target); !strings.Contains(out, answer) {
			t.Errorf("%s: got %s, want %q", target, out, answer)
		}
	}
}
