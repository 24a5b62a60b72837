package badgerstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// moveQueue moves the queue to the accounts and flushes nothing.
func (r *recorder) moveQueue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain()
}

// TestPendingIsBounded records many calls between two flushes: an account
// keeps its last calls.
func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	r := newRecorder(s) // without a background flush
	now := time.Now()
	add := func(account string, n int, path string) {
		r.add(&store.Record{Account: account, Key: fmt.Sprint("key_", n%3), At: now.Add(time.Duration(n)), Endpoint: "convert", Path: path, Status: n})
		if len(r.queue) == queueSize {
			r.moveQueue()
		}
	}
	for _, calls := range []int{1, 99, 100, 101, 125, 126, 200, 555} {
		account := fmt.Sprint("acc_", calls)
		for n := range calls {
			add(account, n, "/")
		}
		r.moveQueue()
		p := r.pending[account]
		rows, err := p.rows(account, s.archive.scan)
		if err != nil {
			t.Fatal(err)
		}
		var list []store.Record
		for _, row := range rows {
			slot, err := decodeSlot(row.value)
			calls, failed := slot.calls.decode(account)
			if list = append(list, calls...); err != nil || failed != nil {
				t.Fatal(err, failed)
			}
		}
		want := min(calls, store.MaxRecent)
		if len(list) != want || list[0].Status != calls-want || list[want-1].Status != calls-1 {
			t.Errorf("%d calls: got %d, from %d to %d, want the last %d", calls, len(list), list[0].Status, list[len(list)-1].Status, want)
		}
		if got := rows[0].expires; got.Before(now.Add(store.RecentFor)) || len(p.used) != min(calls, 3) {
			t.Errorf("%d calls: the row expires at %v, keys %v", calls, got, p.used)
		}
	}
	if err := r.flush(); err != nil || r.size != 0 || len(r.pending) != 0 {
		t.Errorf("after a flush: %v, %d bytes of %d accounts are pending", err, r.size, len(r.pending))
	}
}

// TestRecordNeverBlocks records while a flush waits for the disk: calls
// queue up, and those beyond the queue are dropped. Recording allocates
// nothing.
func TestRecordNeverBlocks(t *testing.T) {
	s := openHere(t, t.TempDir(), Options{})
	r := newRecorder(s)
	record := store.Record{Account: "acc_1", At: time.Now()}
	r.mu.Lock()
	allocs := testing.AllocsPerRun(2*queueSize, func() {
		r.add(&record)
		record.Status++
	})
	r.mu.Unlock()
	if allocs != 0 {
		t.Errorf("recording a call takes %v allocations", allocs)
	}
	select {
	case <-r.wake:
	default:
		t.Errorf("the background was not told that the queue is filling")
	}
	r.moveQueue()
	list, err := r.pending["acc_1"].lists[admittedCalls].calls.decode("acc_1")
	if err != nil || list[len(list)-1].Status != queueSize-1 {
		t.Errorf("got %d calls, %v, want the first %d recorded", len(list), err, queueSize)
	}
}

// TestRecordDuringFlush records more calls during a flush than the queue has
// room for: none is lost.
func TestRecordDuringFlush(t *testing.T) {
	t.Parallel()
	const accounts = 8 * flushRows
	s := openHere(t, t.TempDir(), Options{})
	r := newRecorder(s)
	record := func(i int) {
		r.add(&store.Record{Account: fmt.Sprint("acc_", i), At: time.Now(), Endpoint: "convert"})
	}
	for i := range accounts {
		s.ledger.PutAccount(&store.Account{ID: fmt.Sprint("acc_", i), Plan: "starter"})
		if record(i); i%flushRows == 0 {
			r.moveQueue()
		}
	}
	r.moveQueue()
	during := 0
	s.archive.mu.Lock()
	checkDisk := s.archive.checkDisk
	s.archive.checkDisk = func() error { // before each of the writes
		for range flushRows {
			record(during)
			during++
		}
		return checkDisk()
	}
	s.archive.mu.Unlock()
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	if r.moveQueue(); during <= queueSize || len(r.pending) != during {
		t.Errorf("%d of %d calls that were recorded during a flush are pending", len(r.pending), during)
	}
}

// TestUnreadableRows damages the calls of one account and the last use of a key
// of another: they do not stop the flush of others.
func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	now, accounts := time.Now(), []string{"damaged", "a", "unused", "z"}
	for _, account := range accounts {
		if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: account, Plan: "starter"}); err != nil {
			t.Fatal(err)
		}
	}
	err := s.archive.writeDurably(nil, change{key: recentKey("damaged", 0), value: []byte{rowVersion, 0xff}},
		change{key: usedKey("key_unused"), value: []byte{rowVersion}})
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range accounts {
		s.Record(store.Record{Account: account, Key: "key_" + account, At: now, Endpoint: "convert", Path: "/"})
	}
	if err := s.recent.flush(); err != nil {
		t.Errorf("flushing: %v", err)
	}
	for _, account := range []string{"a", "z"} {
		if list, err := s.Recent(t.Context(), account, now); len(list) != 1 || err != nil {
			t.Errorf("%s: got %d calls, %v, want one", account, len(list), err)
		}
	}
	if list, err := s.Recent(t.Context(), "damaged", now); !errors.Is(err, errCorrupt) {
		t.Errorf("damaged: got %d calls, %v, want %v", len(list), err, errCorrupt)
	}
}
