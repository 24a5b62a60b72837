package e2e_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// restoreInto restores a backup to the store of a Caddyfile.
func restoreInto(t *testing.T, s *stack.Stack, file, caddyfile string) error {
	t.Helper()
	config := filepath.Join(t.TempDir(), "Caddyfile")
	must(t, os.WriteFile(config, []byte(caddyfile), 0o600))
	_, err := s.Try("caddy", "", "tollgate", "restore", file, "--config", config, "--adapter", "caddyfile")
	return err
}

// fraction is the part of a second until which a row is kept. Badger keeps
// whole seconds.
var fraction = regexp.MustCompile(`("expires":"[^".]*)\.\d+Z"`)

// rows returns the rows of a backup, without what differs between two backups
// of one state.
func rows(t *testing.T, file string) []string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(fraction.ReplaceAllString(unzip(t, file), `${1}Z"`)), "\n")
	lines = lines[1 : len(lines)-1] // the head and the checksum
	// StartCaddy makes requests that are refused.
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, `\u0000usage\u0000unauthenticated"`) })
	slices.Sort(lines)
	return lines
}

// unzip returns the text of a backup.
func unzip(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	text, err := gzip.NewReader(file)
	must(t, err)
	all, err := io.ReadAll(text)
	must(t, err)
	return string(all)
}

// TestBackup backs up a gate under load. The file holds each call that was
// answered before, and a gate with the restored store goes on from it.
func TestBackup(t *testing.T) {
	t.Parallel()
	shipped := stack.Shipped(t)
	s := stack.Start(t, shipped)
	account := newAccount(t, s, "backup@example.com", "business")
	key := newKey(t, s, account, "k")
	control, err := client.New(s.Control(), stack.Secret)
	must(t, err)
	_, err = control.PutAccount(t.Context(), "acc_2", api.AccountChange{Plan: new("starter"), Label: new("Ada Lovelace")})
	must(t, err)
	revoked := newKey(t, s, "acc_2", "revoked")
	file := filepath.Join(t.TempDir(), "gate.backup")
	stop := make(chan struct{})
	counts := load(s, key.Token, 4, stop)
	for used(t, s, account, "rates") < 50 {
		continue
	}
	before := used(t, s, account, "rates")
	s.Tollgate("backup", file)
	close(stop)
	if failed := counts(); failed[http.StatusOK] == 0 || len(failed) != 1 {
		t.Errorf("calls during the backup got %v", failed)
	}
	s.Tollgate("key", "revoke", "acc_2", revoked.ID)

	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v, want mode 0600", info, err)
	}
	if text := unzip(t, file); strings.Contains(text, key.Token) || strings.Contains(text, stack.Secret) || !strings.Contains(text, "Ada Lovelace") {
		t.Error("the backup has a token or the secret, or it lacks a label")
	}
	if _, err := s.Try("caddy", "", "tollgate", "backup", file); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a second backup to the same file: got %v", err)
	}
	keepBackups(t, s, file)
	for name, url := range map[string]string{"listener": s.Control(), "site": s.Address} {
		if response, err := http.Get(url + "/tollgate/backup"); err != nil || response.StatusCode == http.StatusOK {
			t.Errorf("the %s answers a request for a backup with %v, %v", name, response, err)
		}
	}
	if err := restoreInto(t, s, file, shipped); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("restoring to a store in use: got %v", err)
	}
	s.StopCaddy()
	if err := restoreInto(t, s, file, shipped); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("restoring to a store with data: got %v", err)
	}
	must(t, os.Rename(filepath.Join(s.Data, "gate"), filepath.Join(s.Data, "gate.old")))
	damaged := filepath.Join(t.TempDir(), "damaged.backup")
	content, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(damaged, content[:len(content)-20], 0o600))
	if err := restoreInto(t, s, damaged, shipped); err == nil {
		t.Error("a damaged file was restored")
	}
	must(t, restoreInto(t, s, file, shipped))
	s.StartCaddy()
	if after := used(t, s, account, "rates"); after < before {
		t.Errorf("the restored gate counts %d calls, but %d were answered before the backup", after, before)
	}
	// The revocation came after the backup.
	for _, token := range []string{key.Token, revoked.Token} {
		if response, body := s.Call("GET", ratesPath, token, nil); response.StatusCode != http.StatusOK {
			t.Errorf("a key of the backup got %d %s", response.StatusCode, body)
		}
	}
}

