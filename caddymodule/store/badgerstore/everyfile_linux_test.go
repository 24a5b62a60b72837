package badgerstore_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// livePart makes everything that a store keeps, and changes some of what
// the part before it made. Its last change is one of an account.
func livePart(ctx context.Context, s *badgerstore.Store, part int) error {
	var errs []error
	id := func(part, n int) string { return fmt.Sprintf("acc_%d_%d", part, n) }
	put := func(a store.Account) {
		a.CreatedAt = now
		_, err := storetest.PutAccount(ctx, s, a)
		errs = append(errs, err)
	}
	for n := range 5 {
		account := id(part, n)
		put(store.Account{ID: account, Plan: "business"})
		for k := range 2 {
			key := fmt.Sprintf("key_%d_%d_%d", part, n, k)
			errs = append(errs, s.CreateKey(ctx,
				store.Key{ID: key, Account: account, Kind: token.Key, Name: key, CreatedAt: now}, crashHash(key)))
		}
		for c := range 100 {
			_, err := s.Take(ctx, store.Call{Account: account, Endpoint: fmt.Sprintf("endpoint_%d", c%20), Day: today}, nil, nil)
			errs = append(errs, err)
		}
		for r := range 20 {
			s.Record(store.Record{Account: account, At: now.Add(time.Duration(r) * time.Millisecond), Endpoint: "convert", Method: "GET", Path: "/", Status: 200})
		}
		_, err := s.Recent(ctx, account, now) // writes them
		errs = append(errs, err)
	}
	if part > 0 {
		errs = append(errs, s.RevokeKey(ctx, id(part-1, 0), fmt.Sprintf("key_%d_0_0", part-1), now))
		put(store.Account{ID: id(part-1, 1), Plan: "free"})
		put(store.Account{ID: id(part-1, 2), Plan: "business", Disabled: true})
	}
	return errors.Join(errs...)
}

// state is all that a store tells of what it keeps, as text.
func state(t *testing.T, s *badgerstore.Store) string {
	t.Helper()
	ctx := t.Context()
	var text strings.Builder
	accounts, err := s.ListAccounts(ctx, "", 1000)
	for _, a := range accounts {
		keys, keysErr := s.ListKeys(ctx, a.ID)
		counts, countsErr := s.Counts(ctx, a.ID, "", today-1, today+1)
		recent, recentErr := s.Recent(ctx, a.ID, now)
		err = errors.Join(err, keysErr, countsErr, recentErr)
		slices.SortFunc(counts, func(x, y store.Count) int { return strings.Compare(x.Endpoint, y.Endpoint) })
		fmt.Fprintf(&text, "%+v\ncounts %v\nrecent %v\n", a, counts, recent)
		for _, key := range keys {
			grant, refused := s.Grant(ctx, crashHash(key.ID), now)
			grant.Handle = 0
			fmt.Fprintf(&text, "%+v grants %+v %v\n", key, grant, refused)
		}
	}
	if err != nil {
		t.Errorf("reading the state: %v", err)
	}
	return text.String()
}

// runSample is a child that makes one part after the other, each when it
// reads a line, and tells when it is done.
func runSample(dir string) {
	s, err := badgerstore.Open(dir, badgerstore.Options{}.WithSegments(smallSegments))
	lines := bufio.NewScanner(os.Stdin)
	for part := sampleParts; err == nil && lines.Scan(); part++ {
		err = livePart(context.Background(), s, part)
		fmt.Println("done", part)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1) // it is killed before
}

// sampleParts is how many parts are in tables before the newest ones.
const sampleParts = 2

// sample is a store as a process has left it, with an older copy.
type sample struct {
	name, newer, older string
	state              string // of newer
	cost               uint64 // of opening it, in allocated bytes
}

