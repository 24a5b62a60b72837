package badgerstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// cutAt is the message about a log of Badger that can be cut.
var cutAt = regexp.MustCompile(`store is damaged: (\S+\.mem): .*; its last complete transaction ends at byte (\d+) of \d+$`)

// TestCutAfterDamage flips a bit at many places of the logs and does what an
// operator is told: the store opens after a cut, or after the backup is
// restored. No cut leads to the message that asked for it.
func TestCutAfterDamage(t *testing.T) {
	t.Parallel()
	crashed, saved := halfSynced(t)
	ends := map[string]int{}
	flips := map[string]int{"*.mem": 4, "*.log": 1}
	if storetest.Long() {
		flips = map[string]int{"*.mem": 40, "*.log": 8}
	}
	for pattern, flips := range flips {
		data, err := os.ReadFile(find(t, crashed, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for n := range flips {
			at := content(data) * n / flips
			dir := t.TempDir()
			copyStore(t, crashed, dir)
			rewrite(t, find(t, dir, pattern), func(data []byte) []byte { data[at] ^= 0x10; return data })
			end, err := recovered(t, dir, saved)
			if err != nil {
				t.Errorf("byte %d of %s: %v", at, pattern, err)
			}
			ends[pattern+" "+end]++
		}
	}
	for _, end := range []string{"*.mem cut", "*.mem restored", "*.log restored"} {
		if ends[end] == 0 {
			t.Errorf("no flip ended with %q: %v", end, ends)
		}
	}
}

// halfSynced returns a store as a loss of power leaves it: the last rows of
// Badger's log are not confirmed in the log of counts. saved is a backup.
func halfSynced(t *testing.T) (crashed string, saved badgerstore.TestStore) {
	t.Helper()
	live, crashed := t.TempDir(), t.TempDir()
	s := open(t, live)
	for n := range 40 {
		account := store.Account{ID: fmt.Sprintf("acc_%d", n), Plan: "starter", CreatedAt: now}
		if _, err := storetest.PutAccount(t.Context(), s.Book, account); err != nil {
			t.Fatalf("filling: %v", err)
		}
	}
	copyStore(t, live, crashed)
	for n := range 40 {
		rows := make([]login.Row, 3)
		for i := range rows {
			rows[i] = login.Row{Key: fmt.Appendf(nil, "row%d%d", n, i), Value: make([]byte, 40), ExpiresAt: now.Add(time.Hour)}
		}
		if err := s.Save(t.Context(), rows); err != nil {
			t.Fatalf("filling: %v", err)
		}
	}
	mem := find(t, live, "*.mem")
	if err := copyFile(mem, filepath.Join(crashed, filepath.Base(mem))); err != nil {
		t.Fatal(err)
	}
	return crashed, s
}

// recovered cuts or restores until the store opens, and tells how that went.
func recovered(t *testing.T, dir string, saved badgerstore.TestStore) (end string, err error) {
	t.Helper()
	if err = opens(dir); err == nil {
		return "opened", nil
	}
	end = "restored"
	if match := cutAt.FindStringSubmatch(err.Error()); match != nil {
		size, _ := strconv.ParseInt(match[2], 10, 64)
		if err := os.Truncate(filepath.Join(dir, match[1]), size); err != nil {
			return "", err
		}
		if err = opens(dir); err == nil {
			return "cut", nil
		}
		if cutAt.MatchString(err.Error()) {
			return "", fmt.Errorf("after the cut at byte %d: %w", size, err)
		}
		if !strings.Contains(err.Error(), "changes of accounts, keys or usage are missing") {
			return "", fmt.Errorf("after the cut: %w", err)
		}
	}
	restored := t.TempDir()
	restore(t, restored, saved.Book)
	return end, opens(restored)
}

func opens(dir string) error {
	s, err := badgerstore.Open(dir, badgerstore.Options{})
	if err != nil {
		return err
	}
	return s.Close()
}
