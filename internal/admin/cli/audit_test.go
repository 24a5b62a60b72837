package cli_test

import (
	"cmp"
	"encoding/json"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// operator is the actor of the changes that a test makes.
func operator(t *testing.T) string {
	t.Helper()
	current, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Or(os.Getenv("TOLLGATE_ACTOR"), os.Getenv("SUDO_USER"), current.Username)
}

// TestAudit checks that a command leaves the name of the operating system's
// user in the audit log, and that the log can be read.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	expect(t, s.ok(t, "audit"), "AT  ACTOR  ACTION  ACCOUNT  TARGET  REASON  CHANGE\nThere are none.\n")
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	s.Advance(24 * time.Hour)
	s.ok(t, "account", "set", "acc_1", "--plan", "business", "--label", "red")
	s.ok(t, "limit", "set", "acc_1", "convert", "5")
	s.ok(t, "account", "set", "acc_2", "--plan", "free")
	s.ok(t, "account", "delete", "acc_2", "--reason", "closed")
	table := strings.ReplaceAll(s.ok(t, "audit"), operator(t), "operator")
	var got []string
	for line := range strings.Lines(table) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	expect(t, strings.Join(got, "\n")+"\n", `
AT ACTOR ACTION ACCOUNT TARGET REASON CHANGE
2126-11-20T09:00:00Z person operator account.create acc_1 (red) - - plan: starter
2126-11-21T09:00:00Z person operator account.set acc_1 (red) - - label: changed, plan: starter -> business
2126-11-21T09:00:00Z person operator limit.set acc_1 (red) convert/day - limit: 5
2126-11-21T09:00:00Z person operator account.create acc_2 - - plan: free
2126-11-21T09:00:00Z person operator account.delete acc_2 - closed plan: free -> -
`)
	for flags, want := range map[string]string{
		"":                   "account.create account.set limit.set account.create account.delete",
		"--account acc_2":    "account.create account.delete",
		"--since 2126-11-21": "account.set limit.set account.create account.delete",
		"--since 2126-11-21T10:00:01+01:00 --account acc_1": "",
		"--until 2126-11-21":                           "account.create",
		"--until 2126-11-21T09:00:01Z --account acc_1": "account.create account.set limit.set",
		"--since 2126-11-21 --until 2126-11-21":        "",
		"--actor " + operator(t):                       "account.create account.set limit.set account.create account.delete",
		"--actor " + operator(t) + " --limit 1":        "account.delete",
		"--limit 2":                                    "account.create account.delete",
		"--account acc_1 --limit 1":                    "limit.set",
		"--account acc_1 --limit 100":                  "account.create account.set limit.set",
	} {
		var page api.AuditPage
		out := s.ok(t, append([]string{"audit", "--json"}, strings.Fields(flags)...)...)
		if err := json.Unmarshal([]byte(out), &page); err != nil {
			t.Fatalf("%s: %v: %s", flags, err, out)
		}
		var actions []string
		for _, e := range page.Audit {
			actions = append(actions, e.Action)
			if e.Actor.ID != operator(t) {
				t.Errorf("the actor is %q, want the operating system's user", e.Actor.ID)
			}
		}
		if strings.Join(actions, " ") != want {
			t.Errorf("%s: got %q, want %q", flags, actions, want)
		}
	}
}

// TestAuditNamesActor checks that a program can name the operator who called
// it. A name that the gate would refuse is left out.
func TestAuditNamesActor(t *testing.T) {
	s := newShell(t)
	for _, name := range []string{"ada", strings.Repeat("a", api.MaxActor+1), "a\nb"} {
		t.Setenv("TOLLGATE_ACTOR", name)
		s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", strconv.Itoa(len(name)))
	}
	var page api.AuditPage
	if err := json.Unmarshal([]byte(s.ok(t, "audit", "--json")), &page); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range page.Audit {
		got = append(got, e.Actor.ID)
	}
	if want := []string{"ada", "", ""}; !slices.Equal(got, want) {
		t.Errorf("the actors are %q, want %q", got, want)
	}
}

// TestAuditChange checks that the column CHANGE has what people look for, and
// is short.
func TestAuditChange(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	label := strings.Repeat("ä", 200)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", label)
	s.ok(t, "limit", "set", "acc_1", "all", "unlimited", "--reason", "trade fair")
	s.ok(t, "limit", "set", "acc_1", "all", "5", "--reason", strings.Repeat("ä", 41))
	s.ok(t, "limit", "clear", "acc_1", "all", "--reason", "over")
	id := ids.FindString(s.ok(t, "key", "create", "acc_1", "--name", "ci", "--ability", "convert"))
	s.Advance(time.Hour)
	next := ids.FindString(s.ok(t, "key", "rotate", "acc_1", id))
	s.ok(t, "key", "set", "acc_1", next, "--limit", "convert 7", "--limit", "all 9 month", "--name", label[:90], "--from", "2001:db8:1111:2222::/64")
	s.ok(t, "key", "set", "acc_1", next, "--limit", "convert 8", "--limit", "all 10 month", "--name", label[:92], "--from", "2001:db8:1111:3333::/64", "--ttl", "1h")
	s.ok(t, "key", "revoke", "acc_1", next)
	var got []string
	long := " (" + strings.Repeat("ä", 39) + "…)"
	for _, line := range strings.Split(strings.TrimSpace(s.ok(t, "audit")), "\n")[1:] {
		_, change, _ := strings.Cut(line, operator(t))
		change = strings.Replace(change, "acc_1"+long, "acc_1", 1)
		got = append(got, strings.Join(strings.Fields(change), " "))
	}
	if length := utf8.RuneCountInString(got[7][strings.Index(got[7], "addresses:"):]); length != 160 {
		t.Errorf("a long change has %d characters, want 160", length)
	}
	want := strings.Join([]string{
		`account.create acc_1 - - label: changed, plan: starter`,
		`limit.set acc_1 all/day trade fair limit: unlimited`,
		`limit.set acc_1 all/day ` + strings.Repeat("ä", 39) + `… limit: unlimited -> 5`,
		`limit.clear acc_1 all/day over limit: 5 -> -`,
		`key.create acc_1 ` + id + ` - abilities: convert, name: ci`,
		`key.rotate acc_1 ` + next + ` - id: ` + id + ` -> ` + next,
		`key.set acc_1 ` + next + ` - addresses: - -> 2001:db8:1111:2222::/64, limits: - -> convert 7 a day, all 9 a month, name: ci -> ` + strings.Repeat("ä", 39) + `…`,
		`key.set acc_1 ` + next + ` - addresses: 2001:db8:1111:2222::/64 -> 2001:db8:1111:3333::/64, expires at: - -> 2126-11-20T11:00:00Z, ` +
			`limits: convert 7 a day, all 9 a month -> convert 8 a day…`,
		`key.revoke acc_1 ` + next + ` - revoked at: - -> 2126-11-20T10:00:00Z`,
	}, "\n")
	expect(t, strings.Join(got, "\n"), steady(want))
}