// newSample makes a store that is complete, and copies of it while the last
// two parts are added. stop ends the process that adds them.
func newSample(t *testing.T, name string, add func(t *testing.T, dir string, copied func())) *sample {
	t.Helper()
	live := t.TempDir()
	for part := range sampleParts {
		s := open(t, live)
		if err := errors.Join(livePart(t.Context(), s, part), s.Close()); err != nil {
			t.Fatalf("filling: %v", err)
		}
	}
	var copies []string
	add(t, live, func() {
		dir := t.TempDir()
		copyStore(t, live, dir)
		copies = append(copies, dir)
	})
	result := &sample{name: name, older: copies[0], newer: copies[1]}
	intact := t.TempDir()
	copyStore(t, result.newer, intact)
	result.cost = allocated(func() {
		s := open(t, intact)
		result.state = state(t, s)
		if err := s.Close(); err != nil {
			t.Fatalf("closing: %v", err)
		}
	})
	for part := range sampleParts + 2 {
		if !strings.Contains(result.state, fmt.Sprintf("ID:acc_%d_4 ", part)) {
			t.Fatalf("part %d is not in the sample:\n%s", part, result.state)
		}
	}
	return result
}

// stopped is a store that was closed.
func stopped(t *testing.T, dir string, copied func()) {
	t.Helper()
	for part := range 2 {
		s, err := badgerstore.Open(dir, badgerstore.Options{}.WithSegments(smallSegments))
		if err != nil {
			t.Fatalf("opening: %v", err)
		}
		if err := errors.Join(livePart(t.Context(), s, sampleParts+part), s.Close()); err != nil {
			t.Fatalf("filling: %v", err)
		}
		copied()
	}
}