// keepBackups writes a dated backup beside others. The newest ones of that name
// remain, and all files that are something else.
func keepBackups(t *testing.T, s *stack.Stack, complete string) {
	t.Helper()
	content, err := os.ReadFile(complete)
	must(t, err)
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"gate-2026-11-18.backup":         content[:len(content)-1],
		"gate-2026-11-19T030000Z.backup": content,
		"gate-2026-11-20.backup":         content,
		"gate-2026-11-21.backup":         content,
		"gate-2026-11-18.backup.1.part":  content,
		"other-2026-11-18.backup":        content,
		"gate-2026-11-18.db":             content,
		"gate.backup":                    content,
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	s.Tollgate("backup", filepath.Join(dir, "gate-2026-11-22.backup"), "--keep", "2")
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	want := []string{
		"gate-2026-11-18.backup", "gate-2026-11-18.backup.1.part", "gate-2026-11-18.db", "gate-2026-11-21.backup", "gate-2026-11-22.backup",
		"gate.backup", "other-2026-11-18.backup",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the directory has %q, want %q", got, want)
	}
	// The new backup remains, whatever the clock was before.
	s.Tollgate("backup", filepath.Join(dir, "gate-2026-11-17.backup"), "--keep", "1")
	if files, err := filepath.Glob(filepath.Join(dir, "gate-2026-11-*.backup")); err != nil || !slices.Equal(files, []string{filepath.Join(dir, "gate-2026-11-17.backup"), filepath.Join(dir, "gate-2026-11-18.backup")}) {
		t.Errorf("the directory has %q (%v), want the new backup and the incomplete one", files, err)
	}
	for _, args := range [][]string{{"gate.backup", "--keep", "1"}, {"gate-2026-11-24.backup", "--keep", "0"}} {
		if _, err := s.Try("caddy", "", append([]string{"tollgate", "backup"}, args...)...); err == nil || !strings.Contains(err.Error(), "exit status 2") {
			t.Errorf("backup %q: got %v, want exit status 2", args, err)
		}
	}
}

// TestMoveBetweenStores moves a gate from badger to redis and back. The state
// is the same.
func TestMoveBetweenStores(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	inRedis := stack.Shipped(t, "store badger \"{$TOLLGATE_DATA:./data}/gate\"", "store redis "+server.URL())
	s := stack.Start(t, stack.Shipped(t))
	account := newAccount(t, s, "move@example.com", "starter")
	key := newKey(t, s, account, "k")
	s.Tollgate("limit", "set", account, "convert", "7", "--period", "month", "--reason", "trial")
	for range 3 {
		s.Call("GET", ratesPath, key.Token, nil)
		s.Call("GET", "/api/nothing", key.Token, nil)
	}
	bills := newBills(t, s)
	dir := t.TempDir()
	file := func(n int) string { return filepath.Join(dir, fmt.Sprintf("%d.backup", n)) }
	s.Tollgate("backup", file(1))
	if text := unzip(t, file(1)); !strings.Contains(text, `"key":"\u0000\u0000not_found","value":3`) {
		t.Errorf("the backup has no calls that were refused just before it:\n%s", text)
	}
	s.StopCaddy()
	must(t, restoreInto(t, s, file(1), inRedis))
	s.Configure(inRedis)
	s.StartCaddy()
	// The gate connects in the background.
	eventually(t, "redis", func() error {
		_, err := s.Try("caddy", "", "tollgate", "health")
		return err
	})
	if response, body := s.Call("GET", ratesPath, key.Token, nil); response.StatusCode != http.StatusOK || !strings.Contains(response.Header.Get("RateLimit"), "r=996") {
		t.Errorf("a call on redis got %d %s %v", response.StatusCode, body, response.Header)
	}
	bills.check("redis")
	s.Tollgate("backup", file(2))
	s.StopCaddy()
	must(t, os.RemoveAll(filepath.Join(s.Data, "gate")))
	must(t, restoreInto(t, s, file(2), stack.Shipped(t)))
	s.Configure(stack.Shipped(t))
	s.StartCaddy()
	s.Tollgate("backup", file(3))
	if got, want := strings.Join(rows(t, file(3)), "\n"), strings.Join(rows(t, file(2)), "\n"); got != want {
		t.Errorf("the state differs after the move from redis to badger:\n%s\n\n%s", want, got)
	}
	if response, _ := s.Call("GET", ratesPath, key.Token, nil); response.StatusCode != http.StatusOK || !strings.Contains(response.Header.Get("RateLimit"), "r=995") {
		t.Errorf("a call on badger got %d %v", response.StatusCode, response.Header)
	}
	bills.check("badger")
}

