package login_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// Threat: the attacker signs up with an accented twin of the victim's
// e-mail and logs in to it between guesses, to clear them and to become
// known. Expected: the guesses at the victim stay.
func TestTwinAccountClearsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, loose)
	for range 9 {
		b.fail("192.0.2.1", "jose@example.com", 1)
		b.succeed("192.0.2.1", "jos\u00e9@example.com")
	}
	b.fail("192.0.2.1", "jose@example.com", 1)
	b.refuse("192.0.2.1", "jose@example.com", 30*time.Second)
}

// Threat: failures at invented accounts push the victim's count out of
// memory. Expected: memory is bounded; a flood of single failures does not
// evict an account that must wait, and no flood evicts known clients.
func TestFloodOfAccounts(t *testing.T) {
	t.Parallel()
	const capacity = 1 << 10
	b, d := newDurableBench(t, loose)
	b.local = login.NewSmallLocal(d, capacity)
	b.succeed("192.0.2.1", "victim")
	b.fail("192.0.2.2", "victim", 10)
	for i := range 8 * capacity {
		b.fail(fmt.Sprintf("10.%d.%d.1", i>>8&255, i&255), fmt.Sprint("invented", i), 1)
	}
	clients, failures, known := b.local.Rows()
	if failures > capacity || clients > capacity || known != 1 {
		t.Errorf("got %d failures, %d clients, %d known; want at most %d, %d and 1", failures, clients, known, capacity, capacity)
	}
	if got, most := len(d.rows), 2*capacity+8; got > most {
		t.Errorf("got %d rows on disk, want at most %d", got, most)
	}
	b.refuse("192.0.2.3", "victim", 30*time.Second)
	b.admit("192.0.2.1", "victim")
}

// Threat: the attacker makes so many accounts wait that the failures of other
// accounts find no memory. Expected: a quarter of it is free for them.
func TestFloodOfWaitingAccounts(t *testing.T) {
	t.Parallel()
	const capacity = 1 << 10
	b := newBench(t, login.Limits{PerClient: 1000, Free: 2})
	b.local = login.NewSmallLocal(nil, capacity)
	for i := range 4 * capacity {
		b.fail(fmt.Sprintf("10.%d.%d.1", i>>8&255, i&255), fmt.Sprint("invented", i), 2)
	}
	b.fail("192.0.2.1", "victim", 1)
	for i := range capacity / 16 {
		b.fail("192.0.2.2", fmt.Sprint("other", i), 1)
	}
	b.fail("192.0.2.1", "victim", 1)
	b.refuse("192.0.2.1", "victim", 30*time.Second)
	if _, failures, _ := b.local.Rows(); failures > capacity {
		t.Errorf("got %d rows, want at most %d", failures, capacity)
	}
}

// Threat: while the journal cannot save, attempts cost nothing, not even the
// allowance per client. Expected: they evict no row.
func TestFloodWhileJournalIsDown(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, loose)
	b.local = login.NewSmallLocal(d, 64)
	b.fail("192.0.2.1", "victim", 9)
	d.fail(context.DeadlineExceeded)
	for i := range 1000 {
		attempt, _, err := b.local.Reserve(t.Context(), b.now, b.limits,
			login.ClientOf("192.0.2.2"), login.AccountOf(fmt.Sprint("invented", i)))
		if attempt != nil || err == nil {
			t.Fatalf("got %v, %v, want an error", attempt, err)
		}
	}
	d.fail(nil)
	b.fail("192.0.2.3", "victim", 1)
	b.refuse("192.0.2.3", "victim", 30*time.Second)
}

// Expired rows are deleted, even if no attempt uses them again.
func TestExpiredRowsAreDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, loose)
	for i := range 5000 {
		b.fail(fmt.Sprintf("10.0.%d.%d", i>>8, i&255), fmt.Sprint("a", i), 1)
	}
	b.pass(12 * time.Hour)
	for i := range 3000 {
		b.succeed(fmt.Sprintf("10.1.%d.%d", i>>8, i&255), fmt.Sprint("b", i))
		b.pass(time.Second)
	}
	// Sixty clients are within their window; others are deleted when their
	// shard is next used.
	if clients, failures, _ := b.local.Rows(); clients > 200 || failures > 0 {
		t.Errorf("got %d clients and %d accounts with failures, want about 60 and 0", clients, failures)
	}
}
