package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// shell runs commands against a gate on the loopback interface.
type shell struct {
	*controltest.Gate
	base  string
	input string // standard input of commands
}

func newShell(t *testing.T) *shell {
	t.Helper()
	gate := controltest.New(t)
	return &shell{Gate: gate, base: gate.Serve(t)}
}

func (s *shell) run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "tollgate", SilenceUsage: true}
	cli.Add(root, func(address string) (*client.Client, error) {
		if address != "" {
			return nil, errors.New("no such address: " + address)
		}
		return client.New(s.base, controltest.Secret)
	}, feature.Commands)
	var out, complaints bytes.Buffer
	root.SetIn(strings.NewReader(s.input))
	root.SetOut(&out)
	root.SetErr(&complaints)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), complaints.String(), err
}

// ok runs a command that has to succeed and say nothing on standard
// error.
func (s *shell) ok(t *testing.T, args ...string) string {
	t.Helper()
	out, complaints, err := s.run(t, args...)
	if err != nil || complaints != "" {
		t.Fatalf("%q: %v\n%s", args, err, complaints)
	}
	return out
}

var (
	ids    = regexp.MustCompile(`key_[0-9A-Za-z]{16}`)
	tokens = regexp.MustCompile(`tgk_[0-9A-Za-z]{49}`)
	hints  = regexp.MustCompile(`tgk_…[0-9A-Za-z]{4}`)
)

