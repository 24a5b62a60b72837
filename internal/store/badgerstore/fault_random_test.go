package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

const (
	// faultCallers is how many goroutines take calls, each with a key of its
	// own and all of one account.
	faultCallers = 4

	// faultCost is the most that a call takes or costs.
	faultCost = 9

	// faultDumps is how many dumps have to succeed after faults.
	faultDumps = 3
)

// faultRun is a store under calls, changes, dumps and faults of the disk,
// and what it has promised.
type faultRun struct {
	*testing.T
	s     TestStore
	ready atomic.Bool // faults begin

	settled       [faultCallers]atomic.Int64 // the costs of calls
	label         atomic.Int64               // of the last account that was changed
	tried, closed atomic.Int64               // calls of accounts that were deleted: all, and those admitted
	faults, dumps atomic.Int64
	dumped        chan struct{} // closed after faultDumps
}

// promised is what a store has promised at an instant.
type promised struct {
	settled       [faultCallers]int64
	label         int64
	tried, closed int64
}

func (r *faultRun) promised() (p promised) {
	for i := range r.settled {
		p.settled[i] = r.settled[i].Load()
	}
	p.label, p.tried, p.closed = r.label.Load(), r.tried.Load(), r.closed.Load()
	return p
}

// TestDumpDuringFaults: while dumps, calls and changes meet a disk that fails
// to sync, each dump has all that was promised, and so has the store when it is
// opened again.
func TestDumpDuringFaults(t *testing.T) {
	t.Parallel()
	rounds := 2
	if storetest.Long() {
		rounds = 100
	}
	for round := range rounds {
		if !t.Run(strconv.Itoa(round), runWithFaults) {
			return
		}
	}
}

func runWithFaults(t *testing.T) {
	r, dir := &faultRun{T: t, dumped: make(chan struct{})}, t.TempDir()
	var err error
	if r.s, err = OpenTest(dir, Options{segmentSize: 1 << 12, dataSync: r.syncLog}); err != nil {
		t.Fatal(err)
	}
	if err := r.change(); err != nil { // creates the accounts
		t.Fatal(err)
	}
	r.addFaults()
	var done sync.WaitGroup
	for i := range faultCallers {
		done.Go(func() { r.loop("calls", func() error { return r.take(i) }) })
	}
	for range 2 {
		done.Go(func() { r.loop("dumps", r.dump) })
		done.Go(func() { r.loop("background", r.background) })
	}
	done.Go(func() { r.loop("changes", r.change) })
	done.Go(func() { r.loop("events", r.follow) })
	done.Go(func() { r.loop("deletions", r.recreate) })
	done.Go(func() { r.loop("checks", func() error { return r.s.Check(context.Background()) }) })
	<-r.dumped
	for err = r.s.Close(); errors.Is(err, store.ErrNotClosed); err = r.s.Close() { // beside all others
	}
	if done.Wait(); err != nil {
		t.Errorf("closing: %v", err)
	}
	got, want := newFound(), r.promised()
	r.s = openHere(t, dir, Options{})
	if err := r.s.Dump(t.Context(), nil, got.add); err != nil {
		t.Fatalf("after Close: dumping: %v", err)
	}
	r.check("after Close", got, want, want)
	for more := true; more; {
		var err error
		if _, more, err = event.NewQueue(r.s.Book).Follow(t.Context(), time.Time{}, eventOf); err != nil {
			t.Fatal(err)
		}
	}
	if events, _, err := r.s.QueuedEvents(t.Context()); err != nil || events != got.entries {
		t.Errorf("%d events, %v, of %d entries of the audit log", events, err, got.entries)
	}
	if got.keys != want.settled {
		t.Errorf("after Close the keys have %v calls, want %v; %d faults", got.keys, want.settled, r.faults.Load())
	}
}

// addFaults makes the disk fail.
func (r *faultRun) addFaults() {
	s := r.s
	s.journal.archiving.Lock()
	s.archive.mu.Lock()
	works := s.archive.checkDisk
	s.archive.checkDisk = func() error {
		if r.fails(50) {
			return errDisk
		}
		return works()
	}
	s.archive.mu.Unlock()
	s.journal.archiving.Unlock()
	r.ready.Store(true)
}

func (r *faultRun) fails(oneIn int) bool {
	if !r.ready.Load() || rand.N(oneIn) > 0 {
		return false
	}
	r.faults.Add(1)
	return true
}

// syncLog fails sometimes, and is slow sometimes, so that a segment is full
// when it returns. It does not wait for the disk, as the machine does not
// crash.
func (r *faultRun) syncLog(*os.File) error {
	if rand.N(5) == 0 {
		time.Sleep(time.Duration(rand.N(5000)) * time.Microsecond)
	}
	if r.fails(30) {
		return errDisk
	}
	return nil
}

// loop does something until the store is closed.
func (r *faultRun) loop(what string, do func() error) {
	for {
		err := do()
		switch {
		case errors.Is(err, store.ErrClosed):
			return
		case errors.Is(err, store.ErrUnavailable):
			time.Sleep(time.Duration(rand.N(1000)) * time.Microsecond) // as a client does
		case err != nil:
			r.Errorf("%s: %v", what, err)
			return
		}
	}
}

// take takes a call and settles it. A call that the store does not settle before it
// is closed costs what it took.
func (r *faultRun) take(caller int) error {
	c := call("convert", today)
	c.Key, c.Cost = faultKey(caller), 1+rand.Int64N(faultCost)
	admitted, err := r.s.Take(context.Background(), c, nil, nil)
	if !admitted {
		return err
	}
	cost := rand.Int64N(faultCost + 1)
	for err = r.s.Settle(context.Background(), c, nil, nil, cost, false); errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrClosed); {
		time.Sleep(time.Duration(rand.N(1000)) * time.Microsecond)
		err = r.s.Settle(context.Background(), c, nil, nil, cost, false)
	}
	if errors.Is(err, store.ErrClosed) {
		cost = c.Cost
	}
	r.settled[caller].Add(cost)
	return err
}

