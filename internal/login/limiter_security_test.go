package login_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
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
	const bytes = 64 << 10
	b, d := newDurableBench(t, loose)
	b.use(login.NewSmallMemory(b.clock, d, bytes))
	b.succeed("192.0.2.1", "victim")
	b.fail("192.0.2.2", "victim", 10)
	b.fail("192.0.2.2", "waiting", 10)
	for i := range 2000 {
		b.fail(fmt.Sprintf("10.%d.%d.1", i>>8&255, i&255), fmt.Sprint("invented", i), 1)
	}
	clients, failing, known := b.memory.Len()
	if used := b.memory.Used(); used > bytes || clients > 350 || failing > 350 || known != 1 {
		t.Errorf("got %d bytes, %d clients, %d failing, %d known", used, clients, failing, known)
	}
	if got, most := len(d.rows), clients+failing+known+8; got > most {
		t.Errorf("got %d rows on disk, want at most %d", got, most)
	}
	b.refuse("192.0.2.3", "waiting", 30*time.Second)
	b.refuse("192.0.2.3", "victim", 30*time.Second)
	b.admit("192.0.2.1", "victim")
}

// Threat: the attacker fails at many accounts that have known clients, so that
// these need more memory. Expected: no known client is evicted.
func TestFloodOfFailuresAtKnownAccounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, loose)
	b.use(login.NewSmallMemory(b.clock, nil, 64<<10))
	owner := func(i int) string { return fmt.Sprintf("10.0.%d.%d", i>>8, i&255) }
	for i := range 200 {
		b.succeed(owner(i), fmt.Sprint(i))
	}
	_, _, known := b.memory.Len()
	if known < 50 || known == 200 {
		t.Fatalf("got %d accounts with known clients, want a full memory", known)
	}
	for i := range 200 {
		b.fail("192.0.2.1", fmt.Sprint(i), 10)
		b.pass(30 * time.Second)
	}
	if _, _, got := b.memory.Len(); got != known {
		t.Errorf("got %d accounts with known clients after the flood, want %d", got, known)
	}
	for i := 200 - known; i < 200; i++ {
		b.fail("192.0.2.2", fmt.Sprint(i), 1) // the wait of strangers
	}
	b.admit(owner(199), "199")
}

// Threat: the attacker makes so many accounts wait that the failures of other
// accounts find no memory. Expected: they have their own.
func TestFloodOfWaitingAccounts(t *testing.T) {
	t.Parallel()
	const bytes = 64 << 10
	b := newBench(t, login.Limits{PerClient: 1000, Free: 2})
	b.use(login.NewSmallMemory(b.clock, nil, bytes))
	for i := range 1000 {
		b.fail(fmt.Sprintf("10.%d.%d.1", i>>8&255, i&255), fmt.Sprint("invented", i), 2)
	}
	b.fail("192.0.2.1", "victim", 1)
	for i := range 200 {
		b.fail("192.0.2.2", fmt.Sprint("other", i), 1)
	}
	b.fail("192.0.2.1", "victim", 1)
	b.refuse("192.0.2.1", "victim", 30*time.Second)
	if got := b.memory.Used(); got > bytes {
		t.Errorf("got %d bytes, want at most %d", got, bytes)
	}
}

// Threat: while the journal cannot save, attempts cost nothing, not even the
// allowance per client. Expected: they evict no row.
func TestFloodWhileJournalIsDown(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, loose)
	const bytes, cell = 16 << 10, 250
	b.use(login.NewSmallMemory(b.clock, d, bytes))
	b.fail("192.0.2.1", "victim", 9)
	for i := 0; b.memory.Used() < bytes-cell; i++ { // until the next one evicts the victim
		b.fail("192.0.2.1", fmt.Sprint("earlier", i), 1)
	}
	d.fail(context.DeadlineExceeded)
	for i := range 1000 {
		attempt, _, err := b.limiters[0].Reserve(t.Context(), b.limits,
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
	// Sixty clients are within their window.
	if clients, failures, _ := b.memory.Len(); clients > 200 || failures > 0 {
		t.Errorf("got %d clients and %d accounts with failures, want about 60 and 0", clients, failures)
	}
}
