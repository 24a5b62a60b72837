package ledger_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
)

const today = 20777

func callOf(account int) store.Call {
	return store.Call{Account: fmt.Sprintf("acc_%d", account), Endpoint: "convert", Day: today}
}

// takeOne takes a call with a limit of the day, and returns what is used of
// it.
func takeOne(l *ledger.Ledger, call store.Call, limit int64) (used int64, admitted bool, err error) {
	limits, rooms := []store.Limit{{Period: store.Day, Max: limit}, {Period: store.Day, Max: store.Unlimited}}, make([]store.Room, 2)
	if admitted, err = l.Take(call, limits, rooms); err != nil {
		return 0, admitted, err
	}
	return store.Unlimited - rooms[1].Remaining, admitted, nil
}

func wantTake(t *testing.T, l *ledger.Ledger, call store.Call, limit, wantUsed int64, wantAdmitted bool) {
	t.Helper()
	used, admitted, err := takeOne(l, call, limit)
	if used != wantUsed || admitted != wantAdmitted || err != nil {
		t.Errorf("take of %v with limit %d: got %d, %v, %v, want %d, %v", call, limit, used, admitted, err, wantUsed, wantAdmitted)
	}
}

// TestCommitGathers: calls that arrive during a commit are committed
// together, each counter once.
func TestCommitGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const accounts, each = 10, 4
		log, release := newLog(), make(chan struct{})
		log.before = func(group int) error {
			if group == 0 {
				<-release
			}
			return nil
		}
		l := ledger.New(log)
		var callers sync.WaitGroup
		take := func(account int) {
			callers.Go(func() {
				if _, admitted, err := takeOne(l, callOf(account), 100); !admitted || err != nil {
					t.Errorf("take: %v, %v", admitted, err)
				}
			})
		}
		take(0)
		synctest.Wait()
		for i := range accounts * each {
			take(i % accounts)
		}
		synctest.Wait()
		close(release)
		callers.Wait()

		groups := log.seen()
		if len(groups) != 2 || groups[0].entries != 1 || groups[1].entries != accounts {
			t.Fatalf("got %d groups, %+v, want one of 1 and one of %d", len(groups), groups, accounts)
		}
		for i := range accounts {
			want := int64(each)
			if i == 0 {
				want++
			}
			if got := groups[1].counts[callOf(i)]; got != want {
				t.Errorf("account %d: the group has %d, want %d", i, got, want)
			}
		}
	})
}

// TestCommitYields: calls that are ready to run when a batch opens join it,
// also while no commit delays it. It is not parallel: it sets the number of
// processors.
func TestCommitYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const calls = 32
	log := newLog()
	l := ledger.New(log)
	wantTake(t, l, callOf(0), 100, 1, true) // loads the day
	var callers sync.WaitGroup
	for range calls {
		callers.Go(func() {
			if _, admitted, err := takeOne(l, callOf(0), 100); !admitted || err != nil {
				t.Errorf("take: %v, %v", admitted, err)
			}
		})
	}
	callers.Wait()
	if groups := log.seen(); len(groups)-1 > calls/2 {
		t.Errorf("%d calls that were ready took %d groups", calls, len(groups)-1)
	}
	wantTake(t, l, callOf(0), 100, calls+2, true)
}

// TestCommitBesideOthers: calls do not wait again and again for goroutines that
// keep the processors busy. It is not parallel: it sets the number of
// processors.
func TestCommitBesideOthers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l := ledger.New(newLog())
	wantTake(t, l, callOf(0), 100, 1, true) // loads the day
	var end atomic.Bool
	defer end.Store(true)
	go func() {
		for !end.Load() {
		}
	}()
	// The busy goroutine can lose its turn early, so the first call may not wait
	// for long.
	const calls = 50
	for i := range calls {
		wantTake(t, l, callOf(0), 100, int64(2+i), true)
		if l.PausesYields() {
			return
		}
	}
	t.Errorf("after %d calls, the next will wait for a busy goroutine, too", calls)
}

// TestCommitFails: a group that fails changes nothing, in memory and in the
// group after it.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// first is done while the log is stuck, and fails; then is done
		// meanwhile and succeeds.
		first step
		then  []step
		want  int64 // of 5 taken before
	}{
		{"take", take, nil, 5},
		{"take after a take", take, []step{take}, 6},
		{"give back after a take", take, []step{giveBack}, 4},
		{"give back", giveBack, nil, 5},
		{"take after giving back", giveBack, []step{take}, 6},
		{"more", more, nil, 5},
		{"take after more", more, []step{take}, 6},
		{"more after a take", take, []step{more, take}, 13},
		{"reset", reset, nil, 5},
		{"take after a reset", reset, []step{take}, 6},
		{"give back after a reset", reset, []step{giveBack}, 4},
		{"reset after a take", take, []step{reset}, 0},
		{"reset and take after a take", take, []step{reset, take, take}, 2},
		{"take and reset after a take", take, []step{take, reset}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testCommitFails(t, test.first, test.then, test.want) })
		})
	}
}

