package badgerstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// crashCallers is how many goroutines take calls in the child, each with an
// endpoint of its own and with one that all share.
const crashCallers = 16

// smallSegments is a size of the log's segments at which a child that is
// soon killed begins several, and moves those that ended to the archive.
const smallSegments = 1 << 12

// runChild is what a child process does, until it is killed.
func runChild(task, dir string) {
	if strings.HasPrefix(task, "disk") {
		runOnDisk(task, dir)
	}
	if strings.HasPrefix(task, "power") {
		runPower(task, dir)
	}
	o := badgerstore.Options{Sync: task == "sync"}
	if task != "load" && task != "logins" {
		o = o.WithSegments(smallSegments)
	}
	var faulty atomic.Bool
	if task == "faults" {
		o = o.WithFaults(func() bool { return faulty.Load() && rand.N(20) == 0 })
	}
	s, err := badgerstore.OpenTest(dir, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch task {
	case "logins":
		go endLogins(s)
	case "changes":
		go changeAccounts(s)
	default:
		for i := range crashCallers {
			go load(s, i)
		}
		go churn(s)
	}
	if task == "faults" {
		faulty.Store(true)
		go dump(s)
		go dump(s)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with its parent
	os.Exit(0)
}

// dump dumps a store and does the background work of a second, again and again.
// The disk refuses some of it.
func dump(s badgerstore.TestStore) {
	for {
		_ = s.Book.Dump(context.Background(), func(book.Piece) error { return nil })
		_ = s.FlushForTest()
	}
}

// load takes calls and settles some, makes keys and revokes them, and
// acknowledges each with a line on standard output, as a gate does with a
// request. It repeats a step that the disk refuses.
func load(s badgerstore.TestStore, caller int) {
	ctx := context.Background()
	for n := 0; ; n++ {
		for err := crashStep(s, caller, n); err != nil; err = crashStep(s, caller, n) {
			if !errors.Is(err, store.ErrUnavailable) {
				return
			}
		}
		fmt.Println("step", caller)
		if admitted, _ := s.Take(ctx, sharedCall, nil, nil); admitted {
			fmt.Println("shared")
		}
		if n%8 == 0 {
			call := receiptCall
			call.Receipt = &store.Receipt{Name: fmt.Sprint(os.Getpid(), " ", caller, " ", n), New: []byte("x"), Expires: time.Now().Add(time.Hour)}
			_, _ = s.Take(ctx, call, nil, nil) // the check compares counts with receipts
		}
		if n%20 != caller {
			continue
		}
		id := fmt.Sprintf("%d_%d_%d", caller, os.Getpid(), n)
		if err := s.CreateKey(ctx, crashKey(id), crashHash(id)); err != nil {
			continue
		}
		fmt.Println("key", id)
		if n%40 == caller && s.RevokeKey(ctx, crashAccount(id), id, time.Now()) == nil {
			fmt.Println("revoke", id)
		}
	}
}

// sharedCall is a call that all callers take, and receiptCall one that they take with
// another receipt each time.
var (
	sharedCall  = store.Call{Account: "acc_shared", Endpoint: "convert", Day: today}
	receiptCall = store.Call{Account: "acc_receipt", Endpoint: "convert", Day: today}
)

// crashStep is what a caller does in a step of its own: it takes a call with
// four limits, or settles the one before.
func crashStep(s badgerstore.TestStore, caller, n int) error {
	cost, settles := stepCost(n)
	call := limitCall(caller, cost)
	if settles {
		return s.Settle(context.Background(), call, nil, nil, settledCost(n), false)
	}
	_, err := s.Take(context.Background(), call, fourLimits(call.Endpoint), make([]store.Room, 4))
	return err
}

// stepCost is what a step takes, or what the call took that it settles.
func stepCost(n int) (cost int64, settles bool) {
	if n%5 == 4 {
		cost, _ = stepCost(n - 1)
		return cost, true
	}
	return int64(n*n%97 + 1), false
}

// settledCost is often 0, and sometimes more than any step takes.
func settledCost(n int) int64 { return int64(max(0, n*n%151-40)) }

// stepped is what a counter has after a step.
func stepped(used int64, n int) int64 {
	cost, settles := stepCost(n)
	if settles {
		return used - cost + settledCost(n)
	}
	return used + cost
}

// limitCall is a call that counts for the account and for a key.
func limitCall(caller int, cost int64) store.Call {
	return store.Call{Account: "acc_1", Key: "key_" + strconv.Itoa(caller%2), Endpoint: strconv.Itoa(caller), At: now, Day: today, Cost: cost}
}

// fourLimits are those of each call: day, month, all of the month, and the
// key's own.
func fourLimits(endpoint string) []store.Limit {
	const limit = 1 << 40
	return []store.Limit{
		{Endpoint: endpoint, Period: store.Day, Max: limit},
		{Endpoint: endpoint, Period: store.Month, Max: limit},
		{Endpoint: store.All, Period: store.Month, Max: limit},
		{Endpoint: endpoint, Period: store.Day, Max: limit, OfKey: true},
	}
}

// churn overwrites large rows, so that memtables are written out and
// compacted all the time.
func churn(s badgerstore.TestStore) {
	value := make([]byte, 60<<10)
	for n := 0; ; n++ {
		var rows []login.Row
		for i := range 5 {
			rows = append(rows, login.Row{Key: fmt.Appendf(nil, "churn%05d", n%7*5+i), Value: value, ExpiresAt: now.Add(time.Hour)})
		}
		if s.Save(context.Background(), rows) != nil {
			return
		}
	}
}

// crashAccount is the account of a key. Each caller has its own, so that
// none comes near to the limit of login tokens.
func crashAccount(id string) string {
	caller, _, _ := strings.Cut(id, "_")
	return "acc_" + caller
}

func crashKey(id string) store.Key {
	return store.Key{ID: id, Account: crashAccount(id), Kind: token.Login, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
}

func crashHash(id string) (hash token.Hash) {
	copy(hash[:], id)
	return hash
}

// acknowledged is what children have promised before they died.
type acknowledged struct {
	used   map[string]int64  // of acc_1, by endpoint
	steps  [crashCallers]int // since used
	shared int64
	keys   map[string]bool // false once revoked
}

// TestKill kills a process under load, over and over: the store opens, every
// call that was acknowledged is in all counters with what it took, or with its
// cost if it was settled; one step that was in flight is in all or in none, none is
// counted twice, there are as many receipts as calls with one, no key is lost and no
// revoked one is back.
// Some of the processes dump their store while syncs of its log fail.
//
// Tests that start processes do not run beside others: between fork and
// exec a child has a copy of every lock that its parent holds.
func TestKill(t *testing.T) {
	rounds := 8
	if storetest.Long() {
		rounds = 160
	}
	dir := t.TempDir()
	s := open(t, dir)
	accounts := []string{sharedCall.Account, receiptCall.Account}
	for caller := range crashCallers {
		accounts = append(accounts, crashAccount(fmt.Sprint(caller)))
	}
	for _, id := range accounts {
		if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: id, Plan: "starter", CreatedAt: now}); err != nil {
			t.Fatalf("creating an account: %v", err)
		}
	}
	acks := acknowledged{used: map[string]int64{}, keys: map[string]bool{}}
	for round := range rounds {
		if err := s.Close(); err != nil {
			t.Fatalf("closing: %v", err)
		}
		acks.killed(t, []string{"load", "rotate", "faults", "sync"}[round%4], dir, 50+round*61)
		s = open(t, dir)
		acks.check(t, s)
		if t.Failed() {
			t.Fatalf("after %d kills", round+1)
		}
	}
}

// killed runs a child until it has acknowledged so much, kills it and
// reads what it had written by then.
func (a *acknowledged) killed(t *testing.T, task, dir string, after int) {
	t.Helper()
	cmd, lines := start(t, task, dir)
	for n := 0; lines.Scan(); n++ {
		what, id, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "step":
			caller, err := strconv.Atoi(id)
			if err != nil {
				t.Fatal(err)
			}
			a.steps[caller]++
		case "shared":
			a.shared++
		case "key":
			a.keys[id] = true
		case "revoke":
			a.keys[id] = false
		}
		if n == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatalf("killing: %v", err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended on its own: %v", err)
	}
}

// start starts a child on a directory.
func start(t *testing.T, task, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), child+"="+task)
	cmd.Stderr = os.Stderr
	_, inErr := cmd.StdinPipe() // it ends with this process
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatalf("starting a child: %v", err)
	}
	return cmd, bufio.NewScanner(out)
}

