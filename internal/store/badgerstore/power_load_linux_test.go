//go:build !386 && !arm && !mipsle

package badgerstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

const (
	powerLimit   = 300 // of a day, for the calls to "limited"
	powerCost    = 5   // of a call to "settled", before it is settled
	powerImports = 150 // accounts in an import
	powerLive    = 10  // keys of an account
)

// recorderTask and loadTask are the tasks of children: with the file of the
// recorder, or with a load, Options.Sync, the number of the process and the day.
const (
	recorderTask = "power recorder "
	loadTask     = "power load %s %t %d %d"
)

// powerLoads are kinds of load: the size of segments, and who works.
var powerLoads = map[string]struct {
	segments int
	workers  string
}{
	"calls":    {1 << 17, "calls_0 calls_1 calls_2"},
	"changes":  {1 << 17, "change keys_0 keys_1 credits rows"},
	"imports":  {1 << 20, "import calls_0 rows"},
	"backups":  {1 << 20, "dump calls_0 change keys_0 rows"},
	"segments": {smallSegments, "calls_0 calls_1 calls_2 change keys_0"},
	"all":      {1 << 14, "calls_0 calls_1 change keys_0 keys_1 credits import dump rows"},
}

// powerLoad is a child that puts load on a store until it gets SIGTERM.
type powerLoad struct {
	s       badgerstore.TestStore
	process int64 // the processes of a recording have numbers
	day     calendar.Day
}

// runPower is a child: the recorder, or a load on a recorded file system.
func runPower(task, dir string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)                         // it ends with its parent
		_ = unix.Unmount(filepath.Join(dir, "mnt"), unix.MNT_DETACH) // that of a recorder
		os.Exit(1)
	}()
	var load string
	var sync bool
	var err error
	l := &powerLoad{}
	if ops, records := strings.CutPrefix(task, recorderTask); records {
		err = runRecorder(dir, ops)
	} else if _, err = fmt.Sscanf(task, loadTask, &load, &sync, &l.process, &l.day); err == nil {
		l.run(dir, load, sync)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (l *powerLoad) run(dir, load string, sync bool) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	kind := powerLoads[load]
	l.did("open", "", l.process, func() (err error) {
		l.s, err = badgerstore.OpenTest(dir, badgerstore.Options{Sync: sync}.WithSegments(kind.segments))
		return err
	})
	for _, worker := range strings.Fields(kind.workers) {
		go l.work(worker)
	}
	go writeBack(dir)
	<-term
	l.did("close", "", l.process, l.s.Close)
}

// did does a step, and tells on standard output when it began, and when it was
// answered. The number is not less than that of the step before.
func (l *powerLoad) did(what, id string, number int64, do func() error) {
	fmt.Println("began", what, id+".", number, clock())
	switch err := do(); {
	case err == nil:
		fmt.Println("answered", what, id+".", number, clock())
	case errors.Is(err, errRefused):
	case errors.Is(err, store.ErrClosed):
		select {} // until the process ends
	default:
		fmt.Fprintln(os.Stderr, what, id, err)
		os.Exit(1)
	}
}

// errRefused means that a limit has refused a call.
var errRefused = errors.New("refused")

// work does the steps of a worker. Its name is also that of its account.
func (l *powerLoad) work(worker string) {
	kind, _, hasAccount := strings.Cut(worker, "_")
	if hasAccount || worker == "credits" {
		l.did("account", worker, l.process, func() error {
			_, err := storetest.PutAccount(context.Background(), l.s.Book, store.Account{ID: worker, Plan: "p0"})
			return err
		})
	}
	does := map[string]struct {
		step  func(l *powerLoad, account string, number int64)
		pause time.Duration
	}{
		"calls": {(*powerLoad).calls, 2 * time.Millisecond}, "change": {(*powerLoad).change, 10 * time.Millisecond},
		"keys": {(*powerLoad).keys, 10 * time.Millisecond}, "credits": {(*powerLoad).credit, 15 * time.Millisecond},
		"import": {(*powerLoad).imports, 100 * time.Millisecond}, "dump": {(*powerLoad).dump, 200 * time.Millisecond},
		"rows": {(*powerLoad).rows, 16 * time.Millisecond},
	}[kind]
	for number := l.process << 32; ; number++ {
		does.step(l, worker, number)
		time.Sleep(does.pause)
	}
}

// take takes a call.
func (l *powerLoad) take(id, endpoint string, cost int64, limits ...store.Limit) error {
	call := store.Call{Account: id, Endpoint: endpoint, At: time.Now(), Day: l.day, Cost: cost}
	admitted, err := l.s.Take(context.Background(), call, limits, make([]store.Room, len(limits)))
	if err == nil && !admitted {
		return errRefused
	}
	return err
}