// killed is a store whose process was killed. A process that does nothing
// leaves the same files when it is killed: they are copied before.
func killed(t *testing.T, dir string, copied func()) {
	t.Helper()
	cmd, in, lines := startWithInput(t, "sample", dir)
	for range 2 {
		if _, err := fmt.Fprintln(in); err != nil || !lines.Scan() {
			t.Fatalf("the child has ended: %v", err)
		}
		copied()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// damage is a way to damage a file, at a place that a seed decides unless
// there is only one.
type damage struct {
	name   string
	places int // 0 for as many as there are seeds
	// do changes the contents of a file. A nil result deletes it.
	do func(file string, data []byte, random *rand.Rand) []byte
}

const pageSize = 4 << 10

var damages = []damage{
	{"flipped", 0, func(_ string, data []byte, random *rand.Rand) []byte {
		if n := content(data); n > 0 {
			data[random.IntN(n)] ^= 1 << random.IntN(8)
		}
		return data
	}},
	{"flipped anywhere", 0, func(_ string, data []byte, random *rand.Rand) []byte {
		if len(data) > 0 {
			data[random.IntN(len(data))] ^= 1 << random.IntN(8)
		}
		return data
	}},
	{"empty", 1, func(_ string, data []byte, _ *rand.Rand) []byte { return data[:0] }},
	{"cut to 20 bytes", 1, func(_ string, data []byte, _ *rand.Rand) []byte { return data[:min(20, len(data))] }},
	{"cut in half", 1, func(_ string, data []byte, _ *rand.Rand) []byte { return data[:len(data)/2] }},
	{"cut within its content", 0, func(_ string, data []byte, random *rand.Rand) []byte {
		return data[:random.IntN(content(data)+1)]
	}},
	{"without its last byte", 1, func(_ string, data []byte, _ *rand.Rand) []byte { return data[:max(0, len(data)-1)] }},
	{"deleted", 1, func(string, []byte, *rand.Rand) []byte { return nil }},
	{"with a page of zeros", 0, zeroPage},
	{"with junk behind", 0, func(_ string, data []byte, random *rand.Rand) []byte {
		for range 8 {
			n := random.Uint64()
			data = append(data, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32), byte(n>>40), byte(n>>48), byte(n>>56))
		}
		return data
	}},
}

// zeroPage overwrites a page with zeros. It spares the page in which the
// log of counts ends: a loss of its last records cannot be told from a
// crash before they were written.
func zeroPage(file string, data []byte, random *rand.Rand) []byte {
	pages := (content(data) + pageSize - 1) / pageSize
	if filepath.Ext(file) == ".log" && pages > 1 {
		pages--
	}
	if pages > 0 {
		from := random.IntN(pages) * pageSize
		clear(data[from:min(from+pageSize, len(data))])
	}
	return data
}

// TestDamageOfEveryFile damages every file of a store, after a clean stop
// and after kill -9. The store is refused with the reason, or has the same
// state. Both take a limited amount of memory and time. Without --long, each
// damage of a file is tried in one of the two samples.
func TestDamageOfEveryFile(t *testing.T) {
	seeds := 1
	if storetest.Long() {
		seeds = 20
	}
	for sampled, left := range []*sample{newSample(t, "stopped", stopped), newSample(t, "killed", killed)} {
		files, err := os.ReadDir(left.newer)
		if err != nil {
			t.Fatal(err)
		}
		for i, file := range files {
			for n, d := range damages {
				if !storetest.Long() && (i+n)%2 != sampled {
					continue // half of them in each sample
				}
				t.Run(left.name+"/"+file.Name()+" "+d.name, func(t *testing.T) {
					for seed := range min(seeds, cmp.Or(d.places, seeds)) {
						left.try(t, file.Name(), d, seed)
					}
				})
			}
		}
	}
}

// TestOlderDatabase: Badger's files are from an older copy, the log of
// counts is not.
func TestOlderDatabase(t *testing.T) {
	for _, left := range []*sample{newSample(t, "stopped", stopped), newSample(t, "killed", killed)} {
		t.Run(left.name, func(t *testing.T) {
			dir := t.TempDir()
			copyStore(t, left.newer, dir)
			for _, from := range []string{dir, left.older} {
				files, err := os.ReadDir(from)
				for _, file := range files {
					switch {
					case filepath.Ext(file.Name()) == ".log":
					case from == dir:
						err = errors.Join(err, os.Remove(filepath.Join(dir, file.Name())))
					default:
						err = errors.Join(err, copyFile(filepath.Join(from, file.Name()), filepath.Join(dir, file.Name())))
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			left.want(t, dir, "an older database")
		})
	}
}

// try damages a file of a copy.
func (left *sample) try(t *testing.T, file string, d damage, seed int) {
	t.Helper()
	dir := t.TempDir()
	defer os.RemoveAll(dir)
	copyStore(t, left.newer, dir)
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	place := fnv.New64()
	fmt.Fprint(place, left.name, file, d.name)
	if data = d.do(file, data, rand.New(rand.NewPCG(uint64(seed), place.Sum64()))); data != nil {
		err = writeSparse(path, data)
	} else {
		err = os.Remove(path)
	}
	if err != nil {
		t.Fatalf("damaging: %v", err)
	}
	left.want(t, dir, fmt.Sprintf("seed %d", seed))
}

// maxTime is how long a damaged store may take to open, in time of the
// processor: tests share their machine with others.
const maxTime = 2 * time.Second * badgerstore.Slowdown

// processorTime is what this process has taken of the processor.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// want wants a damaged directory refused, or the state unchanged.
func (left *sample) want(t *testing.T, dir, what string) {
	t.Helper()
	var s *badgerstore.Store
	var err error
	began := processorTime()
	cost := allocated(func() { s, err = badgerstore.Open(dir, badgerstore.Options{}) })
	if took := processorTime() - began; took > maxTime || cost > left.cost+maxCost {
		t.Errorf("%s: opening took %s and %d MiB", what, took, cost>>20)
	}
	if err != nil {
		if text := err.Error(); !strings.Contains(text, dir) || !strings.Contains(text, "store is damaged") || len(text) > 500 {
			t.Errorf("%s: the refusal is unclear: %v", what, err)
		}
		return
	}
	got := state(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("%s: closing: %v", what, err)
	}
	if got == left.state {
		return
	}
	old, changed := strings.Split(left.state, "\n"), strings.Split(got, "\n")
	for i := range min(len(old), len(changed)) {
		if old[i] != changed[i] {
			t.Errorf("%s: the store opens with another state, the first difference is\n got %.300s\nwant %.300s", what, changed[i], old[i])
			return
		}
	}
	t.Errorf("%s: the store opens with a state of %d lines, want %d", what, len(changed), len(old))
}