// steady replaces what is random by what is equally long.
func steady(out string) string {
	out = ids.ReplaceAllString(out, "key_xxxxxxxxxxxxxxxx")
	out = tokens.ReplaceAllString(out, "tgk_"+strings.Repeat("x", 49))
	return hints.ReplaceAllString(out, "tgk_…xxxx")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	// Tables end without trailing blanks in the source of this test.
	got = regexp.MustCompile(`(?m) +$`).ReplaceAllString(steady(got), "")
	if diff := cmp.Diff(strings.TrimLeft(want, "\n"), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	config := controltest.Config()
	config.Endpoints[0].CostHeader, config.Endpoints[0].CostReserve = "x-rows", 9
	config.Endpoints[1].Cost = 5
	config.Endpoints[2].CostMember = "conversions"
	config.Plans[1].MoreLimits = []policy.LimitConfig{
		{Endpoint: "all", Period: "second", Limit: 10},
		{Endpoint: "convert", Period: "month", Limit: 20000},
	}
	s.Configure(t, config)
	expect(t, s.ok(t, "plans"), `
PLAN      ENDPOINT    LIMIT      PERIOD
free      -           no access  -
starter   currencies  100        day
starter   convert     1000       day
starter   convert     20000      month
starter   batch       50         day
starter   usage       1000       day
starter   all         10         second
business  currencies  unlimited  day
business  convert     100000     day

ENDPOINT    METHOD  PATH                               ABILITY     COST
currencies  GET     /api/currencies                    currencies  told by X-Rows, 9 reserved
convert     GET     /api/convert/{from}/{amount}/{to}  convert     5
batch       POST    /api/convert/batch                 convert     elements of conversions
usage       GET     /api/usage                         usage       1

Days and months end at midnight in Europe/Berlin.
`)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	explained := func(want string) {
		t.Helper()
		if out := s.ok(t, "explain", "GET", "/api/currencies", "--account", "acc_1"); !strings.Contains(out, want) {
			t.Errorf("got %s, want %s", out, want)
		}
	}
	explained("\ncost         yes  The call reserves 9. The header X-Rows of the answer tells what it costs.\n")
	s.ok(t, "limit", "set", "acc_1", "currencies", "8")
	explained("\nAnswer   403 cost_above_limit\n")
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	expect(t, s.ok(t, "account", "list"), "ACCOUNT  PLAN  STATE  CREATED  LABEL\nThere are none.\n")
	expect(t, s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", "ada@example.com"), `
ACCOUNT  PLAN     STATE   CREATED               LABEL
acc_1    starter  active  2126-11-20T09:00:00Z  ada@example.com
Created acc_1.
`)
	s.ok(t, "account", "set", "acc_2", "--plan", "free", "--disabled")
	s.ok(t, "account", "set", "acc_2", "--plan", "business")
	expect(t, s.ok(t, "account", "list"), `
ACCOUNT  PLAN      STATE     CREATED               LABEL
acc_1    starter   active    2126-11-20T09:00:00Z  ada@example.com
acc_2    business  disabled  2126-11-20T09:00:00Z  -
`)
	for flags, want := range map[string]string{
		"--plan starter":               "acc_1",
		"--search ADA@":                "acc_1",
		"--search acc_":                "acc_1 acc_2",
		"--disabled":                   "acc_2",
		"--disabled=false":             "acc_1",
		"--plan starter --disabled":    "",
		"--plan business --search c_2": "acc_2",
	} {
		var page api.AccountPage
		out := s.ok(t, append([]string{"account", "list", "--json"}, strings.Fields(flags)...)...)
		if err := json.Unmarshal([]byte(out), &page); err != nil {
			t.Fatalf("%s: %v: %s", flags, err, out)
		}
		var got []string
		for _, a := range page.Accounts {
			got = append(got, a.Account)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", flags, got, want)
		}
	}
	s.ok(t, "account", "set", "acc_2", "--disabled=false")
	s.ok(t, "account", "set", "acc_1", "--label=")
	expect(t, s.ok(t, "account", "show", "acc_2"), `
ACCOUNT  PLAN      STATE   CREATED               LABEL
acc_2    business  active  2126-11-20T09:00:00Z  -
`)
	expect(t, s.ok(t, "account", "list", "--plan", "starter", "--json"), `{"accounts":[{"account":"acc_1","plan":"starter","label":"","disabled":false,"created_at":"2126-11-20T09:00:00Z"}],"next":null}`+"\n")
	expect(t, s.ok(t, "account", "delete", "acc_1"), "Deleted acc_1.\n")
	expect(t, s.ok(t, "account", "delete", "acc_2", "--json"), "")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	created := s.ok(t, "key", "create", "acc_1", "--name", "ci", "--ability", "usage", "--ability", "convert", "--ttl", "720h")
	expect(t, created, `
ID         key_xxxxxxxxxxxxxxxx
Account    acc_1
Name       ci
Abilities  convert usage
Limits     -
Addresses  any
Expires    2126-12-20T09:00:00Z
Token      tgk_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx

The token is not shown again.
`)
	id := ids.FindString(created)
	rotated := s.ok(t, "key", "rotate", "acc_1", id, "--overlap", "24h", "--json")
	var next struct{ ID, Token string }
	if err := json.Unmarshal([]byte(rotated), &next); err != nil || next.ID == id || !tokens.MatchString(next.Token) {
		t.Fatalf("rotated: %v: %s", err, rotated)
	}
	if _, complaints, err := s.run(t, "key", "revoke", "acc_1", "ci"); err == nil || !strings.Contains(complaints, "several keys have this name: key_") || !strings.Contains(complaints, id) || !strings.Contains(complaints, next.ID) {
		t.Errorf("the name of two keys: got %v, %s", err, complaints)
	}
	expect(t, s.ok(t, "key", "revoke", "acc_1", next.ID), "Revoked key_xxxxxxxxxxxxxxxx.\n")
	expect(t, s.ok(t, "key", "list", "acc_1"), `
ID                    NAME  TOKEN      ABILITIES      CREATED               LAST USED  FROM  EXPIRES               REVOKED  LIMITS  ADDRESSES
key_xxxxxxxxxxxxxxxx  ci    tgk_…xxxx  convert usage  2126-11-20T09:00:00Z  never      -     2126-11-21T09:00:00Z  -        -       any
`)
	if got := strings.Count(s.ok(t, "key", "list", "acc_1", "--revoked"), "key_"); got != 2 {
		t.Errorf("with revoked ones: got %d keys", got)
	}
	if out := s.ok(t, "explain", "GET", "/api/currencies", "--account", "acc_1", "--key", "ci"); !strings.Contains(out, id) {
		t.Errorf("a key by its name: got %s", out)
	}
	s.ok(t, "key", "set", "acc_1", "ci", "--name", "key_prod")
	if _, complaints, err := s.run(t, "key", "rotate", "acc_1", "key_prod"); err == nil || complaints != "Error: use the id of the key: "+id+"\n" {
		t.Errorf("a rotation by the name: got %v, %s", err, complaints)
	}
	if out := s.ok(t, "key", "revoke", "acc_1", "key_prod"); out != "Revoked "+id+".\n" {
		t.Errorf("a key by its name: got %s", out)
	}
	expect(t, s.ok(t, "key", "list", "acc_1", "--kind", "login", "--json"), `{"keys":[]}`+"\n")
	if out := s.ok(t, "key", "list", "acc_1", "--kind", "login"); !strings.Contains(out, "There are none.") {
		t.Errorf("got %s", out)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "business")
	opened := s.Opened()
	day := s.Policy().Calendar.At(s.Now()).Day
	for range 3 {
		if _, err := opened.Take(t.Context(), store.Call{Account: "acc_1", Endpoint: "convert", Day: day, At: s.Now(), Cost: 1}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	opened.Record(store.Record{
		Account: "acc_1", KeyName: "\x1b[31mred", At: s.Now(), Endpoint: "convert", Method: "GET",
		Path: "/api/convert/EUR/10/\u202eUSD", Status: 200, Cost: 5, Duration: 1800 * time.Microsecond,
	})
	expect(t, s.ok(t, "usage", "show", "acc_1", "--days", "2"), `
Account    acc_1
Plan       business
Day        2126-11-20 (Europe/Berlin)
Resets at  2126-11-21T00:00:00+01:00

ENDPOINT    PERIOD  USED  LIMIT      REMAINING  RESETS AT
currencies  day     0     unlimited  unlimited  2126-11-21T00:00:00+01:00
convert     day     3     100000     99997      2126-11-21T00:00:00+01:00

DAY         currencies  convert
2126-11-19  0           0
2126-11-20  0           3

RECENT CALL           STATUS  METHOD  PATH                      COST  MS   KEY
2126-11-20T09:00:00Z  200     GET     /api/convert/EUR/10/�USD  5     1.8  �[31mred
`)
	if out := s.ok(t, "usage", "show", "acc_1", "--json"); !strings.HasPrefix(out, `{"account":"acc_1","plan":"business"`) || strings.Contains(out, `"days"`) {
		t.Errorf("got %s", out)
	}
	expect(t, s.ok(t, "usage", "reset", "acc_1", "--endpoint", "convert"), "Gave 3 of today's calls of convert back to acc_1.\n")
	expect(t, s.ok(t, "usage", "reset", "acc_1"), "Nothing changed: no calls of all endpoints count today.\n")
	if out := s.ok(t, "usage", "show", "acc_1"); !strings.Contains(out, "convert     day     0 ") || !strings.Contains(out, "CREDITED TODAY  CALLS  CREDITED\nconvert         3      3\n") {
		t.Errorf("after a reset: %s", out)
	}
	s.ok(t, "account", "set", "acc_1", "--plan", "free")
	if out := s.ok(t, "usage", "show", "acc_1", "--days", "2"); !strings.Contains(out, "The plan gives no access.") || strings.Contains(out, "DAY") {
		t.Errorf("without access: %s", out)
	}
}

// TestVersion: the version is that of the program, and of the gate. A build of
// this directory is no release.
func TestVersion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	expect(t, s.ok(t, "version"), "devel\n")
	expect(t, s.ok(t, "version", "--json"), `{"version":"devel"}`+"\n")
	answer, err := http.Get(s.base + "/tollgate/health/live")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got := answer.Header.Get(api.VersionHeader); got != "devel" {
		t.Errorf("the gate has the version %q", got)
	}
	if got := answer.Header.Get(api.InstanceHeader); got != admin.Instance || got == "" {
		t.Errorf("the gate has the instance %q, want %q", got, admin.Instance)
	}
}

// TestHealth prints what the gate says, and fails when it is not ready.
func TestHealth(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	expect(t, s.ok(t, "health"), `
Status  ready
Mode    enforce
Since   2126-11-20T09:00:00Z

CHECK  OK   MESSAGE
store  yes  The store works.
`)
	expect(t, s.ok(t, "health", "--json"), `
{"status":"ready","mode":"enforce","since":"2126-11-20T09:00:00Z","checks":[{"name":"store","ok":true,"message":"The store works."}]}
`)
	for status, reason := range map[string]error{"unavailable": errors.New("no store"), "starting": store.ErrOpening} {
		s.Break(reason)
		out, complaints, err := s.run(t, "health")
		if err == nil || !strings.HasPrefix(complaints, "Error: the gate is not ready: "+status+": The store ") || !strings.Contains(out, "store  no  The store ") {
			t.Errorf("%s: got %v\nstdout: %s\nstderr: %s", status, err, out, complaints)
		}
		out, _, err = s.run(t, "health", "--json")
		if err == nil || !strings.HasPrefix(out, `{"status":"`+status+`"`) {
			t.Errorf("%s as JSON: got %v, %s", status, err, out)
		}
	}
}

// What goes wrong is told on standard error, with a status that a script
// sees, and leaves standard output empty. The test of the same name in e2e has
// more.
func TestMistakes(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	s.ok(t, "key", "create", "acc_1", "--name", "ci")
	for _, test := range []struct {
		args    string
		message string
	}{
		{"account show ..", "there is no account with this id or label: An account id has 1 to 64 characters"},
		{"account set acc_0123456789abcdefGHIJ --plan starter", "probably a typing error: --create creates it"},
		{"account list --plan gold", `unknown plan "gold": --plan must be one of free, starter, business`},
		{"audit --account=", "--account has no value; omit it for all"},
		{"audit --limit 0", `invalid argument "0" for "--limit" flag: allowed: whole numbers from 1 to `},
		{"usage refused --days 401", `invalid argument "401" for "--days" flag: allowed: whole numbers from 1 to 400`},
		{"usage refused --account=", "--account has no value; omit it for all"},
		{"usage top --days 91", `invalid argument "91" for "--days" flag: allowed: whole numbers from 1 to 90`},
		{"usage export --month 2020-01", "--month 2020-01 is too long ago: the gate keeps counts for 400 days"},
		{"usage export --month 2126-12", "--month 2126-12 has not begun in the gate's time zone"},
		{"usage export --month 2126-11 --output=", `invalid --output "": want a file`},
		{"usage export --month 2126-11 --output /nowhere/at/all", `writing /nowhere/at/all`},
		{"explain GET / --account acc_1 --key key_x", "The account has no such key."},
		{"audit --account stranger", "No account has this id or label, and the audit log has no entry with it. Search the accounts for a part of it."},
		{"audit --actor stranger", "No account has this id or label"},
		{"explain GET / --cost 0", `invalid argument "0" for "--cost" flag: allowed: whole numbers from 1 to 1000000000000000`},
		{"account import /nowhere", "opening the lines"},
		{"key set acc_1 key_x --ttl=", "--ttl has no value"},
		{"key set acc_1 key_x --from any --from 10.0.0.1", `"any" is neither a network`},
		{"limit set acc_1 .. 5", "There is no such endpoint."},
		{"limit set acc_1 convert 0 --period second", "A limit for each second is at least 1."},
		{"limit set acc_1 convert 5 --until 2126-02-30", `invalid --until "2126-02-30": want a day`},
		{"key create acc_0123456789abcdefGHIJ --name x", "there is no account with this id or label"},
		{"key create acc_11 --name x", `there is no account with this id or label: "caddy tollgate account list --search <text>" finds accounts, and "caddy tollgate account set <id> --plan <plan>" makes one`},
		{"key revoke acc_1 key_x", "The account has no such key."},
		{"key rotate acc_1 key_x --overlap soon", `invalid --overlap "soon": want a duration`},
		{"key rotate acc_1 key_x --overlap=", "--overlap has no value"},
		{"usage reset acc_1 --endpoint=", "--endpoint has no value"},
		{"plans --address nowhere", "no such address: nowhere"},
	} {
		for _, flag := range []string{"", " --json"} {
			out, complaints, err := s.run(t, strings.Fields(test.args+flag)...)
			if err == nil || !strings.Contains(complaints, test.message) || out != "" {
				t.Errorf("%s%s: got %v\nstdout: %s\nstderr: %s", test.args, flag, err, out, complaints)
			}
		}
	}
	s.Break(errors.New("no store"))
	if _, complaints, err := s.run(t, "account", "list"); err == nil || !strings.Contains(complaints, "The gate cannot do this now.") {
		t.Errorf("without a store: got %v, %s", err, complaints)
	}
}

// The set is JSON with and without --json.
func TestPublicKeys(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	want, err := json.Marshal(s.PublicKeys())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"jwks"}, {"jwks", "--json"}} {
		if got := s.ok(t, args...); got != string(want)+"\n" {
			t.Errorf("%q: got %s", args, got)
		}
	}
}
