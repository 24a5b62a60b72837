package badgerstore

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestReceiptOfDeletedAccount: a call with a receipt is counted while its account is
// deleted. If the deletion fails, the receipt is there. Otherwise the next account of
// that id does not have it, also if the process dies.
func TestReceiptOfDeletedAccount(t *testing.T) {
	t.Parallel()
	dir, crashed := t.TempDir(), t.TempDir()
	s := countedAccounts(t, dir)
	errFull, works := errors.New("little space is left"), s.archive.checkDisk
	for _, fails := range []bool{true, false} {
		called := call("convert", today)
		called.Receipt = &store.Receipt{Name: "job", New: []byte("x"), Expires: time.Now().Add(time.Hour)}
		add, appended := s.journal.append, make(chan struct{})
		appendWith(s, func(record []byte) error {
			if len(record) > 0 && record[0] == recordBoth {
				defer close(appended)
			}
			return add(record)
		})
		s.archive.mu.Lock() // between the log and the archive
		var group sync.WaitGroup
		group.Go(func() {
			if ok, err := s.Take(t.Context(), called, nil, nil); !ok {
				t.Errorf("a call while the account is deleted: %v", err)
			}
		})
		<-appended
		appendWith(s, add)
		if fails {
			s.archive.checkDisk = func() error { return errFull }
		}
		group.Go(func() {
			if err := s.DeleteAccount(t.Context(), called.Account); errors.Is(err, errFull) != fails {
				t.Errorf("deleting: %v", err)
			}
		})
		for s.ledger.Exists(called.Account) {
			time.Sleep(time.Millisecond)
		}
		s.archive.mu.Unlock()
		group.Wait()
		checkDiskWith(s, works)
		if kept, err := s.Receipt(t.Context(), called, "job"); err != nil || (kept != nil) != fails {
			t.Errorf("after a deletion that fails %v: kept %q, %v", fails, kept, err)
		}
		if fails {
			if err := s.DeleteAccount(t.Context(), called.Account); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: called.Account, Plan: "starter"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	again := openHere(t, crashed, Options{})
	if kept, err := again.Receipt(t.Context(), call("convert", today), "job"); kept != nil || err != nil {
		t.Errorf("after a crash the next account has %q, %v", kept, err)
	}
}
