//go:build !386 && !arm && !mipsle

package badgerstore_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/ristretto/v2/z"
	"golang.org/x/sys/unix"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// powerProcesses are those of a recording: with Options.Sync or not, and how each
// ends.
var powerProcesses = []struct {
	sync bool
	end  syscall.Signal
}{
	{false, syscall.SIGTERM},
	{true, syscall.SIGKILL},
	{false, syscall.SIGKILL},
	{true, syscall.SIGTERM},
}

// TestPowerCut: a store is under load on a file system that records each change,
// pages of mapped files included. Directories are rebuilt as a power cut can leave
// them. Each of them opens without help, and has all that was answered, and nothing
// else. Without Options.Sync, the calls of about the last second
// can be lost.
//
// TOLLGATE_POWER_SEED repeats the choices of a run, but no two recordings are the
// same. TOLLGATE_POWER_KEEP is a directory for what is left of failures.
//
// It does not run beside others, as it starts processes.
func TestPowerCut(t *testing.T) {
	needFuse(t)
	seed := powerSeed(t)
	loads, states, runs := []string{"all"}, 60, 1200*time.Millisecond
	if storetest.Long() {
		loads, states, runs = []string{"calls", "changes", "imports", "backups", "segments", "all"}, 200, 4*time.Second
	}
	for i, load := range loads {
		t.Run(load, func(t *testing.T) {
			p := recordPower(t, load, runs, false)
			p.checkCuts(t, rand.NewPCG(seed, uint64(i)), states)
		})
	}
}

// TestPowerCutOfBlocks is TestPowerCut where the writes and flushes of a disk are
// recorded, and the disk has an ext4 file system. "./xcaddy.sh test --long" runs it.
func TestPowerCutOfBlocks(t *testing.T) {
	if !storetest.Long() {
		t.Skip("only in long tests")
	}
	needFuse(t)
	storetest.NeedExt4(t)
	seed := powerSeed(t)
	p := recordPower(t, "all", 4*time.Second, true)
	p.checkCuts(t, rand.NewPCG(seed, 0), 150)
}

// needFuse skips a test that mounts a file system with FUSE, which requires root and
// a kernel that can.
func needFuse(t *testing.T) {
	t.Helper()
	storetest.NeedRoot(t)
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this kernel has no FUSE: %v", err)
	}
	_ = f.Close() // nothing was done with it
}

func powerSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("TOLLGATE_POWER_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TOLLGATE_POWER_SEED=%d", seed)
	return seed
}

// powerRun is a recording, and where its states are rebuilt.
type powerRun struct {
	dir    string // a small disk
	blocks bool   // the only file has the blocks of a disk
	day    calendar.Day
	began  int64 // when the first process did
	ops    []*op
	steps  []powerStep
}

// recordPower records a load.
func recordPower(t *testing.T, load string, runs time.Duration, blocks bool) *powerRun {
	t.Helper()
	p := &powerRun{dir: storetest.NewSmallDisk(t).Dir, day: today, blocks: blocks}
	began := time.Now()
	ops := filepath.Join(t.TempDir(), "ops")
	unmount := startRecorder(t, p.dir, ops)
	dir := filepath.Join(p.dir, "mnt")
	if blocks {
		if out, err := exec.Command("mkfs.ext4", "-q", "-F", filepath.Join(dir, diskImage), "512M").CombinedOutput(); err != nil {
			t.Fatalf("mkfs.ext4: %v\n%s", err, out)
		}
		if err := errors.Join(z.SyncDir(dir), mountImage(dir, filepath.Join(p.dir, "disk"))); err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(p.dir, "disk")
		t.Cleanup(func() { storetest.Unmount(t, dir) })
	}
	p.began = clock()
	for i, process := range powerProcesses {
		cmd, lines := start(t, fmt.Sprintf(loadTask, load, process.sync, i, p.day), filepath.Join(dir, "gate"))
		timer := time.AfterFunc(runs, func() { _ = cmd.Process.Signal(process.end) }) // it may have ended
		p.read(t, lines, process.sync)
		timer.Stop()
		err := cmd.Wait()
		if process.end == syscall.SIGTERM && err != nil || process.end == syscall.SIGKILL && !strings.Contains(fmt.Sprint(err), "killed") {
			t.Fatalf("the child ended: %v", err)
		}
	}
	if blocks {
		storetest.Unmount(t, dir)
	}
	unmount()
	var err error
	if p.ops, err = readOps(ops); err != nil {
		t.Fatalf("reading the recording: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(p.dir, "back")); err != nil {
		t.Fatal(err)
	}
	t.Logf("recorded %d operations and %d steps in %s", len(p.ops), len(p.steps), time.Since(began).Round(time.Millisecond))
	return p
}

// diskImage is the name of a file with the blocks of a disk.
const diskImage = "image"

// mountImage mounts the disk whose blocks are in a directory.
func mountImage(from, at string) error {
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	out, err := exec.Command("mount", "-o", "loop", filepath.Join(from, diskImage), at).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mounting a disk: %w\n%s", err, out)
	}
	return nil
}