func TestRefused(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	today := s.Policy().Calendar.At(s.Now()).Day
	expect(t, s.ok(t, "usage", "refused"), "DAY  ACCOUNT  ENDPOINT  CODE  REASON  CALLS\nThere are none.\n")
	rows := []store.Refused{
		{Day: today, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 3},
		{Day: today, Code: "unknown_endpoint", Calls: 1},
		{Day: today, Account: "acc_1", Endpoint: "convert", Code: "invalid_token", Reason: "revoked", Calls: 4},
		{Day: today - 7, Account: "acc_2", Endpoint: "batch", Code: "plan_required", Calls: 2},
	}
	if err := s.Opened().AddRefused(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	expect(t, s.ok(t, "usage", "refused"), `
DAY         ACCOUNT  ENDPOINT  CODE              REASON   CALLS
2126-11-20  -        -         unknown_endpoint  -        1
2126-11-20  acc_1    convert   invalid_token     revoked  4
2126-11-20  acc_1    convert   quota_exceeded    -        3
`)
	expect(t, s.ok(t, "usage", "refused", "--days", "8", "--account", "acc_2"), `
DAY         ACCOUNT  ENDPOINT  CODE           REASON  CALLS
2126-11-13  acc_2    batch     plan_required  -       2
`)
	expect(t, s.ok(t, "usage", "refused", "--account", "acc_1", "--json"),
		`{"refused":[{"day":"2126-11-20","account":"acc_1","endpoint":"convert","code":"invalid_token","reason":"revoked","calls":4},`+
			`{"day":"2126-11-20","account":"acc_1","endpoint":"convert","code":"quota_exceeded","reason":"","calls":3}],"next":null}`+"\n")
}

// TestAuditByLabel: an account and an actor can be named by their e-mail address,
// which is in no URL.
func TestAuditByLabel(t *testing.T) {
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", "ada@example.com")
	t.Setenv("TOLLGATE_ACTOR", "acc_1")
	s.ok(t, "account", "set", "acc_2", "--plan", "starter")
	urls := s.watch(t)
	for flag, want := range map[string]string{"--account": " acc_1 (ada@example.com) ", "--actor": "person acc_1 (ada@example.com)  account.create  acc_2 "} {
		if out := s.ok(t, "audit", flag, "ada@example.com"); strings.Count(out, "\n") != 2 || !strings.Contains(out, want) {
			t.Errorf("%s: got\n%s", flag, out)
		}
	}
	if len(*urls) == 0 || strings.Contains(strings.Join(*urls, " "), "ada") {
		t.Errorf("the URLs are %q", *urls)
	}
}

// TestAuditLimit: --limit reads the end of a long log, and no more.
func TestAuditLimit(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	urls := s.watch(t)
	entries := make([]store.Entry, 2500)
	for i := range entries {
		entries[i] = store.Entry{At: s.Now(), ActorKind: "application", Action: api.AccountSet, Account: "acc_1", Target: strconv.Itoa(i)}
	}
	if err := s.Opened().AddEntries(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]int{1: 1, 20: 1, 1000: 1, 1001: 2, 2500: 3, 9999: 3} {
		*urls = nil
		var page api.AuditPage
		out := s.ok(t, "audit", "--json", "--limit", strconv.Itoa(limit))
		if err := json.Unmarshal([]byte(out), &page); err != nil || len(*urls) != want {
			t.Errorf("--limit %d: got %v after %d requests, want %d", limit, err, len(*urls), want)
		}
		var got, last []string
		for _, e := range page.Audit {
			got = append(got, e.Target)
		}
		for _, e := range entries[max(0, len(entries)-limit):] {
			last = append(last, e.Target)
		}
		if !slices.Equal(got, last) {
			t.Errorf("--limit %d: got %d entries %.40q, want %d: %.40q", limit, len(got), got, len(last), last)
		}
	}
}

// TestAuditMisuse: an invalid or empty filter is misuse, and names its flag.
func TestAuditMisuse(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, flag := range []string{"--since", "--until", "--actor"} {
		for _, value := range []string{"", "yesterday"} {
			_, _, err := s.run(t, "audit", flag, value)
			if misuse := misuse.Is(err); misuse != (value == "" || flag != "--actor") || misuse && !strings.Contains(err.Error(), flag) {
				t.Errorf("%s %q: got %v", flag, value, err)
			}
		}
	}
}
