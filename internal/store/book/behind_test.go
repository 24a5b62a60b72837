package book_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// today is a time of calls: engines delete old ones by the machine's clock.
var today = time.Now().UTC().Add(-2 * time.Hour)

// watched is an engine whose commits a test sees, delays or refuses.
type watched struct {
	book.Engine
	t *testing.T
	// before is called with the batches of a commit. An error is that of the
	// account of the batch.
	before func(book.Batch) error

	commits, batches atomic.Int64
}

func (w *watched) Commit(ctx context.Context, batches ...book.Batch) []error {
	w.commits.Add(1)
	errs, of := make([]error, len(batches)), map[[2]string]bool{}
	for i, b := range batches {
		w.batches.Add(1)
		if of[[2]string{b.Account, b.Name}] {
			w.t.Errorf("a commit has two batches of %+v", b.Space)
		}
		of[[2]string{b.Account, b.Name}] = true
		if errs[i] = ctx.Err(); errs[i] == nil && w.before != nil {
			errs[i] = w.before(b)
		}
		if errs[i] == nil {
			errs[i] = w.Engine.Commit(ctx, b)[0]
		}
	}
	return errs
}

// open returns a book on a watched engine, with accounts.
func open(t *testing.T, accounts ...string) (*book.Book, *watched) {
	t.Helper()
	w := &watched{Engine: memstore.New(), t: t}
	b := gate(t, w)
	for _, id := range accounts {
		wantError(t, "creating "+id, b.ChangeOne(t.Context(), now, id, func(a *book.Account) error { a.Exists = true; return nil }), nil)
	}
	return b, w
}

// gate returns another book on an engine.
func gate(t *testing.T, e book.Engine) *book.Book {
	b := book.New(e, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = b.Close() }) // tests of failures cannot write
	return b
}

// call returns the i-th call of an account, a second after the one before.
func call(account string, i int) store.Record {
	return store.Record{
		Account: account, Key: fmt.Sprint("key_", i), KeyName: "ci", At: today.Add(time.Duration(i) * time.Second), Endpoint: "convert",
		Method: "GET", Path: "/api/convert", Status: 200, From: netip.MustParseAddr("192.0.2.1"),
	}
}

// wantCalls checks how many recent calls an account has.
func wantCalls(t *testing.T, b *book.Book, account string, want int) {
	t.Helper()
	if list, err := b.Recent(t.Context(), account, today); err != nil || len(list) != want {
		t.Errorf("%s: got %d recent calls, %v, want %d", account, len(list), err, want)
	}
}

// TestListDuringSlowFlush: a list of the calls or keys of an account does not
// wait for the flush of others, but for that of its own calls.
func TestListDuringSlowFlush(t *testing.T) {
	t.Parallel()
	b, w := open(t, "acc_slow", "acc_1")
	writing, release := make(chan struct{}), make(chan struct{})
	w.before = func(batch book.Batch) error {
		if batch.Account == "acc_slow" {
			writing <- struct{}{}
			<-release
		}
		return nil
	}
	b.Record(call("acc_slow", 1))
	var lists sync.WaitGroup
	for range 2 {
		lists.Go(func() { wantCalls(t, b, "acc_slow", 1) })
	}
	<-writing
	b.Record(call("acc_1", 1))
	wantCalls(t, b, "acc_1", 1)
	_, err := b.Keys(t.Context(), "acc_1")
	wantError(t, "keys of another account", err, nil)
	close(release)
	lists.Wait()
}

// TestEndedRequest: a request that ends while it lists calls loses none.
func TestEndedRequest(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "acc_1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 10 {
		b.Record(call("acc_1", i))
		_, err := b.Recent(ctx, "acc_1", today)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		wantCalls(t, b, "acc_1", i+1)
	}
}