// calls takes calls: without a limit, with one, with a receipt, and a settled one,
// whose number is what it costs.
func (l *powerLoad) calls(id string, number int64) {
	l.did("call", id+"/named", number, func() error {
		call := store.Call{Account: id, Endpoint: "named", At: time.Now(), Day: l.day, Cost: 1}
		call.Receipt = &store.Receipt{Name: fmt.Sprint(number), New: []byte("x"), Expires: time.Now().Add(time.Hour)}
		_, err := l.s.Take(context.Background(), call, nil, nil)
		return err
	})
	l.did("call", id+"/free", number, func() error { return l.take(id, "free", 1) })
	l.did("call", id+"/limited", number, func() error {
		return l.take(id, "limited", 1, badgerstore.Daily("limited", powerLimit)...)
	})
	l.did("settled", id, number%powerCost, func() error {
		if err := l.take(id, "settled", powerCost); err != nil {
			return err
		}
		return l.s.Settle(context.Background(), store.Call{Account: id, Endpoint: "settled", Day: l.day, Cost: powerCost}, nil, nil, number%powerCost, false)
	})
	l.s.Record(store.Record{Account: id, At: time.Now(), Endpoint: "free", Method: "GET", Path: "/free", Status: 200})
}

// change changes an account.
func (l *powerLoad) change(_ string, number int64) { l.changeTo("change", number, "changed") }

// changeTo changes accounts. All that they have tells the number of the change.
func (l *powerLoad) changeTo(what string, number int64, ids ...string) {
	l.did(what, ids[0], number, func() error {
		return errors.Join(l.s.Change(context.Background(), time.Now(), ids, func(_ int, a *book.Account) error {
			a.Exists, a.Label, a.Plan, a.Disabled = true, fmt.Sprint(number), planOf(number), number%3 == 0
			limit := store.Limit{Endpoint: "free", Period: store.Day, Max: number}
			a.Overrides = []store.Override{{Limit: limit, CreatedAt: time.Now()}}
			a.Record(store.Entry{At: time.Now(), Action: "account.change", Target: a.Label})
			return nil
		})...)
	})
}

func planOf(number int64) string { return fmt.Sprint("p", number%7) }

// keys creates a key and revokes an older one.
func (l *powerLoad) keys(account string, number int64) {
	id := func(number int64) string { return fmt.Sprint(account, "_", number) }
	l.did("create", id(number), number, func() error {
		key := store.Key{ID: id(number), Account: account, Kind: token.Key, Name: id(number), CreatedAt: time.Now()}
		return l.s.CreateKey(context.Background(), key, keyHash(key.ID))
	})
	if old := number - powerLive; old>>32 == l.process {
		l.did("revoke", id(old), number, func() error { return l.s.RevokeKey(context.Background(), account, id(old), time.Now()) })
	}
}

// keyHash is the hash of the token of a key.
func keyHash(id string) (hash token.Hash) {
	copy(hash[:], id)
	return hash
}

// credit takes two calls and credits one. Its number is what is credited.
func (l *powerLoad) credit(id string, number int64) {
	counts, err := l.s.Counts(context.Background(), id, store.Credited, l.day, l.day)
	total := int64(1)
	for _, c := range counts {
		total += c.Used
	}
	for range 2 {
		l.did("call", id+"/free", number, func() error { return l.take(id, "free", 1) })
	}
	l.did("credit", id, total, func() error {
		return errors.Join(err, l.s.Credit(context.Background(), id, nil, l.day, "free", total))
	})
}

// imports changes many accounts at once.
func (l *powerLoad) imports(_ string, number int64) {
	ids := make([]string, powerImports)
	for i := range ids {
		ids[i] = fmt.Sprintf("imported_%03d", i)
	}
	l.changeTo("import", number, ids...)
}

// dump makes a backup.
func (l *powerLoad) dump(_ string, number int64) {
	l.did("dump", "", number, func() error {
		return l.s.Book.Dump(context.Background(), func(book.Piece) error { return nil })
	})
}

// rows writes a large row, so that Badger soon begins another memtable.
func (l *powerLoad) rows(_ string, number int64) {
	row := login.Row{Key: fmt.Appendf(nil, "rows%05d", number%64), Value: make([]byte, 200<<10), ExpiresAt: time.Now().Add(time.Hour)}
	l.did("rows", "", number, func() error { return l.s.Save(context.Background(), []login.Row{row}) })
}

// writeBack makes the kernel write parts of files at random, as it does without
// being asked.
func writeBack(dir string) {
	for {
		time.Sleep(rand.N(60 * time.Millisecond))
		paths, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(paths) == 0 {
			continue
		}
		f, err := os.Open(paths[rand.N(len(paths))])
		if err != nil {
			continue // it was removed
		}
		if info, err := f.Stat(); err == nil && info.Size() > 0 {
			at, size := rand.N(info.Size())/pageSize*pageSize, int64(pageSize)<<rand.N(10)
			_ = unix.SyncFileRange(int(f.Fd()), at, size, unix.SYNC_FILE_RANGE_WRITE) // it is no matter which parts
		}
		_ = f.Close()
	}
}