// step is something that a caller does.
type step func(*ledger.Ledger) error

func take(l *ledger.Ledger) error     { _, _, err := takeOne(l, callOf(1), 100); return err }
func giveBack(l *ledger.Ledger) error { return l.Settle(callOf(1), nil, nil, 0, false) }
func more(l *ledger.Ledger) error     { return l.Settle(callOf(1), nil, nil, 8, false) }
func reset(l *ledger.Ledger) error    { return edit(l, zero(callOf(1))) }

func edit(l *ledger.Ledger, edits ...ledger.Edit) error {
	return l.Use(func() error { return l.Edit(edits...) })
}

// zero sets the counter of a call to zero.
func zero(call store.Call) ledger.Edit {
	return ledger.Edit{Endpoint: call.Endpoint, Day: call.Day, Holders: []string{call.Account}, Change: func(used []int64) { used[0] = 0 }}
}

func testCommitFails(t *testing.T, first step, then []step, want int64) {
	const before = 5
	log, release := newLog(), make(chan struct{})
	log.before = func(group int) error {
		if group != before {
			return nil
		}
		<-release
		return errDisk
	}
	l := ledger.New(log)
	for i := range int64(before) {
		wantTake(t, l, callOf(1), 100, i+1, true)
	}
	var callers sync.WaitGroup
	callers.Go(func() {
		if err := first(l); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errDisk) {
			t.Errorf("the call that fails: got %v", err)
		}
	})
	synctest.Wait()
	for _, step := range then {
		callers.Go(func() {
			if err := step(l); err != nil {
				t.Errorf("a call behind it: %v", err)
			}
		})
		synctest.Wait()
	}
	close(release)
	callers.Wait()

	if got := log.count(callOf(1)); got != want {
		t.Errorf("the log has %d, want %d", got, want)
	}
	wantTake(t, l, callOf(1), 0, want, false)
}

// TestGivingBackAdmitsNothing: a call still counts, also for Counts, until it is
// given back, and until a reset has succeeded. Otherwise a call in its place
// would exceed the limit if that failed.
func TestGivingBackAdmitsNothing(t *testing.T) {
	t.Parallel()
	for name, lower := range map[string]step{"give back": giveBack, "reset": reset} {
		for _, fails := range []error{nil, errDisk} {
			t.Run(fmt.Sprintf("%s, %v", name, fails), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { testGivingBack(t, lower, fails) })
			})
		}
	}
}

func testGivingBack(t *testing.T, lower step, fails error) {
	const limit = 5
	log, release := newLog(), make(chan struct{})
	log.before = func(group int) error {
		if group != limit {
			return nil
		}
		<-release
		return fails
	}
	l := ledger.New(log)
	for i := range int64(limit) {
		wantTake(t, l, callOf(1), limit, i+1, true)
	}
	var caller sync.WaitGroup
	caller.Go(func() {
		if err := lower(l); !errors.Is(err, fails) {
			t.Errorf("got %v, want %v", err, fails)
		}
	})
	synctest.Wait()
	wantTake(t, l, callOf(1), limit, limit, false)
	var counts []store.Count
	l.Counts(today, []string{"acc_1"}, func(_ int, c store.Count) { counts = append(counts, c) })
	if len(counts) != 1 || counts[0].Used != limit {
		t.Errorf("under way: got %v, want %d calls", counts, limit)
	}
	close(release)
	caller.Wait()

	_, admitted, err := takeOne(l, callOf(1), limit)
	if want := fails == nil; admitted != want || err != nil {
		t.Errorf("afterwards: got %v, %v, want %v", admitted, err, want)
	}
}

// TestManyWait: more counters than fit into a group are written as several,
// in their order, and a group that fails changes nothing in the others.
func TestManyWait(t *testing.T) {
	t.Parallel()
	for _, fails := range []int{-1, 0, 1} {
		t.Run(fmt.Sprintf("group %d fails", fails), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testManyWait(t, fails) })
		})
	}
}

