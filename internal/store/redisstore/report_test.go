package redisstore_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// TestSpacesExpire: the rows of a space expire with the last of them, and never
// if one has no end. Rows that expired before do not come back.
func TestSpacesExpire(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openReady(t, redisstore.Options{URL: server.URL()})
	end := time.Now().Add(48 * time.Hour).Truncate(time.Second)
	write := func(key string, expires time.Time) book.Write {
		return book.Write{Row: book.Row{Key: key, Value: []byte("value of " + key), Expires: expires}}
	}
	for name, of := range map[string]book.Space{"tollgate:s:{one}:": {Name: "one"}, "tollgate:{" + account + "}:s:": {Account: account}} {
		ends := func(what string, want int64) {
			t.Helper()
			for _, part := range []string{"i", "n", "x"} {
				if got := do(t, server, "PEXPIRETIME", name+part); got != want {
					t.Errorf("%s after %s expires at %v, want %v", name+part, what, got, want)
				}
			}
		}
		commit := func(writes ...book.Write) {
			t.Helper()
			check(t, s.Commit(t.Context(), book.Batch{Space: of, Writes: writes})[0])
		}
		commit(write("a", end.Add(-time.Hour)), write("b", end.Add(time.Nanosecond)), write("c", end.Add(-2*time.Hour)))
		ends("a commit", end.UnixMilli()+1)
		commit(write("b", end))
		ends("a shorter row", end.UnixMilli())
		commit(write("d", time.Time{}))
		ends("a row without end", -1)
		commit(write("b", time.Now().Add(-time.Second)), book.Write{Row: book.Row{Key: "d"}})
		ends("a deletion", end.Add(-time.Hour).UnixMilli())
		found, err := s.Scan(t.Context(), 2, book.Range{Space: of})
		check(t, err)
		if len(found[0]) != 2 || found[0][0].Key != "a" || found[0][1].Key != "c" || !found[0][0].Expires.Equal(end.Add(-time.Hour)) {
			t.Errorf("got the rows %+v", found)
		}
		commit(write("e", end)) // deletes what has expired
		if fields := do(t, server, "HKEYS", name+"n").([]any); len(fields) != 3 || slices.Contains(fields, any("b")) {
			t.Errorf("the space has %v", fields)
		}
		commit(book.Write{Row: book.Row{Key: "a"}}, book.Write{Row: book.Row{Key: "c"}}, book.Write{Row: book.Row{Key: "e"}})
		if left := keysOf(t, server, strings.ReplaceAll(name, "{", "\\{")+"*"); len(left) > 0 {
			t.Errorf("an empty space has %v", left)
		}
	}
}

// TestScanOfExpired: rows that have expired and are not yet deleted are not
// listed, and hide none behind them.
func TestScanOfExpired(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStore(t, redisstore.Options{URL: server.URL()})
	of := book.Space{Name: "one"}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		check(t, s.Commit(t.Context(), book.Batch{Space: of, Writes: []book.Write{{Row: book.Row{Key: key, Value: []byte(key), Expires: time.Now().Add(time.Hour)}}}})[0])
	}
	for _, key := range []string{"a", "b", "d"} {
		do(t, server, "ZADD", "tollgate:s:{one}:x", "1", key)
	}
	for limit, want := range []string{"", "c", "ce", "ce"} {
		found, err := s.Scan(t.Context(), limit, book.Range{Space: of}, book.Range{Space: book.Space{Name: "two"}})
		check(t, err)
		got := ""
		for _, row := range found[0] {
			got += row.Key
		}
		if got != want || len(found) != 2 || len(found[1]) != 0 {
			t.Errorf("up to %d rows: got %q and %v, want %q", limit, got, found, want)
		}
	}
	err := s.Commit(t.Context(), book.Batch{Space: of, Writes: []book.Write{{Row: book.Row{Key: "a", Value: []byte("new")}, Check: true, Old: []byte("a")}}})[0]
	if err != book.ErrConflict {
		t.Errorf("a write that expects an expired row: got %v", err)
	}
	check(t, s.Commit(t.Context(), book.Batch{Space: of, Writes: []book.Write{{Row: book.Row{Key: "a", Value: []byte("new")}, Check: true}}})[0])
}

// TestCommitted: each call that the server answers is reported.
func TestCommitted(t *testing.T) {
	t.Parallel()
	var reported atomic.Int64
	s := openStore(t, redisstore.Options{URL: redistest.Start(t).URL(), Committed: func(took time.Duration, calls int) {
		reported.Add(int64(calls))
		if took <= 0 {
			t.Errorf("a call took %v", took)
		}
	}})
	check(t, put(t, s, account))
	for range 3 {
		check(t, takeOne(t, s))
	}
	if got := reported.Load(); got != 3 {
		t.Errorf("%d calls were reported, want 3", got)
	}
}
