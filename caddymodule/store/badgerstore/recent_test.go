package badgerstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// TestRecordsWaitInBounds: however much is recorded between two flushes,
// an account's list has its last calls and no more waits than may.
func TestRecordsWaitInBounds(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	r := newRecorder(s) // one that nobody flushes behind the test's back
	now := time.Now()
	add := func(account string, n int, path string) {
		if n%ringSize == 0 {
			r.file()
		}
		r.add(&store.Record{Account: account, Key: fmt.Sprint("key_", n%3), At: now.Add(time.Duration(n)), Endpoint: "convert", Path: path, Status: n})
	}
	for _, calls := range []int{1, 99, 100, 101, 199, 200, 201, 555} {
		account := fmt.Sprint("acc_", calls)
		for n := range calls {
			add(account, n, "/")
		}
		r.file()
		w := r.waiting[account]
		list := w.recent()
		got, err := list.decode(account)
		if want := min(calls, store.MaxRecent); err != nil || len(got) != want || got[0].Status != calls-want || got[want-1].Status != calls-1 {
			t.Errorf("%d calls: got %d from %d on, %v, want the last %d", calls, len(got), got[0].Status, err, want)
		}
		if w.last != now.Add(time.Duration(calls-1)) || len(w.keys) != min(calls, 3) {
			t.Errorf("%d calls: last %v, keys %v", calls, w.last, w.keys)
		}
	}
	if err := r.flush(); err != nil || r.size != 0 {
		t.Errorf("flushing: %v, %d bytes wait", err, r.size)
	}
	path := strings.Repeat("p", maxPath)
	for n := range 3 * maxWaiting / maxPath {
		add(fmt.Sprint("many_", n%1000), n, path)
	}
	if much := r.file(); !much {
		t.Errorf("nobody was told that much waits")
	}
	size := 0
	for _, w := range r.waiting {
		size += w.size()
	}
	if most := maxWaiting + 2*maxPath; size != r.size || size > most {
		t.Errorf("%d bytes wait, counted as %d, want at most %d", size, r.size, most)
	}
}

// TestRecordWaitsForNobody: while the disk is busy calls are recorded, up
// to what there is room for.
func TestRecordWaitsForNobody(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	r := newRecorder(s)
	r.flushing.Lock()
	r.filing.Lock()
	for n := range 2 * ringSize {
		r.add(&store.Record{Account: "acc_1", At: time.Now(), Status: n})
	}
	r.filing.Unlock()
	r.flushing.Unlock()
	select {
	case <-r.wake:
	default:
		t.Errorf("nobody was told that there is much to file")
	}
	r.file()
	list := r.waiting["acc_1"].recent()
	if calls, err := list.decode("acc_1"); err != nil || len(calls) != store.MaxRecent || calls[store.MaxRecent-1].Status != ringSize-1 {
		t.Errorf("got %d calls, %v", len(calls), err)
	}
}

// TestUnreadableCalls: calls of one account that cannot be read any more
// are in nobody else's way.
func TestUnreadableCalls(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	now := time.Now()
	for _, account := range []string{"well", "ill"} {
		if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: account, Plan: "starter"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.archive.writeDurably(nil, change{key: recentKey("ill", 0), value: []byte{packedSlot, 0xff}}); err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"well", "ill"} {
		s.Record(store.Record{Account: account, At: now, Endpoint: "convert", Path: "/"})
	}
	if list, err := s.Recent(t.Context(), "well", now); len(list) != 1 || err != nil {
		t.Errorf("got %d calls, %v, want one", len(list), err)
	}
	if list, err := s.Recent(t.Context(), "ill", now); !errors.Is(err, errCorrupt) {
		t.Errorf("unreadable: got %d calls, %v, want %v", len(list), err, errCorrupt)
	}
}

// TestFullListsAreWrittenSeldom: of an account that goes on calling, the
// calls that would be outdated at once are not written each time; nobody
// who asks misses any.
func TestFullListsAreWrittenSeldom(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	for _, account := range []string{"few", "many", "gone"} {
		if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: account, Plan: "starter"}); err != nil {
			t.Fatal(err)
		}
	}
	r := newRecorder(s) // one that nobody flushes behind the test's back
	now := time.Now()
	call := func(account string, n int) {
		for i := range n {
			r.add(&store.Record{Account: account, At: now, Endpoint: "convert", Path: "/", Status: i})
		}
		r.file()
	}
	written := func(account string) int {
		slots, err := s.slots(account)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, slot := range slots {
			n += slot.calls.n
		}
		return n
	}
	const full = 2 * store.MaxRecent
	call("few", store.MaxRecent)
	for flush := range int(flushFullEvery / flushEvery) {
		if got := written("many"); got != 0 {
			t.Fatalf("%d calls of a full list were written after %d flushes", got, flush)
		}
		call("many", full)
		if err := r.flushDue(); err != nil {
			t.Fatal(err)
		}
		if got := written("few"); got != store.MaxRecent {
			t.Fatalf("%d calls of a list that is not full were written", got)
		}
	}
	if got := written("many"); got != store.MaxRecent || r.size != 0 {
		t.Errorf("%d calls of the full list were written at last, %d bytes wait", got, r.size)
	}

	call("many", full)
	call("gone", full)
	if err := r.remove("gone", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := r.waiting["many"].size(); got != r.size || len(r.waiting) != 1 {
		t.Errorf("%d bytes wait, want those of the account that is left, %d", r.size, got)
	}
	if err := r.flush(); err != nil || r.size != 0 || written("many") <= store.MaxRecent {
		t.Errorf("%d calls were written when all were asked for, %v, %d bytes wait", written("many"), err, r.size)
	}
}