func testManyWait(t *testing.T, fails int) {
	log, release := newLog(), make(chan struct{})
	log.before = func(group int) error {
		group %= 3
		if group == 0 {
			<-release
		}
		if group == fails {
			return errDisk
		}
		return nil
	}
	l := ledger.New(log)
	const inGroup = ledger.MaxGroup / 2 // a call with a key would have two
	want := make([]int64, inGroup)
	for _, backwards := range []bool{false, true} { // with memory that was used before
		var callers sync.WaitGroup
		take := func(account, group int) {
			callers.Go(func() {
				if _, admitted, err := takeOne(l, callOf(account), 100); admitted != (group != fails) || admitted != (err == nil) {
					t.Errorf("account %d in group %d: got %v, %v", account, group, admitted, err)
				}
			})
			synctest.Wait()
			if group != fails {
				want[account]++
			}
		}
		take(0, 0)
		for account := range inGroup {
			if backwards {
				account = inGroup - 1 - account
			}
			take(account, 1)
		}
		take(0, 2)
		release <- struct{}{}
		callers.Wait()
	}

	groups := log.seen()
	if len(groups) != 6 || groups[0].entries != 1 || groups[1].entries != inGroup || groups[2].entries != 1 {
		t.Fatalf("got %d groups, want twice 1, %d and 1 counters", len(groups), inGroup)
	}
	behind := int64(2)
	if fails == 0 {
		behind = 1
	}
	if got := groups[1].counts[callOf(0)]; got != behind {
		t.Errorf("the second group has %d, want %d", got, behind)
	}
	for account, want := range want {
		if got := log.count(callOf(account)); got != want {
			t.Fatalf("account %d: the log has %d, want %d", account, got, want)
		}
	}
	wantTake(t, l, callOf(0), 0, want[0], false)
}

// TestEditIsSynced: only a group with an edit is synced. It has no calls.
func TestEditIsSynced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, release := newLog(), make(chan struct{})
		log.before = func(group int) error {
			if group == 0 {
				<-release
			}
			return nil
		}
		l := ledger.New(log)
		var callers sync.WaitGroup
		for _, step := range []step{take, take, reset, take} {
			callers.Go(func() {
				if err := step(l); err != nil {
					t.Errorf("a call: %v", err)
				}
			})
			synctest.Wait()
		}
		close(release)
		callers.Wait()
		wantTake(t, l, callOf(1), 100, 1, true)

		groups := log.seen()
		if len(groups) != 4 || groups[0].sync || groups[1].sync || !groups[2].sync || groups[3].sync {
			t.Errorf("got groups %+v, want four, the third synced", groups)
		}
	})
}

// TestEditMany: edits of many counters are one write: all or none.
func TestEditMany(t *testing.T) {
	t.Parallel()
	for failing, want := range map[int]int64{-1: 0, 0: 1} {
		log, resets := newLog(), 0
		l := ledger.New(log)
		var edits []ledger.Edit
		var calls []store.Call
		for _, endpoint := range []string{"convert", "rates", "history", "batch"} {
			call := store.Call{Account: "acc_1", Endpoint: endpoint, Day: today}
			wantTake(t, l, call, 9, 1, true)
			calls, edits = append(calls, call), append(edits, zero(call))
		}
		log.before = func(int) error {
			resets++
			if resets == failing+1 {
				return errDisk
			}
			return nil
		}
		if err := edit(l, edits...); errors.Is(err, errDisk) != (failing >= 0) {
			t.Errorf("write %d fails: got %v", failing, err)
		}
		if resets != 1 {
			t.Errorf("write %d fails: %d resets took %d writes, want 1", failing, len(calls), resets)
		}
		left := int64(0)
		for _, call := range calls {
			used, _, _ := takeOne(l, call, 0)
			left = max(left, used)
		}
		if left != want {
			t.Errorf("write %d fails: %d is left, want %d", failing, left, want)
		}
	}
}

// TestEditsOfManyCounters: edits with more counters than fit into a group are
// written as several groups. Each edit is in one of them, and changes all of its
// counters or none.
func TestEditsOfManyCounters(t *testing.T) {
	t.Parallel()
	const holders = ledger.MaxGroup/2 + 1
	log := newLog()
	l := ledger.New(log)
	var edits []ledger.Edit
	for _, endpoint := range []string{"convert", "rates", "history"} {
		e := ledger.Edit{Endpoint: endpoint, Day: today, Change: func(used []int64) {
			for i := range used {
				used[i]++
			}
		}}
		for i := range holders {
			e.Holders = append(e.Holders, callOf(i).Account)
		}
		edits = append(edits, e)
	}
	wantTake(t, l, callOf(0), 9, 1, true) // loads the day
	log.before = func(group int) error {
		if group == 2 {
			return errDisk
		}
		return nil
	}
	if err := edit(l, edits...); !errors.Is(err, errDisk) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, errDisk)
	}
	groups := log.seen()
	if len(groups) != 3 || groups[1].entries != holders || groups[2].entries != holders {
		t.Fatalf("got %d groups, want one of 1 and two of %d counters", len(groups), holders)
	}
	for _, account := range []int{0, holders - 1} {
		for _, e := range edits {
			call := store.Call{Account: callOf(account).Account, Endpoint: e.Endpoint, Day: today}
			want := int64(0)
			if e.Endpoint == "convert" {
				want = 1
				if account == 0 {
					want++
				}
			}
			if got := log.count(call); got != want {
				t.Errorf("%v: the log has %d, want %d", call, got, want)
			}
			wantTake(t, l, call, 0, want, false)
		}
	}
}
