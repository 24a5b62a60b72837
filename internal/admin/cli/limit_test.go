package cli_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	expect(t, s.ok(t, "limit", "list", "acc_1"), `
ENDPOINT  LIMIT  PERIOD  EXPIRES  CREATED  REASON
There are none.
`)
	expect(t, s.ok(t, "limit", "set", "acc_1", "convert", "5000", "--period", "month", "--until", "2126-12-31", "--reason", "trade fair"), `
ENDPOINT  LIMIT  PERIOD  EXPIRES               CREATED               REASON
convert   5000   month   2126-12-31T23:00:00Z  2126-11-20T09:00:00Z  trade fair
`)
	s.ok(t, "limit", "set", "acc_1", "convert", "70", "--until", "2126-11-20T23:59:59+01:00")
	expect(t, s.ok(t, "limit", "set", "acc_1", "*", "unlimited", "--json"),
		`{"endpoint":"all","period":"day","limit":null,"expires_at":null,"reason":"","created_at":"2126-11-20T09:00:00Z"}`+"\n")
	expect(t, s.ok(t, "limit", "list", "acc_1"), `
ENDPOINT  LIMIT      PERIOD  EXPIRES               CREATED               REASON
convert   5000       month   2126-12-31T23:00:00Z  2126-11-20T09:00:00Z  trade fair
convert   70         day     2126-11-20T22:59:59Z  2126-11-20T09:00:00Z
all       unlimited  day     never                 2126-11-20T09:00:00Z
`)
	expect(t, s.ok(t, "limit", "clear", "acc_1", "convert"), "Removed the override of convert for each day of acc_1.\n")
	expect(t, s.ok(t, "limit", "clear", "acc_1", "convert", "--period", "month"), "Removed the override of convert for each month of acc_1.\n")
	if out := s.ok(t, "limit", "list", "acc_1", "--json"); strings.Contains(out, "convert") || !strings.HasPrefix(out, `{"limits":[{"endpoint":"all"`) {
		t.Errorf("after two were removed: %s", out)
	}
}

// TestUntil checks that an override ends with its last day, in zones whose days
// do not end at a usual midnight.
func TestUntil(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.Advance(time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC).Sub(controltest.Start))
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	for _, test := range []struct{ zone, until, want string }{
		{"UTC", "2026-12-31", "2027-01-01T00:00:00Z"},
		{"UTC", "2028-02-28", "2028-02-29T00:00:00Z"},
		{"Pacific/Kiritimati", "2026-12-31", "2026-12-31T10:00:00Z"},
		{"Pacific/Pago_Pago", "2026-12-31", "2027-01-01T11:00:00Z"},
		{"Europe/Berlin", "2026-03-29", "2026-03-29T22:00:00Z"},     // 23 hours
		{"Europe/Berlin", "2026-10-25", "2026-10-25T23:00:00Z"},     // 25 hours
		{"America/Santiago", "2026-09-05", "2026-09-06T04:00:00Z"},  // the next day begins at 01:00
		{"America/Sao_Paulo", "2018-11-03", "2018-11-04T03:00:00Z"}, // the next day begins at 01:00
		{"America/St_Johns", "2011-11-05", "2011-11-06T02:30:00Z"},  // the first of two midnights
		{"Pacific/Apia", "2011-12-29", "2011-12-30T10:00:00Z"},
		{"Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"}, // a day that there was not
		{"Pacific/Apia", "2011-12-31", "2011-12-31T10:00:00Z"},
		{"Europe/Berlin", "2026-12-31T18:00:00-05:00", "2026-12-31T23:00:00Z"},
	} {
		config := controltest.Config()
		config.Timezone = test.zone
		s.Configure(t, config)
		var override api.Override
		out := s.ok(t, "limit", "set", "acc_1", "convert", "5", "--until", test.until, "--json")
		if err := json.Unmarshal([]byte(out), &override); err != nil || override.ExpiresAt.Format(time.RFC3339) != test.want {
			t.Errorf("%s in %s: got %s, %v, want %s", test.until, test.zone, out, err, test.want)
		}
	}
}

func TestRestrictedKeys(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	created := s.ok(t, "key", "create", "acc_1", "--name", "ci", "--ability", "convert", "--limit", "convert 100", "--limit", "all 5  second",
		"--from", "203.0.113.7/24", "--from", "2001:db8::1")
	expect(t, created, `
ID         key_xxxxxxxxxxxxxxxx
Account    acc_1
Name       ci
Abilities  convert
Limits     convert 100 day, all 5 second
Addresses  203.0.113.0/24 2001:db8::1
Expires    never
Token      tgk_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx

The token is not shown again.
`)
	id := ids.FindString(created)
	s.Opened().Record(store.Record{
		Account: "acc_1", Key: id, KeyName: "ci", At: s.Now(), Endpoint: "convert", Method: "GET", Path: "/", Status: 200,
		From: netip.MustParseAddr("203.0.113.5"),
	})
	s.ok(t, "usage", "show", "acc_1") // writes what the store has not written yet
	expect(t, s.ok(t, "key", "list", "acc_1"), `
ID                    NAME  TOKEN      ABILITIES  CREATED               LAST USED             FROM         EXPIRES  REVOKED  LIMITS                         ADDRESSES
key_xxxxxxxxxxxxxxxx  ci    tgk_…xxxx  convert    2126-11-20T09:00:00Z  2126-11-20T09:00:00Z  203.0.113.5  never    -        convert 100 day, all 5 second  203.0.113.0/24 2001:db8::1
`)
	call := store.Call{Account: "acc_1", Key: id, Endpoint: "convert", Day: s.Policy().Calendar.At(s.Now()).Day, At: s.Now(), Cost: 3}
	if ok, err := s.Opened().Take(t.Context(), call, nil, nil); !ok || err != nil {
		t.Fatalf("taking a call: %v, %v", ok, err)
	}
	s.ok(t, "limit", "set", "acc_1", "all", "10", "--period", "minute")
	s.ok(t, "limit", "set", "acc_1", "convert", "2000", "--period", "month")
	out := s.ok(t, "usage", "show", "acc_1")
	for _, line := range []string{
		"convert     day     3     1000   997        2126-11-21T00:00:00+01:00",
		"convert     month   3     2000   1997       2126-12-01T00:00:00+01:00",
		"all         minute  -     10     -          -",
		"KEY  ENDPOINT  PERIOD  USED  LIMIT  REMAINING  RESETS AT",
		"ci   convert   day     3     100    97         2126-11-21T00:00:00+01:00",
		"ci   all       second  -     5      -          -",
	} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("the usage lacks %q:\n%s", line, out)
		}
	}

	expect(t, s.ok(t, "key", "set", "acc_1", id, "--name", "deploy", "--ttl", "1d", "--limit", "convert 7 month", "--from", "10.0.0.1"), `
ID         key_xxxxxxxxxxxxxxxx
Account    acc_1
Name       deploy
Abilities  convert
Limits     convert 7 month
Addresses  10.0.0.1
Expires    2126-11-21T09:00:00Z
`)
	expect(t, s.ok(t, "key", "set", "acc_1", id, "--limit", "none", "--from", "any", "--ttl", "never", "--ability", "usage"), `
ID         key_xxxxxxxxxxxxxxxx
Account    acc_1
Name       deploy
Abilities  usage
Limits     -
Addresses  any
Expires    never
`)
	if out := s.ok(t, "key", "set", "acc_1", id, "--name", "ci", "--json"); !strings.HasPrefix(out, `{"id":"`+id+`"`) || strings.Contains(out, "token") {
		t.Errorf("as JSON: %s", out)
	}
}