// check compares a store with what was acknowledged. A step that was in flight
// may be counted, and is from then on.
func (a *acknowledged) check(t *testing.T, s badgerstore.TestStore) {
	t.Helper()
	account, sum := countsOf(t, s, "acc_1", ""), int64(0)
	for caller, n := range a.steps {
		endpoint := strconv.Itoa(caller)
		least := a.used[endpoint]
		for i := range n {
			least = stepped(least, i)
		}
		got := account[endpoint]
		if got != least && got != stepped(least, n) {
			t.Errorf("caller %d: counted %d, want %d, or %d with the step in flight", caller, got, least, stepped(least, n))
		}
		if ofKey := countsOf(t, s, "acc_1", limitCall(caller, 1).Key)[endpoint]; ofKey != got {
			t.Errorf("caller %d: counted %d for the account and %d for the key", caller, got, ofKey)
		}
		a.used[endpoint] = got
		sum += got
	}
	a.steps = [crashCallers]int{}
	for caller := range crashCallers {
		call := limitCall(caller, 1)
		limits, rooms := fourLimits(call.Endpoint), make([]store.Room, 4)
		if err := s.Rooms(t.Context(), call, limits, rooms); err != nil {
			t.Fatal(err)
		}
		used := a.used[call.Endpoint]
		for i, want := range []int64{used, used, sum, used} {
			if got := limits[i].Max - rooms[i].Remaining; got != want {
				t.Errorf("caller %d: limit %+v has used %d, want %d", caller, limits[i], got, want)
			}
		}
	}
	got := countsOf(t, s, sharedCall.Account, "")[sharedCall.Endpoint]
	if got < a.shared || got > a.shared+crashCallers {
		t.Errorf("the shared counter has %d, acknowledged %d by %d callers", got, a.shared, crashCallers)
	}
	a.shared = got
	counted := countsOf(t, s, receiptCall.Account, "")[receiptCall.Endpoint]
	if receipts, err := s.CountReceipts(receiptCall.Account); err != nil || receipts != counted || receipts == 0 {
		t.Errorf("counted %d calls with %d receipts: %v", counted, receipts, err)
	}
	a.checkKeys(t, s)
}