// TestFailuresOfOneAccount: an account whose rows cannot be read or written
// does not stop the others.
func TestFailuresOfOneAccount(t *testing.T) {
	t.Parallel()
	b, w := open(t, "acc_1", "acc_damaged", "acc_failing", "acc_z")
	damaged := book.Batch{Space: book.Space{Account: "acc_damaged"}, Writes: []book.Write{{Row: book.Row{Key: "calls", Value: []byte("?")}}}}
	wantError(t, "damaging a row", errors.Join(w.Engine.Commit(t.Context(), damaged)...), nil)
	errFailing := errors.New("failing")
	w.before = func(batch book.Batch) error {
		if batch.Account == "acc_failing" {
			return errFailing
		}
		return nil
	}
	for _, account := range []string{"acc_1", "acc_damaged", "acc_failing", "acc_z"} {
		b.Record(call(account, 1))
	}
	wantError(t, "closing", b.Close(), errFailing)
	other := gate(t, w.Engine)
	wantCalls(t, other, "acc_1", 1)
	wantCalls(t, other, "acc_z", 1)
	_, err := other.Recent(t.Context(), "acc_damaged", today)
	wantError(t, "calls of a damaged account", err, book.ErrDamaged)
}

// TestConflicts: two gates that write the calls of an account at the same time
// lose none, and no gate tries for ever.
func TestConflicts(t *testing.T) {
	t.Parallel()
	b, w := open(t, "acc_1")
	other := gate(t, w)
	var gates sync.WaitGroup
	for g, b := range []*book.Book{b, other} {
		gates.Go(func() {
			for i := range 20 {
				b.Record(call("acc_1", 100*g+i))
				if _, err := b.Recent(t.Context(), "acc_1", today); err != nil {
					t.Error(err)
				}
			}
		})
	}
	gates.Wait()
	wantCalls(t, b, "acc_1", 40)
	w.before = func(book.Batch) error { return book.ErrConflict }
	b.Record(call("acc_1", 1))
	_, err := b.Recent(t.Context(), "acc_1", today)
	wantError(t, "conflicts without end", err, book.ErrConflict)
}

// TestConflictOfOne: if another gate changes the rows of one account, only that
// account is written again. The calls of the others are listed once.
func TestConflictOfOne(t *testing.T) {
	t.Parallel()
	b, w := open(t, "acc_1", "acc_2")
	conflicts := 3
	w.before = func(batch book.Batch) error {
		if batch.Account == "acc_1" && conflicts > 0 {
			conflicts--
			return book.ErrConflict
		}
		return nil
	}
	b.Record(call("acc_1", 1))
	b.Record(call("acc_2", 1))
	wantError(t, "closing", b.Close(), nil)
	other := gate(t, w.Engine)
	wantCalls(t, other, "acc_1", 1)
	wantCalls(t, other, "acc_2", 1)
}

// TestFlushTogether: the calls of many accounts are one commit, also with those
// of two handles.
func TestFlushTogether(t *testing.T) {
	t.Parallel()
	var accounts []string
	for i := range 64 {
		accounts = append(accounts, fmt.Sprintf("acc_%02d", i))
	}
	b, w := open(t, accounts...)
	for i, id := range accounts {
		b.Record(call(id, i))
	}
	wantError(t, "closing", b.Close(), nil)
	if commits, batches := w.commits.Load(), w.batches.Load(); commits != 1 || batches != 64 {
		t.Errorf("got %d commits with %d batches, want 1 with 64", commits, batches)
	}

	b = gate(t, w)
	granted, err := b.GrantAccount(t.Context(), "acc_00", true)
	wantError(t, "grant", err, nil)
	for i := range 2 {
		r := call("acc_00", i)
		r.Handle = granted.Handle * store.Handle(i)
		b.Record(r)
	}
	wantCalls(t, b, "acc_00", 3)
}

