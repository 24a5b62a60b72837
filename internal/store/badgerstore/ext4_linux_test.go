package badgerstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

const (
	// ext4Callers is how many goroutines of a child take calls, each from a
	// counter of its own.
	ext4Callers = 8

	// synced is how long a call may be lost without Options.Sync: the log is
	// synced every second, which takes a while on a busy machine.
	synced = 3 * time.Second

	// exitNotClosed is how a child ends whose store cannot be closed.
	exitNotClosed = 3
)

// runOnDisk is a child that uses a store until it gets SIGTERM, whatever
// the disk does. It tells of every answer with a line on standard output:
// what it was, whose, and when.
func runOnDisk(task, dir string) {
	s, err := badgerstore.OpenTest(dir, badgerstore.Options{Sync: task == "disk sync"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.SetPatience(time.Second)
	for i := range ext4Callers {
		go takeOnDisk(s, fmt.Sprint(i))
	}
	go createOnDisk(s)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with its parent
		os.Exit(0)
	}()
	<-term
	if err := s.Close(); err != nil {
		fmt.Println("closing", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(exitNotClosed)
	}
	os.Exit(0)
}

func takeOnDisk(s badgerstore.TestStore, caller string) {
	for {
		began := time.Now()
		admitted, err := s.Take(context.Background(), store.Call{Account: "acc_1", Endpoint: caller, Day: today}, nil, nil)
		tell("take", caller, began, err)
		if admitted {
			s.Record(store.Record{Account: "acc_1", At: began, Endpoint: caller, Method: "GET", Path: "/", Status: 200})
		}
		time.Sleep(5 * time.Millisecond) // a load that a counter bears for minutes
	}
}

// createOnDisk makes accounts with a login token each.
func createOnDisk(s badgerstore.TestStore) {
	for n := 0; ; n++ {
		began, id := time.Now(), fmt.Sprintf("%d_%d", n, os.Getpid())
		_, err := storetest.PutAccount(context.Background(), s.Book, store.Account{ID: crashAccount(id), Plan: "starter", CreatedAt: now})
		if err == nil {
			err = s.CreateKey(context.Background(), crashKey(id), crashHash(id))
		}
		tell("key", id, began, err)
		time.Sleep(20 * time.Millisecond)
	}
}

func tell(what, id string, began time.Time, err error) {
	switch {
	case err == nil:
		fmt.Println(what, id, began.UnixNano())
	case errors.Is(err, store.ErrClosed):
	case errors.Is(err, store.ErrUnavailable):
		fmt.Println("refused", id, began.UnixNano())
	default:
		fmt.Println("wrong", strings.ReplaceAll(err.Error(), " ", "_"), began.UnixNano())
	}
}

// answer is what a child has told.
type answer struct {
	what, id string
	began    time.Time
}

// diskChild is a child that runs, and all its answers so far.
type diskChild struct {
	cmd   *exec.Cmd
	ended chan struct{} // once all its answers are read

	mu      sync.Mutex
	answers []answer
	closing string // the error of Close
}

func startOnDisk(t *testing.T, task, dir string) *diskChild {
	t.Helper()
	cmd, lines := start(t, task, dir)
	c := &diskChild{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		for lines.Scan() {
			c.read(lines.Text())
		}
		_ = cmd.Wait() // its exit code is looked at later
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-c.ended
	})
	return c
}

func (c *diskChild) read(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text, ok := strings.CutPrefix(line, "closing "); ok {
		c.closing = text
		return
	}
	var a answer
	var began int64
	if _, err := fmt.Sscan(line, &a.what, &a.id, &began); err != nil {
		a = answer{what: "wrong", id: line}
	}
	a.began = time.Unix(0, began)
	c.answers = append(c.answers, a)
}

// told returns the answers so far that are of some kind.
func (c *diskChild) told(which func(answer) bool) (some []answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.answers {
		if which(a) {
			some = append(some, a)
		}
	}
	return some
}

// after are the answers of a kind to what began after a time.
func after(what string, t time.Time) func(answer) bool {
	return func(a answer) bool { return a.what == what && a.began.After(t) }
}

// await waits until so many answers of a kind were given to what began
// after a time.
func (c *diskChild) await(t *testing.T, n int, what string, since time.Time) {
	t.Helper()
	deadline := time.After(time.Minute)
	for len(c.told(after(what, since))) < n {
		select {
		case <-c.ended:
			t.Fatalf("the child has ended, %v, before %d times %q", c.cmd.ProcessState, n, what)
		case <-deadline:
			t.Fatalf("got %d times %q, want %d", len(c.told(after(what, since))), what, n)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// awaitRefusals waits until the child has admitted nothing for 400 calls of each
// caller, since a disk broke: the background has tried to sync meanwhile.
func (c *diskChild) awaitRefusals(t *testing.T, broke time.Time) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		refused := 0
		for _, a := range c.told(func(a answer) bool { return a.began.After(broke) }) {
			if refused++; a.what != "refused" {
				refused = 0
			}
		}
		if refused >= 400*ext4Callers {
			return
		}
		select {
		case <-c.ended:
			t.Fatalf("the child has ended, %v", c.cmd.ProcessState)
		case <-deadline:
			t.Fatalf("got %d refusals in a row", refused)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// terminate ends the child with SIGTERM and returns its exit code.
func (c *diskChild) terminate(t *testing.T) int {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("terminating: %v", err)
	}
	select {
	case <-c.ended:
	case <-time.After(time.Minute):
		t.Fatal("the child does not end")
	}
	return c.cmd.ProcessState.ExitCode()
}

// wantKept opens the store and looks for what was promised: every call
// that was answered before a time, no call that was not, and every key.
func (c *diskChild) wantKept(t *testing.T, dir string, before time.Time) {
	t.Helper()
	if wrong := c.told(func(a answer) bool { return a.what == "wrong" }); len(wrong) > 0 {
		t.Errorf("%d other errors than store.ErrUnavailable, the first is %s", len(wrong), wrong[0].id)
	}
	s, err := badgerstore.OpenTest(dir, badgerstore.Options{})
	if err != nil {
		t.Fatalf("opening the repaired store: %v", err)
	}
	defer s.Close()
	got, all, promised := countsOf(t, s, "acc_1", ""), map[string]int64{}, map[string]int64{}
	for _, a := range c.told(func(a answer) bool { return a.what == "take" }) {
		all[a.id]++
		if a.began.Before(before) {
			promised[a.id]++
		}
	}
	for caller := range all {
		if got[caller] < promised[caller] || got[caller] > all[caller]+1 {
			t.Errorf("caller %s: counted %d, want %d to %d", caller, got[caller], promised[caller], all[caller]+1)
		}
	}
	for _, a := range c.told(func(a answer) bool { return a.what == "key" }) {
		if _, err := s.Grant(t.Context(), crashHash(a.id), now); err != nil {
			t.Errorf("key %s is lost: %v", a.id, err)
		}
	}
}

// ext4Store makes a store with an account on an ext4 file system.
func ext4Store(t *testing.T) (disk *storetest.Ext4, dir string) {
	t.Helper()
	disk = storetest.NewExt4(t)
	dir = filepath.Join(disk.Dir, "gate")
	s, err := badgerstore.OpenTest(dir, badgerstore.Options{})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatalf("creating the account: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
	return disk, dir
}

// TestDiskBreaks: a file system that becomes read-only, or whose device
// fails, in the middle of load. Soon every call is refused and the process
// lives, SIGTERM ends it with an error that says why, and the repaired
// store has all that was answered before the last sync.
//
// These tests do not run beside others, as they start processes.
func TestDiskBreaks(t *testing.T) {
	tests := []struct {
		name, task string
		how        func(*storetest.Ext4, *testing.T)
	}{
		{"read-only", "disk", (*storetest.Ext4).Abort},
		{"writes fail with sync", "disk sync", (*storetest.Ext4).StopWrites},
		{"read-only with sync", "disk sync", (*storetest.Ext4).Abort},
		{"writes fail", "disk", (*storetest.Ext4).StopWrites},
	}
	if !storetest.Long() {
		tests = tests[:2]
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			disk, dir := ext4Store(t)
			child := startOnDisk(t, test.task, dir)
			child.await(t, 1, "take", time.Now().Add(synced+time.Second))
			child.await(t, 10, "key", time.Time{})
			promised := time.Now().Add(-synced)
			if test.task == "disk sync" {
				promised = time.Now().Add(time.Hour)
			}
			test.how(disk, t)
			child.awaitRefusals(t, time.Now())
			if code := child.terminate(t); code != exitNotClosed || !strings.Contains(child.closing, "store is unavailable") {
				t.Errorf("ended with code %d and %q, want %d and why the store is unavailable", code, child.closing, exitNotClosed)
			}
			disk.Repair(t)
			child.wantKept(t, dir, promised)
		})
	}
}
