package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

const (
	// faultCallers is how many goroutines take calls, each with a key of its
	// own and all of one account.
	faultCallers = 4

	// faultExports is how many exports have to succeed.
	faultExports = 3
)

// faultRun is a store under calls, changes, exports and faults of the disk,
// and what it has promised.
type faultRun struct {
	*testing.T
	s     *Store
	ready atomic.Bool // faults begin

	admitted        [faultCallers]atomic.Int64
	label           atomic.Int64 // of the last account that was changed
	faults, exports atomic.Int64
	exported        chan struct{} // closed after faultExports
}

// promised is what a store has promised at an instant.
type promised struct {
	admitted [faultCallers]int64
	label    int64
}

func (r *faultRun) promised() (p promised) {
	for i := range r.admitted {
		p.admitted[i] = r.admitted[i].Load()
	}
	p.label = r.label.Load()
	return p
}

// TestExportDuringFaults: while exports, calls and changes meet a disk that fails
// to sync, each export has all that was promised, and so has the store when it is
// opened again.
func TestExportDuringFaults(t *testing.T) {
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
	r, dir := &faultRun{T: t, exported: make(chan struct{})}, t.TempDir()
	var err error
	if r.s, err = Open(dir, Options{segmentSize: 1 << 12, dataSync: r.syncLog}); err != nil {
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
		done.Go(func() { r.loop("exports", r.export) })
		done.Go(func() { r.loop("background", r.background) })
	}
	done.Go(func() { r.loop("changes", r.change) })
	done.Go(func() { r.loop("deletions", r.recreate) })
	done.Go(func() { r.loop("checks", func() error { return r.s.Check(context.Background()) }) })
	<-r.exported
	for err = r.s.Close(); errors.Is(err, store.ErrNotClosed); err = r.s.Close() { // beside all others
	}
	if done.Wait(); err != nil {
		t.Errorf("closing: %v", err)
	}
	got, want := found{labels: map[string]string{}}, r.promised()
	if err := openHere(t, dir, Options{}).Export(t.Context(), got.add); err != nil {
		t.Fatalf("after Close: exporting: %v", err)
	}
	r.check("after Close", &got, want, want)
	if got.keys != want.admitted || r.faults.Load() == 0 {
		t.Errorf("after Close the keys have %v calls, want %v; %d faults, want some", got.keys, want.admitted, r.faults.Load())
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

func (r *faultRun) take(caller int) error {
	c := call("convert", today)
	c.Key = faultKey(caller)
	admitted, err := r.s.Take(context.Background(), c, nil, nil)
	if admitted {
		r.admitted[caller].Add(1)
	}
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

// change changes two accounts at once. Each change has a greater number.
func (r *faultRun) change() error {
	number := r.label.Load() + 1
	_, errs := r.s.ChangeAccounts(context.Background(), []string{"acc_1", "acc_3"}, func(_ int, a *store.Account, _ bool) error {
		a.Plan, a.Label = "starter", strconv.FormatInt(number, 10)
		return nil
	})
	err := errors.Join(errs...)
	if err == nil {
		r.label.Store(number)
	}
	return err
}

// recreate takes one call of an account and deletes the account. So the
// account never has more calls than one.
func (r *faultRun) recreate() error {
	ctx := context.Background()
	if _, err := storetest.PutAccount(ctx, r.s, store.Account{ID: "acc_2", Plan: "starter"}); err != nil {
		return err
	}
	if _, err := r.s.Take(ctx, store.Call{Account: "acc_2", Endpoint: "convert", Day: today}, nil, nil); err != nil && !errors.Is(err, store.ErrUnavailable) {
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

// found is what an export has.
type found struct {
	keys             [faultCallers]int64
	account, deleted int64
	labels           map[string]string
}

func (f *found) add(item store.Item) error {
	switch {
	case item.Account != nil:
		f.labels[item.Account.ID] = item.Account.Label
	case item.Count == nil:
	case item.Count.Account == "acc_2":
		f.deleted = item.Count.Used
	case item.Count.Key == "":
		f.account = item.Count.Used
	default:
		var caller int
		if _, err := fmt.Sscanf(item.Count.Key, "key_%d", &caller); err != nil {
			return err
		}
		f.keys[caller] = item.Count.Used
	}
	return nil
}

// export exports the store and checks what it gets.
func (r *faultRun) export() error {
	want, got := r.promised(), found{labels: map[string]string{}}
	err := r.s.Export(context.Background(), got.add)
	if err == nil {
		if r.exports.Add(1) == faultExports {
			close(r.exported)
		}
		r.check("an export", &got, want, r.promised())
	}
	return err
}

// check compares what was found with what was promised before and after. One
// call of each caller and one change can be in flight.
func (r *faultRun) check(what string, got *found, least, most promised) {
	sum := int64(0)
	for i, used := range got.keys {
		sum += used
		if used < least.admitted[i] || used > most.admitted[i]+1 {
			r.Errorf("%s: key %d has %d calls, want %d to %d", what, i, used, least.admitted[i], most.admitted[i]+1)
		}
	}
	if got.account != sum {
		r.Errorf("%s: the account has %d calls and its keys %d", what, got.account, sum)
	}
	if got.deleted > 1 {
		r.Errorf("%s: the account that was deleted has %d calls", what, got.deleted)
	}
	label, _ := strconv.ParseInt(got.labels["acc_1"], 10, 64) // 0 is too small
	if label < least.label || label > most.label+1 || got.labels["acc_1"] != got.labels["acc_3"] {
		r.Errorf("%s: the accounts have the labels %v, want %d to %d", what, got.labels, least.label, most.label+1)
	}
}
