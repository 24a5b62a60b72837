package cli_test

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// take counts one call on the day of the gate's clock.
func (s *shell) take(t *testing.T, account, endpoint string, cost int64) {
	t.Helper()
	call := store.Call{Account: account, Endpoint: endpoint, Day: s.Policy().Calendar.At(s.Now()).Day, At: s.Now(), Cost: cost}
	if ok, err := s.Opened().Take(t.Context(), call, nil, nil); !ok || err != nil {
		t.Fatalf("taking a call: %v, %v", ok, err)
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", "ada@example.com")
	s.ok(t, "account", "set", "acc_2", "--plan", "business")
	s.take(t, "acc_2", "convert", 90)
	s.Advance(24 * time.Hour)
	s.take(t, "acc_1", "batch", 40)
	s.take(t, "acc_2", "convert", 7)
	expect(t, s.ok(t, "usage", "top"), `
BUSIEST  PLAN      CALLS  LABEL
acc_1    starter   40     ada@example.com
acc_2    business  7      -

NEAREST  PLAN      ENDPOINT  PERIOD  USED  LIMIT   REMAINING  RESETS AT                  LABEL
acc_1    starter   batch     day     40    50      10         2126-11-22T00:00:00+01:00  ada@example.com
acc_2    business  convert   day     7     100000  99993      2126-11-22T00:00:00+01:00  -
`)
	if out := s.ok(t, "usage", "top", "--days", "2", "--json"); !strings.HasPrefix(out, `{"busiest":[{"account":"acc_2","label":"","plan":"business","calls":97},`) {
		t.Errorf("of two days: %s", out)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, account := range []string{"acc_2", "acc_1"} {
		s.ok(t, "account", "set", account, "--plan", "starter")
		s.take(t, account, "currencies", 1)
		s.take(t, account, "batch", 5)
		s.take(t, account, "batch", 2)
	}
	s.Advance(10 * 24 * time.Hour) // the last day of November
	s.take(t, "acc_1", "convert", 3)
	s.Advance(24 * time.Hour)
	s.take(t, "acc_1", "convert", 4)
	s.take(t, "acc_2", "batch", 6)
	s.ok(t, "usage", "credit", "acc_2", "batch", "1")
	s.ok(t, "account", "delete", "acc_2")
	expect(t, s.ok(t, "usage", "credit", "acc_1", "convert", "2", "--day", "2126-11-30", "--reason", "outage", "--id", "x1"), `
ACCOUNT  ENDPOINT  DAY         ASKED  CALLED  CREDITED  ID
acc_1    convert   2126-11-30  2      3       2         x1
`)
	const head = "day,account,endpoint,calls,credited,label,plan,closed\n"
	const november = head + `2126-11-20,acc_1,batch,7,0,,starter,false
2126-11-20,acc_1,currencies,1,0,,starter,false
2126-11-30,acc_1,convert,3,2,,starter,false
2126-11-20,acc_2,batch,7,0,,starter,true
2126-11-20,acc_2,currencies,1,0,,starter,true
`
	if out := s.ok(t, "audit", "--account", "acc_2"); !strings.HasSuffix(out, `plan: starter -> -, called: batch 6`+"\n") {
		t.Errorf("the audit log of a closed account: %s", out)
	}
	expect(t, s.ok(t, "usage", "export", "--month", "2126-11"), november)
	expect(t, s.ok(t, "usage", "export", "--month", "2126-12", "--format", "json"), `
[
{"day":"2126-12-01","account":"acc_1","endpoint":"convert","calls":4,"credited":0,"label":"","plan":"starter","closed":false},
{"day":"2126-12-01","account":"acc_2","endpoint":"batch","calls":6,"credited":1,"label":"","plan":"starter","closed":true}
]
`)
	expect(t, s.ok(t, "usage", "export", "--month", "2126-10"), head)
	if out := s.ok(t, "usage", "export", "--month", "2126-10", "--json"); !json.Valid([]byte(out)) {
		t.Errorf("an empty month: %q", out)
	}
	if out := s.ok(t, "usage", "export", "--month", "2126-11", "--json", "--format", "csv"); out != november {
		t.Errorf("--format wins over --json: %q", out)
	}

	for _, label := range []string{"=1+1", "+1", "-1", "@A1"} { // a customer chose it
		s.ok(t, "account", "set", "acc_1", "--label="+label)
		for format, want := range map[string]string{"csv": `,'` + label + `,starter,`, "json": `"label":"` + label + `"`} {
			if out := s.ok(t, "usage", "export", "--month", "2126-12", "--format", format); !strings.Contains(out, want) {
				t.Errorf("a label that is a formula: %s", out)
			}
		}
	}
	s.ok(t, "account", "set", "acc_1", "--label", "")

	path := filepath.Join(t.TempDir(), "2126-11.csv")
	for range 2 { // also over an older file
		expect(t, s.ok(t, "usage", "export", "--month", "2126-11", "--output", path), "")
		if got, err := os.ReadFile(path); err != nil || string(got) != november {
			t.Errorf("got %v, %q", err, got)
		}
	}
	s.Break(errors.New("no store"))
	if _, _, err := s.run(t, "usage", "export", "--month", "2126-12", "--output", path); err == nil {
		t.Error("without a store: no error")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != november {
		t.Errorf("a failure changed the file: %v, %q", err, got)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) != 0 {
		t.Errorf("a failure left %v, %v", left, err)
	}
}

// TestCreditOfLess: a credit that gives less back than asked says so, also one of a
// closed account. One that gives nothing back fails.
func TestCreditOfLess(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "business", "--label", "Ada")
	s.take(t, "acc_1", "convert", 500)
	said := func(want string, args ...string) {
		t.Helper()
		out, complaints, err := s.run(t, append([]string{"usage", "credit"}, args...)...)
		if err != nil || complaints != want || !strings.Contains(out, "convert") {
			t.Errorf("got %v, %q and %q, want %q", err, out, complaints, want)
		}
	}
	said("", "Ada", "convert", "100", "--json")
	said("Gave back 400 of 9999 calls asked: no more calls of convert on 2126-11-20 were left to give back.\n", "Ada", "convert", "9999", "--json")
	for call, why := range map[string]string{"convert 1": "All 500 calls of convert on 2126-11-20 were given back before.", "convert 1 --day 2126-11-19": "The account has no calls of convert on 2126-11-19 that count."} {
		args := append([]string{"usage", "credit", "acc_1"}, strings.Fields(call)...)
		if out, complaints, err := s.run(t, args...); err == nil || out != "" || complaints != "Error: Nothing was given back. "+why+"\n" {
			t.Errorf("%s: got %v, %q and %q", call, err, out, complaints)
		}
	}
	s.take(t, "acc_1", "convert", 2)
	s.ok(t, "account", "delete", "acc_1")
	said("", "acc_1", "convert", "1", "--id", "one")
	said("Gave back 1 of 2 calls asked: no more calls of convert on 2126-11-20 were left to give back.\n", "acc_1", "convert", "2", "--id", "two")
	if _, complaints, err := s.run(t, "usage", "credit", "acc_2", "convert", "1"); err == nil || !strings.Contains(complaints, "there is no account with this id or label") {
		t.Errorf("no such account: got %v, %q", err, complaints)
	}
}

// TestExportInterrupted interrupts an export while it waits for the gate. It
// leaves no file. It is not parallel, because the signal is for the process.
func TestExportInterrupted(t *testing.T) {
	process, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tollgate/plans" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"plans":[],"endpoints":[],"timezone":"UTC","day":"2026-11-20"}`)
			return
		}
		if err := process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	defer gate.Close()
	dir := t.TempDir()
	var complaints strings.Builder
	root := &cobra.Command{Use: "tollgate", SilenceUsage: true}
	cli.Add(root, func(string) (*client.Client, error) { return client.New(gate.URL, "") }, feature.Commands)
	root.SetErr(&complaints)
	root.SetArgs([]string{"usage", "export", "--month", "2026-11", "--output", filepath.Join(dir, "month.csv")})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(complaints.String(), "terminated") {
		t.Errorf("got %v, %s", err, &complaints)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("an interrupted export left %v, %v", left, err)
	}
}

// TestLongExport exports a whole month of many accounts and endpoints: each has
// so many rows that it has a page of its own.
func TestLongExport(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	accounts := 10
	if storetest.Long() {
		accounts = 1000
	}
	const endpoints, days = 130, 30 // November
	first := s.Policy().Calendar.At(s.Now()).Day - 19
	var ids []string
	for n := range accounts {
		ids = append(ids, fmt.Sprintf("acc_%04d", n))
	}
	for some := range slices.Chunk(ids, store.MaxBatch) {
		_, errs := s.Opened().ChangeAccounts(t.Context(), some, func(_ int, account *store.Account, _ bool) error {
			account.Plan, account.Label = "starter", strings.Repeat("ä", store.MaxLabel)
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	var want int64
	for _, id := range ids {
		for n := range endpoints * days {
			call := store.Call{Account: id, Endpoint: fmt.Sprintf("endpoint_%03d", n%endpoints), Day: first + calendar.Day(n/endpoints), Cost: int64(n)}
			if _, err := s.Opened().Take(t.Context(), call, nil, nil); err != nil {
				t.Fatal(err)
			}
			want += call.Weight()
		}
	}
	urls := s.watch(t)
	rows, err := csv.NewReader(strings.NewReader(s.ok(t, "usage", "export", "--month", "2126-11"))).ReadAll()
	pages := strings.Count(fmt.Sprint(*urls), "/tollgate/usage/counts")
	if pages != accounts {
		t.Errorf("got %d pages, want %d", pages, accounts)
	}
	inOrder := slices.IsSortedFunc(rows[1:], func(a, b []string) int {
		return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0]), cmp.Compare(a[2], b[2]))
	})
	if err != nil || len(rows) != accounts*endpoints*days+1 || !inOrder {
		t.Fatalf("got %v, %d rows, want %d in order", err, len(rows), accounts*endpoints*days+1)
	}
	var got int64
	for _, row := range rows[1:] {
		calls, err := strconv.ParseInt(row[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got += calls
	}
	if got != want {
		t.Errorf("the rows have %d calls, want %d", got, want)
	}
}
