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
	"github.com/caddy-tollgate/tollgate/caddymodule/redis/redistest"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
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
}