func faultKey(caller int) string { return fmt.Sprint("key_", caller) }

// background does what the store does every second, more often.
func (r *faultRun) background() error {
	time.Sleep(time.Duration(rand.N(2000)) * time.Microsecond)
	return r.s.ledger.Use(func() error {
		for _, err := range []error{r.s.journal.syncNow(), r.s.journal.archiveEnded()} {
			if err != nil {
				return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
			}
		}
		return nil
	})
}

// change changes two accounts at once, and records it. Each change has a
// greater number.
func (r *faultRun) change() error {
	number := r.label.Load() + 1
	errs := r.s.Change(context.Background(), time.Now(), []string{"acc_1", "acc_3"}, func(_ int, a *book.Account) error {
		a.Exists, a.Plan, a.Label = true, "starter", strconv.FormatInt(number, 10)
		a.Record(store.Entry{At: time.Now(), Action: "account.change", Target: a.Label})
		return nil
	})
	err := errors.Join(errs...)
	if err == nil {
		r.label.Store(number)
	}
	return err
}

// follow makes events of the audit log.
func (r *faultRun) follow() error {
	_, _, err := event.NewQueue(r.s.Book).Follow(context.Background(), time.Time{}, eventOf)
	return err
}

func eventOf(e store.Entry) []store.Event {
	return []store.Event{{ID: e.ID.String(), At: e.At, Known: e.At.Add(time.Hour), Queued: true}}
}

// recreate creates an account, takes one call of it and deletes it. So the
// account never has more calls than one, and those before it are closed.
func (r *faultRun) recreate() error {
	ctx := context.Background()
	if _, err := storetest.PutAccount(ctx, r.s.Book, store.Account{ID: "acc_2", Plan: "starter"}); err != nil {
		return err
	}
	r.tried.Add(1)
	switch admitted, err := r.s.Take(ctx, store.Call{Account: "acc_2", Endpoint: "convert", Day: today}, nil, nil); {
	case admitted:
		r.closed.Add(1)
	case err != nil && !errors.Is(err, store.ErrUnavailable):
		return err
	}
	err := r.s.DeleteAccount(ctx, "acc_2")
	for err != nil && errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrClosed) {
		err = r.s.DeleteAccount(ctx, "acc_2")
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil // deleted by a call that returned an error
	}
	return err
}

// found is what a dump has.
type found struct {
	keys           [faultCallers]int64
	account        int64
	recreated      bool  // the account of recreate exists
	recent, closed int64 // its calls, and those before it
	labels         map[string]string
	recorded       map[string]string // the last label of each account in the audit log
	entries        int
}

func newFound() *found { return &found{labels: map[string]string{}, recorded: map[string]string{}} }

func (f *found) add(p book.Piece) error {
	value, err := p.Value()
	if err != nil {
		return err
	}
	switch value := value.(type) {
	case *book.Account:
		f.recreated = f.recreated || value.ID == "acc_2"
		if value.Label != "" {
			f.labels[value.ID] = value.Label
		}
	case *store.Entry:
		f.entries++
		f.recorded[value.Account] = value.Target
	case *store.StoredCount:
		f.addCount(value)
	}
	return nil
}

func (f *found) addCount(c *store.StoredCount) {
	switch {
	case c.Account == "acc_2" && c.Key == store.Closed:
		f.closed = c.Used
	case c.Account == "acc_2":
		f.recent = c.Used
	case c.Key == "":
		f.account = c.Used
	default:
		caller, _ := strconv.Atoi(strings.TrimPrefix(c.Key, "key_"))
		f.keys[caller] = c.Used
	}
}

// dump dumps the store and checks what it gets.
func (r *faultRun) dump() error {
	want, got := r.promised(), newFound()
	err := r.s.Dump(context.Background(), nil, got.add)
	if err == nil {
		if r.faults.Load() > faultDumps && r.dumps.Add(1) == faultDumps {
			close(r.dumped)
		}
		r.check("a dump", got, want, r.promised())
	}
	return err
}

// check compares what was found with what was promised before and after. One
// call of each caller and one change can be in flight.
func (r *faultRun) check(what string, got *found, least, most promised) {
	sum := int64(0)
	for i, used := range got.keys {
		sum += used
		if used < least.settled[i] || used > most.settled[i]+faultCost {
			r.Errorf("%s: key %d has %d calls, want %d to %d", what, i, used, least.settled[i], most.settled[i]+faultCost)
		}
	}
	if got.account != sum {
		r.Errorf("%s: the account has %d calls and its keys %d", what, got.account, sum)
	}
	if all := got.recent + got.closed; got.recent > 1 || got.recreated && all < least.closed || all > most.tried {
		r.Errorf("%s: the account that was deleted has %d calls, and those before it %d, want 0 or 1 and %d to %d in all", what, got.recent, got.closed, least.closed, most.tried)
	}
	label, _ := strconv.ParseInt(got.labels["acc_1"], 10, 64) // 0 is too small
	if label < least.label || label > most.label+1 || got.labels["acc_1"] != got.labels["acc_3"] {
		r.Errorf("%s: the accounts have the labels %v, want %d to %d", what, got.labels, least.label, most.label+1)
	}
	if !maps.Equal(got.labels, got.recorded) {
		r.Errorf("%s: the accounts have the labels %v, and the audit log has %v", what, got.labels, got.recorded)
	}
}
