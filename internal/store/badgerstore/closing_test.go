package badgerstore

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestCloseOnBusyDisk: a disk that takes six seconds for each of many writes is
// busy and not dead. Close waits for all of them. It gives up when a write takes
// as long as closeWithin, and succeeds later.
func TestCloseOnBusyDisk(t *testing.T) {
	for name, c := range map[string]struct {
		each   time.Duration
		closes bool
	}{
		"busy": {6 * time.Second, true},
		"dead": {5 * closeWithin, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				const batch, callers = 256, 64
				const counters = 3 * batch
				s, err := OpenTest(dir, Options{Reserve: 1, batchRows: batch})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: time.Now()}); err != nil {
					t.Fatal(err)
				}
				day := calendar.UTCDay(time.Now())
				var taking sync.WaitGroup
				for first := range callers {
					taking.Go(func() {
						for i := first; i < counters; i += callers {
							take(t, s, store.Call{Account: "acc_1", Endpoint: strconv.Itoa(i), Day: day})
						}
					})
				}
				taking.Wait()
				s.archive.mu.Lock()
				s.archive.sync = func() error {
					time.Sleep(c.each)
					return s.archive.db.Sync()
				}
				s.archive.mu.Unlock()
				began := time.Now()
				err = s.Close()
				if closed := err == nil; closed != c.closes || !closed && !errors.Is(err, store.ErrNotClosed) {
					t.Errorf("after %v: got %v", time.Since(began), err)
				}
				for errors.Is(err, store.ErrNotClosed) {
					err = s.Close()
				}
				if took := time.Since(began); err != nil || took < 2*closeWithin {
					t.Errorf("closing after %v: %v", took, err)
				}
			})
		})
	}
}
