package badgerstore

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// randomText returns a text that cannot be compressed by much.
func randomText(length int) string {
	random := make([]byte, length)
	rand.Read(random)
	return base64.RawURLEncoding.EncodeToString(random)[:length]
}

// largestKey is a key with all that it may have. Its limits are of some
// endpoints.
func largestKey(kind token.Kind, number int, endpoints []string) *book.Key {
	k := &book.Key{Key: store.Key{
		ID: randomText(32), Name: randomText(64), Hint: randomText(12), Root: randomText(32), Kind: kind,
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
	}}
	rand.Read(k.Hash[:])
	for i := range store.MaxKeyLimits {
		k.Limits = append(k.Limits, store.Limit{Endpoint: endpoints[(number*store.MaxKeyLimits+i)%len(endpoints)], Period: store.Month, Max: store.Unlimited - int64(number), OfKey: true})
	}
	for range store.MaxAddresses {
		var address [16]byte
		rand.Read(address[:])
		k.Addresses = append(k.Addresses, netip.PrefixFrom(netip.AddrFrom16(address), 128))
	}
	return k
}

// TestLargestDocument: a document with all keys that an account can have is
// written in one step, and does not go to the value log.
func TestLargestDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHere(t, dir, Options{Reserve: 1})
	var endpoints []string
	for range store.MaxLiveKeys + store.MaxEndedKeys {
		for range store.MaxKeyLimits {
			endpoints = append(endpoints, randomText(64))
		}
	}
	var keys []*book.Key
	for i := range store.MaxLiveKeys + store.MaxEndedKeys {
		for kind, of := range map[token.Kind][]string{token.Key: endpoints, token.Login: endpoints[:store.MaxKeyLimits]} {
			k := largestKey(kind, i, of)
			if i >= store.MaxLiveKeys {
				k.RevokedAt = time.Now()
			}
			keys = append(keys, k)
		}
	}
	err := s.ChangeOne(t.Context(), time.Now(), "acc_1", func(a *book.Account) error {
		a.Exists, a.Keys, a.Label = true, keys, randomText(store.MaxLabel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Get(t.Context(), "acc_1")
	if err != nil || len(want.Keys) != len(keys) {
		t.Fatalf("got %d keys, %v, want %d", len(want.Keys), err, len(keys))
	}
	parts := want.Encode()
	t.Logf("%d bytes of keys, %d of login tokens", len(parts.Keys), len(parts.Logins))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := openHere(t, dir, Options{Reserve: 1}).Get(t.Context(), "acc_1")
	if err != nil || !bytes.Equal(got.Encode().Keys, parts.Keys) || !bytes.Equal(got.Encode().Logins, parts.Logins) {
		t.Errorf("opened again, the document differs (%v)", err)
	}
}

// TestJoinedRows: rows that belong together are in one transaction, also if
// there are too many rows for one. Each is told when it is on the disk, before
// the next ones are written.
func TestJoinedRows(t *testing.T) {
	t.Parallel()
	const groups, size = 200, 3
	s := openHere(t, t.TempDir(), Options{Reserve: 1})
	row := func(group, i int) []byte { return attemptKey(fmt.Appendf(nil, "%04d %d", group, i)) }
	var rows []change
	var done []int
	for group := range groups {
		for i := range size {
			c := change{key: row(group, i), value: make([]byte, 4<<10), joined: i > 0}
			if i == size-1 {
				c.done = func() { done = append(done, group) }
			}
			rows = append(rows, c)
		}
	}
	syncs, works := 0, s.archive.sync
	syncWith(s, func() error {
		if len(done) == groups {
			return works() // this is the background
		}
		syncs++
		written := 0
		err := s.archive.scan([]byte{prefixAttempt}, func([]byte, []byte) error { written++; return nil })
		if written%size != 0 || written <= size*len(done) {
			t.Errorf("transaction %d: %d rows are written, %d groups were told", syncs, written, len(done))
		}
		return errors.Join(err, works())
	})
	if err := s.archive.write(kept, rows...); err != nil {
		t.Fatal(err)
	}
	syncWith(s, works)
	if syncs < 2 || len(done) != groups || !slices.IsSorted(done) {
		t.Errorf("in %d transactions %d of %d groups were told: %v", syncs, len(done), groups, done)
	}
	huge := make([]change, 3)
	for i := range huge {
		huge[i] = change{key: row(groups, i), value: make([]byte, maxValue-1), joined: i > 0}
	}
	if err := writeDurably(s, huge...); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("rows that fit into no transaction: got %v", err)
	}
	if value, err := s.archive.get(row(groups, 0)); value != nil || err != nil {
		t.Errorf("one of them is written (%v)", err)
	}
}

// TestEntriesAreOnTheDisk: an entry of the audit log is listed only when it is on
// the disk, so that no event tells of a change that a loss of power undoes.
func TestEntriesAreOnTheDisk(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{Reserve: 1})
	record := func(action string) {
		t.Helper()
		if err := s.AddEntries(t.Context(), store.Entry{Account: "acc_1", Action: action, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	listed := func() (n int) {
		t.Helper()
		for _, reverse := range []bool{false, true} {
			list, err := s.Entries(t.Context(), store.EntryID{}, store.EntryID{}, reverse, 10)
			if err != nil {
				t.Error(err)
			}
			n += len(list)
		}
		return n / 2
	}
	record("first")
	stopBackground(s)
	sync := s.journal.log.DataSync
	s.journal.log.DataSync = func(f *os.File) error {
		if n := listed(); n != 1 {
			t.Errorf("during the sync %d entries are listed, want 1", n)
		}
		return sync(f)
	}
	record("second")
	s.journal.log.DataSync = sync
	if n := listed(); n != 2 {
		t.Errorf("after the sync %d entries are listed, want 2", n)
	}
	if rows := s.rowsForTest(t); len(rows) != 2 {
		t.Errorf("the entries never expire: got %q", rows)
	}
}

// TestBatchInSeveralTransactions: of each change of a batch, the document, a row
// of it and its entry of the audit log are in one transaction.
func TestBatchInSeveralTransactions(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{Reserve: 1})
	ids := make([]string, store.MaxBatch)
	for i := range ids {
		ids[i] = fmt.Sprint("acc_", i)
	}
	transactions, log := 0, s.archive.log
	s.archive.log = func(groups [][]change, sync bool) error {
		for _, group := range groups {
			transactions++
			counts := map[byte]int{}
			for _, c := range group {
				counts[c.key[0]]++
			}
			if n := counts[prefixAccount]; n == 0 || n != counts[prefixRow] || n != counts[prefixEntry] {
				t.Errorf("transaction %d: the rows are %v", transactions, counts)
			}
		}
		return log(groups, sync)
	}
	errs := s.Change(t.Context(), time.Now(), ids, func(_ int, a *book.Account) error {
		a.Exists, a.Label = true, randomText(store.MaxLabel)
		a.Rows = []book.Write{{Row: book.Row{Key: "row", Value: []byte(randomText(8000))}}}
		a.Record(store.Entry{At: time.Now(), Action: "account.create", Target: randomText(12_000)})
		return nil
	})
	if err := errors.Join(errs...); err != nil || transactions < 2 {
		t.Errorf("in %d transactions: %v", transactions, err)
	}
}

// TestManyRowsOfADeletedAccount: an account with more rows than fit into a
// transaction is deleted with all of them, and no other rows.
func TestManyRowsOfADeletedAccount(t *testing.T) {
	t.Parallel()
	const rows = 2*maxJoined + 5
	s := openWith(t, time.Now(), "acc_1", "acc_10")
	for _, id := range []string{"acc_1", "acc_10"} {
		var writes []book.Write
		for i := range rows {
			writes = append(writes, book.Write{Row: book.Row{Key: fmt.Sprintf("ended %064d", i), Value: []byte{1}}})
		}
		for some := range slices.Chunk(writes, maxJoined) {
			if err := s.Commit(t.Context(), book.Batch{Space: book.Space{Account: id}, Writes: some})[0]; err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.DeleteAccount(t.Context(), "acc_1"); err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	err := s.archive.scan([]byte{prefixRow}, func(key, _ []byte) error {
		account, _, _ := bytes.Cut(key[1:], []byte{0})
		left[string(account)]++
		return nil
	})
	if err != nil || len(left) != 1 || left["acc_10"] != rows {
		t.Errorf("left are %v, %v, want %d rows of acc_10", left, err, rows)
	}
}

// TestAccountsWaitForTheSnapshotOfADump: an account that was deleted and created
// again before the snapshot of a dump could get the counts of the deleted one.
func TestAccountsWaitForTheSnapshotOfADump(t *testing.T) {
	t.Parallel()
	s := openWith(t, time.Now(), "acc_1")
	s.journal.archiving.Lock() // the snapshot waits for it
	var label string
	dumped, changed := make(chan error), make(chan error)
	go func() {
		dumped <- s.Dump(t.Context(), nil, func(p book.Piece) error {
			if p.Document != nil {
				label = p.Document.Label
			}
			return nil
		})
	}()
	lock := &s.changing[s.stripe("acc_1")]
	for deadline := time.Now().Add(time.Minute); lock.TryLock(); time.Sleep(time.Millisecond) {
		if lock.Unlock(); time.Now().After(deadline) {
			t.Error("the dump does not hold the account")
			break
		}
	}
	go func() {
		changed <- s.ChangeOne(t.Context(), time.Now(), "acc_1", func(a *book.Account) error { a.Label = "changed"; return nil })
	}()
	s.journal.archiving.Unlock()
	if err := errors.Join(<-dumped, <-changed); err != nil || label != "" {
		t.Errorf("dumped the label %q, %v, want that before the dump", label, err)
	}
}
