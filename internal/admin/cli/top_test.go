package cli_test

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", "ada@example.com")
	s.ok(t, "account", "set", "acc_2", "--plan", "starter", "--disabled")
	s.take(t, "acc_1", "convert", 500)
	s.take(t, "acc_1", "currencies", 3)
	today := s.Policy().Calendar.At(s.Now()).Day
	err := s.Opened().AddRefused(t.Context(), []store.Refused{
		{Day: today, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 4},
		{Day: today, Account: "acc_1", Endpoint: "convert", Code: "not_entitled", Calls: 1},
		{Day: today - 1, Code: "\x1b[31m", Calls: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	out := s.ok(t, "usage", "summary")
	head, rest, _ := strings.Cut(out, "2126-10-23 ")
	expect(t, head, `
At        2126-11-20T09:00:00Z
Accounts  2, 1 of them disabled

DAY         CALLS                      REFUSED
2126-10-22  -                          -
`)
	_, rest, _ = strings.Cut(rest, "2126-11-18  ")
	rest, checks, _ := strings.Cut(rest, "\nCHECK    OK   MESSAGE\nwebhook  yes  ")
	if strings.Contains(checks, "backup") { // a new store needs none yet
		t.Errorf("got the checks %s", checks)
	}
	expect(t, strings.TrimLeft(rest, "- \n"), `
2126-11-19  -                          �[31m 2
2126-11-20  convert 500, currencies 3  not_entitled 1, quota_exceeded 4

NEAREST  PLAN     ENDPOINT    PERIOD  USED  LIMIT  REMAINING  RESETS AT                  LABEL
acc_1    starter  convert     day     500   1000   500        2126-11-21T00:00:00+01:00  ada@example.com
acc_1    starter  currencies  day     3     100    97         2126-11-21T00:00:00+01:00  ada@example.com

MOST REFUSED  PLAN     CALLS  CODES                             LABEL
acc_1         starter  5      not_entitled 1, quota_exceeded 4  ada@example.com
`)
	if out := s.ok(t, "usage", "summary", "--json"); !strings.HasPrefix(out, `{"at":"2126-11-20T09:00:00Z","accounts":2,"disabled":1,"days":[{"day":"2126-10-22","calls":{},"refused":{}}`) {
		t.Errorf("got %s", out)
	}
}