// bills is a month of accounts that are closed, credited, reset and moved to
// another plan, and what it has to export.
type bills struct {
	t        *testing.T
	s        *stack.Stack
	answered map[string]int64 // calls by account and whether it is closed
	credited map[string]int64 // the same
}

func newBills(t *testing.T, s *stack.Stack) *bills {
	t.Helper()
	b := &bills{t, s, map[string]int64{}, map[string]int64{}}
	for n := range 6 {
		s.Tollgate("account", "set", fmt.Sprintf("bill_%d", n), "--plan", "starter")
		b.call(fmt.Sprintf("bill_%d", n), int64(n+2))
	}
	// The plan of 0 allows 100 calls a day of currencies: all are used, 40 come back.
	b.call("bill_0", 98)
	b.refused("bill_0")
	for range 2 { // once, as it has an id
		s.Tollgate("usage", "credit", "bill_0", "currencies", "40", "--reason", "outage", "--id", "ticket-1")
	}
	b.credited["bill_0 false"] = 40
	b.call("bill_0", 40)
	b.refused("bill_0")
	s.Tollgate("usage", "credit", "bill_1", "currencies", "1")
	b.credited["bill_1 false"] = 1
	s.Tollgate("usage", "reset", "bill_2", "--reason", "gift")
	b.credited["bill_2 false"] = b.answered["bill_2 false"]
	s.Tollgate("account", "set", "bill_2", "--plan", "business")
	b.call("bill_2", 3)
	for _, account := range []string{"bill_1", "bill_3", "bill_4"} {
		s.Tollgate("account", "delete", account)
		for _, of := range []map[string]int64{b.answered, b.credited} {
			if calls, found := of[account+" false"]; found {
				of[account+" true"] = calls
				delete(of, account+" false")
			}
		}
	}
	s.Tollgate("account", "set", "bill_3", "--plan", "starter") // another customer
	b.call("bill_3", 100)
	b.refused("bill_3")
	b.check("at first")
	return b
}

// call makes calls that are answered.
func (b *bills) call(account string, calls int64) {
	b.t.Helper()
	key := newKey(b.t, b.s, account, fmt.Sprint("key ", b.answered[account+" false"]))
	for range calls {
		if response, body := b.s.Call("GET", "/api/currencies", key.Token, nil); response.StatusCode != http.StatusOK {
			b.t.Fatalf("a call of %s got %d %s", account, response.StatusCode, body)
		}
	}
	b.answered[account+" false"] += calls
}

// refused makes a call that must be refused.
func (b *bills) refused(account string) {
	b.t.Helper()
	key := newKey(b.t, b.s, account, "refused "+fmt.Sprint(b.answered[account+" false"]))
	if response, _ := b.s.Call("GET", "/api/currencies", key.Token, nil); response.StatusCode != http.StatusTooManyRequests {
		b.t.Errorf("a call of %s above the limit got %d", account, response.StatusCode)
	}
}

// check compares the export with the calls that were answered. Each credit has an
// entry in the audit log.
func (b *bills) check(when string) {
	b.t.Helper()
	month := decode[api.UsageDocument](b.t, b.s.Tollgate("usage", "show", "bill_0", "--json")).Day[:len("2026-11")]
	answered, credited, explained := map[string]int64{}, map[string]int64{}, int64(0)
	for _, row := range decode[[]api.UsageCount](b.t, b.s.Tollgate("usage", "export", "--month", month, "--format", "json")) {
		if !strings.HasPrefix(row.Account, "bill_") {
			continue
		}
		holder := fmt.Sprint(row.Account, " ", row.Closed)
		answered[holder] += row.Calls
		if row.Credited > 0 {
			credited[holder] += row.Credited
			explained += row.Credited
		}
	}
	if fmt.Sprint(answered) != fmt.Sprint(b.answered) || fmt.Sprint(credited) != fmt.Sprint(b.credited) {
		b.t.Errorf("%s: exported %v and credits of %v, want %v and %v", when, answered, credited, b.answered, b.credited)
	}
	for _, entry := range decode[api.AuditPage](b.t, b.s.Tollgate("audit", "--json")).Audit {
		if entry.Action == api.UsageCredit || entry.Action == api.UsageReset {
			explained -= decode[api.Credit](b.t, string(entry.After)).Credited
		}
	}
	if explained != 0 {
		b.t.Errorf("%s: the audit log explains %d credited calls too few", when, explained)
	}
}
