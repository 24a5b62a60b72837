package ledger_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// granted puts the account with a token and returns a call that was
// granted to it.
func granted(t *testing.T, l *ledger.Ledger, id string) store.Call {
	t.Helper()
	l.PutAccount(&store.Account{ID: id, Plan: "starter"})
	hash := token.Hash{1}
	l.PutToken(&ledger.Token{Hash: hash, Account: id, ID: "key_1"})
	grant, err := l.Grant(&hash, now)
	if err != nil {
		t.Fatal(err)
	}
	return store.Call{Account: id, Endpoint: "convert", Day: today, Handle: grant.Handle}
}

// TestRemovalWaits: a call that is under way when its account is deleted
// is counted before the counters can be edited, not after.
func TestRemovalWaits(t *testing.T) {
	t.Parallel()
	log, begun := newLog(), make(chan struct{})
	var written atomic.Bool
	log.before = func(int) error {
		close(begun)
		yield()
		written.Store(true)
		return nil
	}
	l := ledger.New(log)
	call := granted(t, l, "acc_1")
	var taking sync.WaitGroup
	taking.Go(func() { wantTake(t, l, call, 9, 1, true) })
	<-begun
	l.RemoveAccount("acc_1")
	if !written.Load() {
		t.Error("the removal did not wait for the call")
	}
	if got := log.count(callOf(1)); got != 1 {
		t.Errorf("the log has %d when the removal returns, want 1", got)
	}
	taking.Wait()
}

// TestHandleOfAnother: names are the truth. A handle that is not the
// account's own, or not this ledger's, changes nothing.
func TestHandleOfAnother(t *testing.T) {
	t.Parallel()
	l := ledger.New(newLog())
	other := granted(t, l, "acc_2")
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	for i, handle := range []store.Handle{other.Handle, 0, 1 << 20, ^store.Handle(0)} {
		call := callOf(1)
		call.Handle = handle
		wantTake(t, l, call, 9, int64(i+1), true)
	}
	wantTake(t, l, callOf(2), 9, 1, true)
}
