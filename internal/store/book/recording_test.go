package book_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/heaptest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// longCall is a call whose path is a part of a request line.
func longCall(account, key, line, path int) store.Record {
	text := strings.Repeat(string(rune('a'+key%26)), line)
	return store.Record{
		Account: fmt.Sprint("acc_", account), Key: fmt.Sprint("key_", key), KeyName: strings.Repeat("ü", 64),
		At: time.Now(), Endpoint: "convert", Method: "GET", Path: text[:path],
	}
}

// The threat: a client with a key sends long paths, or a long query after a
// short path, while the disk is slow.
//
// TestPendingCallsAreBounded: the calls that wait for the disk take the memory
// that docs/guarantees.md says.
func TestPendingCallsAreBounded(t *testing.T) {
	unflushed := func() *book.Book {
		b := gate(t, memstore.New())
		b.StopFlushing()
		return b
	}
	for name, path := range map[string]int{"long paths": 1 << 10, "long queries": 30} {
		heaptest.Holds(t, "calls of many keys, "+name, 10<<20, func() any {
			b := unflushed()
			for n := range 60_000 {
				b.Record(longCall(n/store.MaxLiveKeys, n%store.MaxLiveKeys, 1<<10, path))
			}
			return b
		})
	}
}

// hanging is an engine whose rows cannot be read until release is closed.
type hanging struct {
	book.Engine
	reading, release chan struct{}
}

func (h *hanging) GetRows(ctx context.Context, of book.Space, keys ...string) ([]book.Row, error) {
	h.reading <- struct{}{}
	<-h.release
	return h.Engine.GetRows(ctx, of, keys...)
}

// TestHangingFlushIsBounded: the calls that a flush writes while the store hangs
// and those that wait for it take no more memory than those that wait alone.
func TestHangingFlushIsBounded(t *testing.T) {
	const accounts = 40
	heaptest.Holds(t, "a flush and further calls", 10<<20, func() any {
		h := &hanging{Engine: memstore.New(), reading: make(chan struct{}), release: make(chan struct{})}
		b := gate(t, h)
		b.StopFlushing()
		var lists sync.WaitGroup
		t.Cleanup(func() {
			go func() {
				for range h.reading {
				}
			}()
			close(h.release)
			lists.Wait()
		})
		record := func() {
			for n := range accounts * 190 {
				b.Record(longCall(n%accounts, n, 1<<10, 1<<10))
			}
		}
		record()
		for account := range accounts {
			lists.Go(func() {
				if _, err := b.Recent(context.Background(), fmt.Sprint("acc_", account), time.Now()); err != nil {
					t.Error(err)
				}
			})
			<-h.reading
		}
		record()
		return b
	})
}

// TestManyCallsBetweenFlushes: an account keeps its last calls, whatever the
// number that one flush writes. At most half of them are refused ones.
func TestManyCallsBetweenFlushes(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		for _, calls := range []int{1, 49, 50, 51, 99, 100, 101, 199, 200, 201, 555} {
			account := fmt.Sprint("acc_", calls)
			b, _ := open(t, account)
			b.StopFlushing()
			b.Record(call(account, 0)) // written before
			wantCalls(t, b, account, 1)
			for n := range calls {
				r := call(account, n+1)
				if refused {
					r.Code = "quota_exceeded"
				}
				b.Record(r)
			}
			most := store.MaxRecent
			if refused {
				most = store.MaxRecentRefused + 1
			}
			want := min(calls+1, most)
			list, err := b.Recent(t.Context(), account, today)
			if err != nil || len(list) != want || list[0].Key != fmt.Sprint("key_", calls) || refused && list[want-1].Code != "" {
				t.Errorf("%d calls, refused %v: got %d, %v, want the last %d", calls, refused, len(list), err, want)
			}
		}
	}
}

// TestRecent: calls are listed newest first and without their address, for 30
// days. Of a long path, the beginning is kept, without a part of a character.
func TestRecent(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "acc_1")
	for _, i := range []int{3, 1, 2} {
		r := call("acc_1", i)
		r.Path = "/" + strings.Repeat("ü", i<<19)
		b.Record(r)
	}
	list, err := b.Recent(t.Context(), "acc_1", today)
	wantError(t, "reading", err, nil)
	for i, r := range list {
		want := call("acc_1", 3-i)
		want.Path, want.From = "/"+strings.Repeat("ü", (store.MaxPath-1)/2), r.From
		if r != want || r.From.IsValid() {
			t.Errorf("call %d: got %+v, want %+v", i, r, want)
		}
	}
	list, err = b.Recent(t.Context(), "acc_1", call("acc_1", 2).At.Add(store.RecentFor))
	if err != nil || len(list) != 2 {
		t.Errorf("got %d calls, %v, want those of 30 days", len(list), err)
	}
}

// TestLastUse: a key has its last use, also if a slow call ends later.
func TestLastUse(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "acc_1")
	wantError(t, "creating a key", b.ChangeOne(t.Context(), now, "acc_1", func(a *book.Account) error { return a.Create(key("ci", 0)) }), nil)
	for _, c := range [][2]int{{1, 1}, {9, 9}, {5, 9}, {20, 20}} { // the call, and the last use after it
		r := call("acc_1", c[0])
		if r.Key = "key_ci"; c[0] == 20 {
			r.From = r.From.Next()
		}
		b.Record(r)
		list, err := b.Keys(t.Context(), "acc_1")
		want := call("acc_1", c[1])
		if c[1] == 20 {
			want.From = want.From.Next()
		}
		if err != nil || len(list) != 1 || !list[0].LastUsedAt.Equal(want.At) || list[0].LastUsedFrom != want.From {
			t.Errorf("after call %d: got %+v, %v, want a use at %v from %v", c[0], list, err, want.At, want.From)
		}
	}
	_, err := b.Keys(t.Context(), "acc_unknown")
	wantError(t, "keys of an unknown account", err, store.ErrNotFound)
}
