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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// crashCallers is how many goroutines count in the child, each on a
// counter of its own and on one that all share.
const crashCallers = 16

// smallSegments is a size of the log's segments at which a child that is
// soon killed begins several, and moves those that ended to the archive.
const smallSegments = 1 << 12

// runChild is what a child process does, until it is killed.
func runChild(task, dir string) {
	switch task {
	case "disk", "disk sync":
		runOnDisk(task, dir)
	case "limits":
		runLimits(dir, badgerstore.Options{})
	case "limits rotate":
		runLimits(dir, badgerstore.Options{}.WithSegments(smallSegments))
	}
	o := badgerstore.Options{Sync: task == "sync"}
	if task != "load" && task != "logins" {
		o = o.WithSegments(smallSegments)
	}
	var faulty atomic.Bool
	if task == "faults" {
		o = o.WithFaults(func() bool { return faulty.Load() && rand.N(20) == 0 })
	}
	s, err := badgerstore.Open(dir, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch task {
	case "logins":
		go endLogins(s)
	case "faults":
		faulty.Store(true)
		go export(s)
		go export(s)
		fallthrough
	default:
		for i := range crashCallers {
			go load(s, i)
		}
		go churn(s)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with its parent
	os.Exit(0)
}

// export exports a store and does the background work of a second, again and
// again. The disk refuses some of it.
func export(s *badgerstore.Store) {
	for {
		_ = s.Export(context.Background(), func(store.Item) error { return nil })
		_ = s.FlushForTest()
	}
}

// load takes calls, makes keys and revokes them, and acknowledges each
// with a line on standard output, as a gate does with a request. What the
// disk refuses it leaves out.
func load(s *badgerstore.Store, caller int) {
	ctx := context.Background()
	for n := 0; ; n++ {
		for _, counter := range []string{"shared", fmt.Sprint(caller)} {
			admitted, err := s.Take(ctx, crashCall(counter), nil, nil)
			switch {
			case admitted:
				fmt.Println("take", counter)
			case !errors.Is(err, store.ErrUnavailable):
				return
			}
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

// churn overwrites large rows, so that memtables are written out and
// compacted all the time.
func churn(s *badgerstore.Store) {
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

func crashCall(counter string) store.Call {
	return store.Call{Account: "acc_1", Endpoint: counter, Day: today}
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

// acknowledged is what a child has promised before it died.
type acknowledged struct {
	takes map[string]int64
	keys  map[string]bool // false once revoked
}

// TestKill kills a process under load, over and over: the store opens,
// every call that was acknowledged is counted, none is counted twice, no
// key is lost and no revoked one is back. Some of the processes export their
// store while syncs of its log fail.
//
// Tests that start processes do not run beside others: between fork and
// exec a child has a copy of every lock that its parent holds.
func TestKill(t *testing.T) {
	const rounds = 20
	dir := t.TempDir()
	s := open(t, dir)
	acks := acknowledged{takes: map[string]int64{"shared": 0}, keys: map[string]bool{}}
	for caller := range crashCallers {
		id := crashAccount(fmt.Sprint(caller))
		if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: id, Plan: "starter", CreatedAt: now}); err != nil {
			t.Fatalf("creating an account: %v", err)
		}
		acks.takes[fmt.Sprint(caller)] = 0 // a call may count without an acknowledgement
	}
	for round := range rounds {
		if err := s.Close(); err != nil {
			t.Fatalf("closing: %v", err)
		}
		task := []string{"load", "rotate", "faults", "load", "sync"}[round%5]
		acks.killed(t, task, dir, 50+round*31)
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
		case "take":
			a.takes[id]++
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
	cmd, _, lines := startWithInput(t, task, dir)
	return cmd, lines
}

// startWithInput starts a child that can be told something.
func startWithInput(t *testing.T, task, dir string) (*exec.Cmd, io.Writer, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), child+"="+task)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatalf("starting a child: %v", err)
	}
	return cmd, in, bufio.NewScanner(out)
}

// check compares a store with what was acknowledged. A call that was
// under way may be counted, and is from then on.
func (a *acknowledged) check(t *testing.T, s *badgerstore.Store) {
	t.Helper()
	counts, err := s.Counts(t.Context(), "acc_1", "", today, today)
	if err != nil {
		t.Fatalf("reading the counts: %v", err)
	}
	got := map[string]int64{}
	for _, c := range counts {
		got[c.Endpoint] = c.Used
	}
	inFlight := int64(0)
	for counter, want := range a.takes {
		most := want + 1
		if counter == "shared" {
			most = want + crashCallers
		}
		if got[counter] < want || got[counter] > most {
			t.Errorf("%s: counted %d, acknowledged %d, at most %d", counter, got[counter], want, most)
		}
		inFlight += got[counter] - want
		a.takes[counter] = got[counter]
	}
	if inFlight > crashCallers {
		t.Errorf("%d calls more than acknowledged, with %d callers", inFlight, crashCallers)
	}
	for id, live := range a.keys {
		_, err := s.Grant(t.Context(), crashHash(id), now)
		if live && errors.Is(err, store.ErrNoGrant) {
			// Its revocation may have been under way.
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
	if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatalf("creating the account: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
	cmd, lines := start(t, "load", dir)
	attempts := 0
	for lines.Scan() {
		if attempts == 50 {
			continue // until it is dead
		}
		s, err := badgerstore.Open(dir, badgerstore.Options{})
		if !errors.Is(err, badgerstore.ErrInUse) || !strings.Contains(fmt.Sprint(err), dir) {
			t.Errorf("opening a store in use: got %v, %v", s, err)
		}
		if attempts++; attempts == 50 || t.Failed() {
			attempts = 50
			if err := cmd.Process.Kill(); err != nil {
				t.Fatalf("killing: %v", err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
}