// startRecorder mounts a recorder at dir/mnt. unmount returns when all is recorded.
func startRecorder(t *testing.T, dir, ops string) (unmount func()) {
	t.Helper()
	mnt := filepath.Join(dir, "mnt")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "back"), 0o700), os.Mkdir(mnt, 0o700)); err != nil {
		t.Fatal(err)
	}
	cmd, _ := start(t, recorderTask+ops, dir)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	unmount = sync.OnceFunc(func() {
		storetest.Unmount(t, mnt)
		if err := <-ended; err != nil {
			t.Errorf("the recorder ended: %v", err)
		}
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var stat unix.Statfs_t
		err := unix.Statfs(mnt, &stat)
		if err == nil && stat.Type == unix.FUSE_SUPER_MAGIC {
			break
		}
		if len(ended) > 0 || time.Now().After(end) {
			t.Fatalf("the recorder mounts nothing: %v", err)
		}
	}
	t.Cleanup(unmount)
	return unmount
}

// read reads what a child says that puts load on a store.
func (p *powerRun) read(t *testing.T, lines *bufio.Scanner, sync bool) {
	t.Helper()
	open := map[string]int{} // the steps without an answer
	for lines.Scan() {
		var event string
		var at int64
		s := powerStep{sync: sync}
		if _, err := fmt.Sscan(lines.Text(), &event, &s.what, &s.id, &s.number, &at); err != nil {
			t.Fatalf("the child says %q: %v", lines.Text(), err)
		}
		s.id = strings.TrimSuffix(s.id, ".")
		key := s.what + " " + s.id
		if event == "answered" {
			p.steps[open[key]].answered = at
			continue
		}
		s.began, open[key] = at, len(p.steps)
		p.steps = append(p.steps, s)
	}
}

// checkCuts rebuilds what power cuts leave, and checks it.
func (p *powerRun) checkCuts(t *testing.T, seed *rand.PCG, states int) {
	t.Helper()
	type state struct {
		*cut
		*left
	}
	var done sync.WaitGroup
	work := make(chan state)
	workers := runtime.GOMAXPROCS(0)
	if p.blocks {
		workers = 1 // it starts processes
	}
	for i := range workers {
		done.Go(func() {
			for s := range work {
				if bad := p.check(t.Context(), s.left, filepath.Join(p.dir, fmt.Sprint("state", i))); len(bad) > 0 {
					t.Errorf("%s (%d): %s", s.cut, s.ended, strings.Join(bad[:min(len(bad), 5)], "; "))
				}
			}
		})
	}
	disk := newPowerDisk(p.ops)
	for _, c := range p.cuts(rand.New(seed), states) {
		disk.advance(c.at)
		work <- state{c, disk.cut(c)}
	}
	close(work)
	done.Wait()
}

// cuts returns power cuts in their order: a third of them anywhere, a third near a
// change of names or of a size, or near a flush of a disk, and a third while a
// process starts or stops or Badger writes a table.
func (p *powerRun) cuts(r *rand.Rand, states int) []*cut {
	when := func(at int64) int {
		i, _ := slices.BinarySearchFunc(p.ops, at, func(o *op, at int64) int { return cmp.Compare(o.Ended, at) })
		return i
	}
	first := when(p.began) + 1
	var special []int
	var moments [][2]int64
	for i, o := range p.ops {
		if o.Kind == opSync && filepath.Ext(o.Path) == ".sst" {
			moments = append(moments, [2]int64{o.Began, o.Ended})
		}
		if syncs := o.Kind == opSync || o.Kind == opSyncDir; i >= first && o.Kind != opWrite && syncs == p.blocks {
			special = append(special, i)
		}
	}
	for _, s := range p.steps {
		if (s.what == "open" || s.what == "close") && s.answered > 0 {
			moments = append(moments, [2]int64{s.began, s.answered})
		}
	}
	cuts := make([]*cut, states)
	for i := range cuts {
		at := 0
		switch i % 3 {
		case 0:
			at = first + r.IntN(len(p.ops)-first)
		case 1:
			at = special[r.IntN(len(special))] + r.IntN(8) - 3
		case 2:
			moment := moments[r.IntN(len(moments))]
			from := when(moment[0])
			at = from + r.IntN(when(moment[1])-from+1)
		}
		cuts[i] = &cut{
			at: min(max(at, first), len(p.ops)-1), way: powerWays[i/3%len(powerWays)], strict: i/18%2 == 1,
			Rand: rand.New(rand.NewPCG(r.Uint64(), 0)),
		}
	}
	slices.SortFunc(cuts, func(a, b *cut) int { return cmp.Compare(a.at, b.at) })
	return cuts
}

// check returns what is wrong with what a power cut leaves.
func (p *powerRun) check(ctx context.Context, l *left, dir string) []string {
	o := newPowerOracle(p.steps, p.day, l)
	err := p.withLeft(l, dir, func(root string) error { return o.openTwice(ctx, filepath.Join(root, "gate")) })
	if err != nil {
		o.bad = append(o.bad, err.Error())
	}
	if keep := os.Getenv("TOLLGATE_POWER_KEEP"); keep != "" && len(o.bad) > 0 {
		if err := l.save(filepath.Join(keep, fmt.Sprint(l.ended))); err != nil {
			o.bad = append(o.bad, err.Error())
		}
	}
	return o.bad
}

// withLeft calls do with the file system that a power cut leaves.
func (p *powerRun) withLeft(l *left, dir string, do func(root string) error) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := l.save(dir); err != nil {
		return err
	}
	if !p.blocks {
		return do(dir)
	}
	root := filepath.Join(dir, "disk")
	if err := mountImage(dir, root); err != nil {
		return err
	}
	err = do(root)
	return errors.Join(err, unix.Unmount(root, 0))
}