// countsOf returns the counts of today by endpoint.
func countsOf(t *testing.T, s badgerstore.TestStore, account, key string) map[string]int64 {
	t.Helper()
	list, err := s.Counts(t.Context(), account, key, today, today)
	if err != nil {
		t.Fatalf("reading the counts: %v", err)
	}
	counts := map[string]int64{}
	for _, c := range list {
		counts[c.Endpoint] = c.Used
	}
	return counts
}

func (a *acknowledged) checkKeys(t *testing.T, s badgerstore.TestStore) {
	t.Helper()
	for id, live := range a.keys {
		_, err := s.Grant(t.Context(), crashHash(id), now)
		if live && errors.Is(err, store.ErrNoGrant) {
			// Its revocation may have been in flight.
			key, err := s.Key(t.Context(), crashAccount(id), id)
			if err != nil || key.RevokedAt.IsZero() {
				t.Errorf("key %s is lost: %+v, %v", id, key, err)
			}
			a.keys[id] = false
		}
		if !live && err == nil {
			t.Errorf("key %s is back after its revocation", id)
		}
	}
}

// TestInUse: a second process is refused with the name of the directory. What
// the first one writes meanwhile is not taken for damage, and its work goes on.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatalf("creating the account: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
	cmd, lines := start(t, "load", dir)
	attempts := 0
	for lines.Scan() {
		if attempts == 20 {
			continue // until it is dead
		}
		s, err := badgerstore.Open(dir, badgerstore.Options{})
		if !errors.Is(err, badgerstore.ErrInUse) || !strings.Contains(fmt.Sprint(err), dir) {
			t.Errorf("opening a store in use: got %v, %v", s, err)
		}
		if attempts++; attempts == 20 || t.Failed() {
			attempts = 20
			if err := cmd.Process.Kill(); err != nil {
				t.Fatalf("killing: %v", err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
}
