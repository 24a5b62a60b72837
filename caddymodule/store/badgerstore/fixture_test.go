package badgerstore_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
)

// fixture is what an earlier version of the program answered from the
// directories in testdata. All its times are in the year 2100, so that
// nothing in them has expired.
type fixture struct {
	Accounts []store.Account
	Keys     map[string][]store.Key      // by account
	Counts   map[string]map[string]int64 // by account, then by day and endpoint
	Recent   map[string][]store.Record   // by account
	Attempts map[string][]byte           // by key, in hex
}

// fixtureTime is when the fixture was read.
var fixtureTime = time.Date(2100, 2, 1, 11, 0, 0, 0, time.UTC)

// TestFormat3 opens directories that an earlier version wrote: one that it
// closed, and one copied while it ran. Everything in them is still there,
// also after the store was closed and opened again.
func TestFormat3(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "format-3.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stopped", "killed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want fixture
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			unpack(t, filepath.Join("testdata", "format-3-"+name+".tar.gz"), dir)
			for range 3 {
				s := open(t, dir)
				want.check(t, s)
				want.checkGrants(t, s)
				want.takeCall(t, s)
				if err := s.Close(); err != nil {
					t.Fatalf("closing the store: %v", err)
				}
			}
		})
	}
}

// check compares everything that the store lists.
func (f *fixture) check(t *testing.T, s *badgerstore.Store) {
	t.Helper()
	accounts, err := s.ListAccounts(t.Context(), "", 100)
	if err != nil || !reflect.DeepEqual(accounts, f.Accounts) {
		t.Errorf("accounts: got %+v, %v, want %+v", accounts, err, f.Accounts)
	}
	for _, account := range f.Accounts {
		keys, err := s.ListKeys(t.Context(), account.ID)
		if err != nil || !reflect.DeepEqual(keys, f.Keys[account.ID]) {
			t.Errorf("keys of %s: got %+v, %v, want %+v", account.ID, keys, err, f.Keys[account.ID])
		}
		list, err := s.Counts(t.Context(), account.ID, "", fixtureDay()-90, fixtureDay())
		counts := map[string]int64{}
		for _, c := range list {
			counts[countName(c.Day, c.Endpoint)] = c.Used
		}
		if err != nil || !maps.Equal(counts, f.Counts[account.ID]) {
			t.Errorf("counts of %s: got %v, %v, want %v", account.ID, counts, err, f.Counts[account.ID])
		}
		recent, err := s.Recent(t.Context(), account.ID, fixtureTime)
		if err != nil || !slices.Equal(recent, f.Recent[account.ID]) {
			t.Errorf("recent calls of %s: got %d, %v, %+v\nwant %+v", account.ID, len(recent), err, recent, f.Recent[account.ID])
		}
	}
	attempts := map[string][]byte{}
	err = s.LoadAttempts(t.Context(), func(key, value []byte) error {
		attempts[hex.EncodeToString(key)] = bytes.Clone(value)
		return nil
	})
	if err != nil || !reflect.DeepEqual(attempts, f.Attempts) {
		t.Errorf("attempts: got %v, %v, want %v", attempts, err, f.Attempts)
	}
}

// checkGrants compares what each key grants: nothing if it was revoked or
// if its account is disabled.
func (f *fixture) checkGrants(t *testing.T, s *badgerstore.Store) {
	t.Helper()
	for _, account := range f.Accounts {
		for _, key := range f.Keys[account.ID] {
			want, wantErr := store.Grant{}, store.ErrNoGrant
			if key.Live(fixtureTime) && !account.Disabled {
				wantErr = nil
				want = store.Grant{
					Account: account.ID, Plan: account.Plan, Key: key.ID, KeyName: key.Name,
					Abilities: strings.Join(key.Abilities, " "),
				}
			}
			got, err := s.Grant(t.Context(), sha256.Sum256([]byte(key.ID)), fixtureTime)
			got.Handle = 0
			if !reflect.DeepEqual(got, want) || !errors.Is(err, wantErr) {
				t.Errorf("grant of %s: got %+v, %v, want %+v, %v", key.ID, got, err, want, wantErr)
			}
		}
	}
}

// takeCall takes one call: its counter continues from the stored count.
func (f *fixture) takeCall(t *testing.T, s *badgerstore.Store) {
	t.Helper()
	call := store.Call{Account: "alice", Endpoint: "convert", Day: fixtureDay()}
	name := countName(call.Day, call.Endpoint)
	f.Counts[call.Account][name]++
	used, admitted, err := badgerstore.TakeDaily(s, call, store.Unlimited)
	if want := f.Counts[call.Account][name]; used != want || !admitted || err != nil {
		t.Errorf("taking a call: got %d, %v, %v, want %d", used, admitted, err, want)
	}
}

func fixtureDay() calendar.Day {
	return calendar.Day(fixtureTime.Unix() / int64(24*time.Hour/time.Second))
}

func countName(day calendar.Day, endpoint string) string {
	return day.String() + " " + endpoint
}

// unpack extracts a tar archive, leaving holes where files have zeros.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && header.Typeflag != tar.TypeDir {
			err = writeFile(filepath.Join(dir, filepath.Base(header.Name)), files)
		}
		if err != nil {
			t.Fatalf("unpacking %s: %v", archive, err)
		}
	}
}
