package badgerstore_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// limitStep is what a caller does in a step of its own: it takes a call of
// some cost, or gives back the one before.
func limitStep(n int) (cost int64, back bool) {
	if n%5 == 4 {
		cost, _ = limitStep(n - 1)
		return cost, true
	}
	return int64(n*n%97 + 1), false
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

// runLimits takes calls and gives some back until the process is killed. It
// acknowledges each step with a line.
func runLimits(dir string, o badgerstore.Options) {
	s, err := badgerstore.Open(dir, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for caller := range crashCallers {
		go func() {
			for n := 0; takeStep(s, caller, n); n++ {
				fmt.Println(caller)
			}
		}()
	}
	go churn(s)
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with its parent
	os.Exit(0)
}

// takeStep tells whether a step worked.
func takeStep(s *badgerstore.Store, caller, n int) bool {
	cost, back := limitStep(n)
	call := limitCall(caller, cost)
	if back {
		return s.GiveBack(context.Background(), call) == nil
	}
	admitted, err := s.Take(context.Background(), call, fourLimits(call.Endpoint), make([]store.Room, 4))
	return admitted && err == nil
}

// TestKillWithFourLimits kills a process whose calls have four limits. Each
// call that was acknowledged is in all counters. One that was in flight is in
// all or in none.
func TestKillWithFourLimits(t *testing.T) {
	rounds := 8
	if storetest.Long() {
		rounds = 160
	}
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatal(err)
	}
	used := map[string]int64{} // by endpoint
	for round := range rounds {
		if err := s.Close(); err != nil {
			t.Fatalf("closing: %v", err)
		}
		steps := stepsUntilKilled(t, []string{"limits", "limits rotate"}[round%2], dir, 100+round*61)
		s = open(t, dir)
		checkLimits(t, s, used, steps)
		if t.Failed() {
			t.Fatalf("after %d kills", round+1)
		}
	}
}

// stepsUntilKilled kills a child after some steps and returns how many each
// caller had acknowledged.
func stepsUntilKilled(t *testing.T, task, dir string, after int) (steps [crashCallers]int) {
	t.Helper()
	cmd, lines := start(t, task, dir)
	for n := 0; lines.Scan(); n++ {
		caller, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		steps[caller]++
		if n == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatalf("killing: %v", err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended on its own: %v", err)
	}
	return steps
}

// checkLimits compares the counters with the steps of the callers, and adds
// what they counted to used.
func checkLimits(t *testing.T, s *badgerstore.Store, used map[string]int64, steps [crashCallers]int) {
	t.Helper()
	account, sum := countsOf(t, s, ""), int64(0)
	for caller, n := range steps {
		endpoint := strconv.Itoa(caller)
		least := used[endpoint]
		for i := range n {
			least = stepped(least, i)
		}
		got := account[endpoint]
		if got != least && got != stepped(least, n) {
			t.Errorf("caller %d: counted %d, want %d, or %d with the step in flight", caller, got, least, stepped(least, n))
		}
		if ofKey := countsOf(t, s, limitCall(caller, 1).Key)[endpoint]; ofKey != got {
			t.Errorf("caller %d: counted %d for the account and %d for the key", caller, got, ofKey)
		}
		used[endpoint] = got
		sum += got
	}
	for caller := range steps {
		call := limitCall(caller, 1)
		limits := fourLimits(call.Endpoint)
		rooms := make([]store.Room, len(limits))
		if err := s.Rooms(t.Context(), call, limits, rooms); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int64{used[call.Endpoint], used[call.Endpoint], sum, used[call.Endpoint]} {
			if got := limits[i].Max - rooms[i].Remaining; got != want {
				t.Errorf("caller %d: limit %+v has used %d, want %d", caller, limits[i], got, want)
			}
		}
	}
}

// stepped is what a counter has after a step.
func stepped(used int64, n int) int64 {
	cost, back := limitStep(n)
	if back {
		return used - cost
	}
	return used + cost
}

// countsOf returns the counts of today by endpoint.
func countsOf(t *testing.T, s *badgerstore.Store, key string) map[string]int64 {
	t.Helper()
	list, err := s.Counts(t.Context(), "acc_1", key, today, today)
	if err != nil {
		t.Fatalf("reading the counts: %v", err)
	}
	counts := map[string]int64{}
	for _, c := range list {
		counts[c.Endpoint] = c.Used
	}
	return counts
}
