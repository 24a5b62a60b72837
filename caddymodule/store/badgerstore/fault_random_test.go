package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

	// faultImages is how many times a round copies the directory, or more
	// until an export succeeds.
	faultImages = 6

	// faultChanges ends a round before Badger writes its first table. A
	// directory that is copied meanwhile is not that of one instant.
	faultChanges = 3000
)

// faultRun is a store under calls, changes, exports and faults of the disk,
// and what it has promised.
type faultRun struct {
	*testing.T
	s     *Store
	dir   string
	ready atomic.Bool // faults begin

	admitted [faultCallers]atomic.Int64
	label    atomic.Int64 // of the last account that was changed

	images          chan image
	ended           atomic.Bool
	copied          int // images; guarded by archive.mu
	faults, exports atomic.Int64
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

// image is a directory as the death of the process would have left it.
type image struct {
	dir  string
	want promised
}

// TestExportDuringFaults: after a crash at any point the store opens and has
// all that was promised, also while exports, calls and changes meet a disk that
// fails to sync. Each export has all of it, too.
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
	r := &faultRun{T: t, dir: t.TempDir(), images: make(chan image)}
	var err error
	if r.s, err = Open(r.dir, Options{segmentSize: 1 << 12, dataSync: r.syncLog}); err != nil {
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
	for i := range r.images {
		r.inspect("after a crash", i.dir, i.want)
	}
	for err = r.s.Close(); errors.Is(err, store.ErrNotClosed); err = r.s.Close() { // beside all others
	}
	if done.Wait(); err != nil {
		t.Errorf("closing: %v", err)
	}
	counts := r.inspect("after Close", r.dir, r.promised())
	for i := range faultCallers {
		if got, want := counts.keys[i], r.admitted[i].Load(); got != want {
			t.Errorf("after Close key %d has %d calls, want %d", i, got, want)
		}
	}
	if r.faults.Load() == 0 || r.exports.Load() == 0 {
		t.Errorf("%d faults and %d exports, want some", r.faults.Load(), r.exports.Load())
	}
	t.Logf("%d calls, %d exports, %d changes, %d faults, %d crashes, segment %d", counts.account,
		r.exports.Load(), r.label.Load(), r.faults.Load(), r.copied, r.s.journal.log.Number())
}

// addFaults makes the disk fail, and the archive copy the directory.
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
	s.archive.sync = func() error { r.crash(); return nil }
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

// crash copies the directory sometimes. No row and no record is written
// meanwhile: the caller holds the lock of the archive.
func (r *faultRun) crash() {
	if r.ended.Load() || rand.N(20) > 0 && r.s.archive.changes < faultChanges {
		return
	}
	r.s.journal.appending.Lock()
	defer r.s.journal.appending.Unlock()
	r.images <- image{r.copyDir(), r.promised()}
	if r.copied++; r.copied >= faultImages && r.exports.Load() > 0 || r.s.archive.changes >= faultChanges {
		r.ended.Store(true)
		close(r.images)
	}
}

// copyDir copies the directory. It starts again if a segment of the log begins
// or is removed meanwhile: the copy would not be that of one instant.
func (r *faultRun) copyDir() string {
	for {
		dir, before := r.TempDir(), r.names()
		err := os.CopyFS(dir, os.DirFS(r.dir))
		switch same := slices.Equal(before, r.names()); {
		case same && err == nil:
			return dir
		case same:
			r.Errorf("copying: %v", err)
			return dir
		}
	}
}

func (r *faultRun) names() (names []string) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		r.Errorf("reading the directory: %v", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
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
		r.exports.Add(1)
		r.check("an export", &got, want, r.promised())
	}
	return err
}

// inspect opens a directory and checks what it has.
func (r *faultRun) inspect(what, dir string, want promised) found {
	got := found{labels: map[string]string{}}
	s, err := Open(dir, Options{})
	if err != nil {
		r.Errorf("%s: %v", what, err)
		return got
	}
	if err := s.Export(context.Background(), got.add); err != nil {
		r.Errorf("%s: exporting: %v", what, err)
	}
	r.check(what, &got, want, want)
	if err := errors.Join(s.Close(), removeIn(dir)); err != nil {
		r.Errorf("%s: closing: %v", what, err)
	}
	return got
}

// removeIn removes the files of a directory, which are large.
func removeIn(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
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