// TestLastUsesAreBounded: an account whose clients log in all day does not
// grow, and its other keys keep their last use.
func TestLastUsesAreBounded(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "acc_1")
	wantError(t, "creating a key", b.ChangeOne(t.Context(), now, "acc_1", func(a *book.Account) error { return a.Create(key("kept", 0)) }), nil)
	use := call("acc_1", 0)
	use.Key = "key_kept"
	b.Record(use)
	for i := range 2000 {
		if b.Record(call("acc_1", i+1)); i%100 == 0 {
			_, err := b.Recent(t.Context(), "acc_1", today)
			wantError(t, "flush", err, nil)
		}
	}
	k, err := b.Key(t.Context(), "acc_1", "key_kept")
	wantError(t, "reading the key", err, nil)
	rows, err := b.GetRows(t.Context(), book.Space{Account: "acc_1"}, "uses")
	wantError(t, "reading the row", err, nil)
	if most := 20_000; len(rows[0].Value) > most || !k.LastUsedAt.Equal(use.At) || k.LastUsedFrom != use.From {
		t.Errorf("the last uses take %d bytes, want at most %d; the key was used at %v from %v", len(rows[0].Value), most, k.LastUsedAt, k.LastUsedFrom)
	}
}

// TestNullUses: a row of a backup without uses is as good as none.
func TestNullUses(t *testing.T) {
	t.Parallel()
	b, w := open(t, "acc_1")
	var p book.Piece
	wantError(t, "reading", p.UnmarshalJSON([]byte(`{"row":{"account":"acc_1","key":"uses","value":null}}`)), nil)
	null := book.Batch{Space: p.Space, Writes: []book.Write{{Row: *p.Row}}}
	wantError(t, "writing", errors.Join(w.Engine.Commit(t.Context(), null)...), nil)
	b.Record(call("acc_1", 1))
	wantCalls(t, b, "acc_1", 1)
}

// TestDeletedWhileWriting: a deletion waits until a flush of the account has
// ended, so that it does not write to the next account with the id.
func TestDeletedWhileWriting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, w := open(t, "acc_1")
		release := make(chan struct{})
		w.before = func(book.Batch) error { <-release; return nil }
		r := call("acc_1", 1)
		r.At = time.Now()
		b.Record(r)
		var running sync.WaitGroup
		running.Go(func() {
			_, err := b.Recent(t.Context(), "acc_1", r.At)
			wantError(t, "reading", err, nil)
		})
		synctest.Wait()
		running.Go(func() {
			for _, exists := range []bool{false, true} {
				err := b.ChangeOne(t.Context(), now, "acc_1", func(a *book.Account) error { a.Exists = exists; return nil })
				wantError(t, "changing the account", err, nil)
			}
		})
		synctest.Wait()
		close(release)
		running.Wait()
		if list, err := b.Recent(t.Context(), "acc_1", r.At); err != nil || len(list) > 0 {
			t.Errorf("the new account has calls of the deleted one: %+v, %v", list, err)
		}
		wantError(t, "closing", b.Close(), nil)
	})
}

// TestCallsDuringSlowFlush: calls that end during a slow flush are not dropped.
func TestCallsDuringSlowFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, w := open(t, "acc_1", "acc_2")
		release := make(chan struct{})
		w.before = func(book.Batch) error { <-release; return nil }
		r := call("acc_1", 0)
		r.At = time.Now()
		b.Record(r)
		time.Sleep(10 * time.Second) // of the bubble: the background flush begins
		const calls = 2000
		r.Account = "acc_2"
		for i := range calls {
			r.At = time.Now().Add(time.Duration(i))
			r.Key = fmt.Sprint("key_", i)
			b.Record(r)
		}
		close(release)
		rows, err := b.GetRows(t.Context(), book.Space{Account: "acc_2"}, "uses")
		if err != nil || rows[0].Value != nil {
			t.Errorf("calls were written during the flush: %v", err)
		}
		wantError(t, "closing", b.Close(), nil)
		p := book.Piece{Space: book.Space{Account: "acc_2"}, Row: &book.Row{Key: "calls"}}
		rows, err = b.GetRows(t.Context(), p.Space, "calls")
		wantError(t, "reading", err, nil)
		p.Row.Value = rows[0].Value
		value, err := p.Value()
		list, _ := value.(*[]store.Record)
		if err != nil || len(*list) != store.MaxRecent || (*list)[0].Key != fmt.Sprint("key_", calls-1) || (*list)[99].Key != fmt.Sprint("key_", calls-100) {
			t.Errorf("got %v, %v, want the last %d calls", value, err, store.MaxRecent)
		}
	})
}
