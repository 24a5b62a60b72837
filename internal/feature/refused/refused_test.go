package refused_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature/refused"
	"github.com/caddy-tollgate/tollgate/internal/heaptest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

func newRefused(t *testing.T, to book.Engine) (r *refused.Refused, dropped *atomic.Int64) {
	t.Helper()
	dropped = new(atomic.Int64)
	r = refused.NewRefused(refused.Options{Engine: to, Dropped: func(n int64) { dropped.Add(n) }, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(r.Close)
	return r, dropped
}

// open returns an empty store.
func open(t *testing.T) *book.Book {
	t.Helper()
	b := book.New(memstore.New(), slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// today is a day that the store keeps, also in a test of synctest.
func today() calendar.Day { return calendar.UTCDay(time.Now()) }

func list(t *testing.T, s *book.Book) []store.Refused {
	t.Helper()
	rows, err := s.ListRefused(t.Context(), "", 0, 30000, store.Refused{}, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestFlush: the store has all calls that were added before.
func TestFlush(t *testing.T) {
	t.Parallel()
	s := open(t)
	r, _ := newRefused(t, s.Engine)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				r.Add(store.Refused{Day: today(), Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 1})
				r.Add(store.Refused{Day: today(), Code: "not_found", Calls: 1})
			}
			if err := r.Flush(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	want := []store.Refused{
		{Day: today(), Code: "not_found", Calls: 800}, {Day: today(), Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 800},
	}
	if got := list(t, s); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFlushBehind: the store gets the calls also without a Flush.
func TestFlushBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		r, _ := newRefused(t, s.Engine)
		r.Add(store.Refused{Day: today(), Code: "not_found", Calls: 1})
		time.Sleep(refused.Every)
		synctest.Wait()
		if len(list(t, s)) != 1 {
			t.Error("the store got nothing")
		}
	})
}

// TestBound: calls of more accounts than fit count without an account and a
// reason.
func TestBound(t *testing.T) {
	t.Parallel()
	s := open(t)
	r, _ := newRefused(t, s.Engine)
	for i := range refused.MaxRows + 3 {
		reason := []store.NoGrant{store.Revoked, store.Expired, store.Disabled}[i%3]
		r.Add(store.Refused{Day: today(), Account: strconv.Itoa(i), Code: "invalid_token", Reason: string(reason), Calls: 1})
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := list(t, s); len(rows) != refused.MaxRows+1 || rows[0].Account != "" || rows[0].Calls != 3 {
		t.Errorf("got %d rows, the first is %v", len(rows), rows[0])
	}
}

// TestRefusedAreBounded: however many accounts are refused while the store
// fails, their rows take the memory that docs/guarantees.md says.
func TestRefusedAreBounded(t *testing.T) {
	heaptest.Holds(t, "refused calls", 4<<20, func() any {
		s := &away{Engine: open(t).Engine}
		r, _ := newRefused(t, s)
		for i := range 2 * refused.MaxRows {
			r.Add(store.Refused{Day: today(), Account: fmt.Sprintf("acc_%060d", i), Endpoint: "convert", Code: "quota_exceeded", Calls: 1})
		}
		return r
	})
}

// away is an engine that fails after some commits.
type away struct {
	book.Engine
	works atomic.Int64
}

func (a *away) Commit(ctx context.Context, batches ...book.Batch) []error {
	if a.works.Add(-1) < 0 {
		return slices.Repeat([]error{store.ErrUnavailable}, len(batches))
	}
	return a.Engine.Commit(ctx, batches...)
}

// TestRetriedIsNoError: calls that the store takes at a later try are a warning.
// Those that are lost are an error.
func TestRetriedIsNoError(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := &away{Engine: open(t).Engine}
			r := refused.NewRefused(refused.Options{Engine: s, Dropped: func(int64) {}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			r.Add(store.Refused{Day: today(), Account: "acc_1", Code: "quota_exceeded", Calls: 1})
			time.Sleep(2*refused.Every + 1)
			synctest.Wait() // no attempt is in progress
			if !lost {
				s.works.Store(1)
			}
			r.Close()
			synctest.Wait()
			if !strings.Contains(log.String(), "level=WARN") || strings.Contains(log.String(), "level=ERROR") != lost {
				t.Errorf("lost is %v:\n%s", lost, &log)
			}
		})
	}
}

// TestAwayMidway: if the store fails between two steps of a write, each call
// counts once: those of the first step are not written again.
func TestAwayMidway(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := &away{Engine: b.Engine}
	r, _ := newRefused(t, s)
	const accounts = 2500 // five steps
	for i := range accounts {
		r.Add(store.Refused{Day: today(), Account: fmt.Sprintf("acc_%04d", i), Code: "quota_exceeded", Calls: 1})
	}
	for fails := range 2 {
		s.works.Store(1)
		if err := r.Flush(t.Context()); err == nil {
			t.Fatalf("flush %d: no error", fails)
		}
		r.Add(store.Refused{Day: today(), Account: "acc_0000", Code: "quota_exceeded", Calls: 1})
	}
	s.works.Store(accounts)
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := int64(0)
	for _, row := range list(t, b) {
		want := int64(1)
		if row.Account == "acc_0000" {
			want = 3
		}
		if row.Calls != want {
			t.Errorf("%s has %d calls, want %d", row.Account, row.Calls, want)
		}
		calls += row.Calls
	}
	if calls != accounts+2 {
		t.Errorf("the store has %d calls, want %d", calls, accounts+2)
	}
}

// TestAway keeps calls while the store fails. Close tells how many are lost.
func TestAway(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := &away{Engine: b.Engine}
	r, dropped := newRefused(t, s)
	row := store.Refused{Day: today(), Account: "acc_1", Code: "quota_exceeded", Calls: 1}
	r.Add(row)
	if err := r.Flush(t.Context()); err == nil {
		t.Fatal("no error")
	}
	r.Add(row)
	s.works.Store(1)
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := list(t, b); len(got) != 1 || got[0].Calls != 2 {
		t.Errorf("got %v, want 2 calls", got)
	}
	r.Add(row)
	r.Close()
	r.Add(row)
	if got := dropped.Load(); got != 2 {
		t.Errorf("dropped %d, want 2", got)
	}
}
