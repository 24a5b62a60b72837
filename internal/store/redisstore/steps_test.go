package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// openInside opens a store and waits until it works.
func openInside(t *testing.T, server *redistest.Server) *Store {
	t.Helper()
	s, err := Open(Options{URL: server.URL(), Timeout: 10 * time.Second})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	for deadline := time.Now().Add(30 * time.Second); s.Check(t.Context()) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the store does not work")
		}
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NextPlan changes the plan of an account to the next number, and records that.
// It creates the account if there is none.
func NextPlan(s *Store) func(*book.Account) error {
	return func(a *book.Account) error {
		n, err := strconv.Atoi("0" + a.Plan)
		if err != nil {
			return err
		}
		a.Exists, a.Plan = true, strconv.Itoa(n+1)
		a.Record(store.Entry{At: s.Now(), Action: "account.change", Target: a.Plan})
		return nil
	}
}

// recorded returns the targets of the entries of an account in the log.
func recorded(t *testing.T, b *book.Book, account string) (targets []string) {
	t.Helper()
	list, err := b.ListEntries(t.Context(), book.EntryFilter{Accounts: []string{account}}, store.EntryID{}, 10_000)
	must(t, err)
	for _, e := range list {
		targets = append(targets, e.Target)
	}
	return targets
}

// TestGateEnds: a gate can end after each step of a change. The document, the
// log and the events agree, once another gate has looked at what is pending.
func TestGateEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ends, other := openInside(t, server), openInside(t, server)
	b := storetest.New(other).Book
	t.Cleanup(func() { must(t, b.Close()) })
	began := time.Now().Add(-time.Minute)
	steps := len(ends.newChange(time.Now(), "", nil).steps())
	made := 0 // events
	for done := range steps + 1 {
		for _, change := range []string{"new", "changed", "deleted"} {
			id := fmt.Sprintf("acc_%s_%d", change, done)
			edit, before := NextPlan(ends), 0
			switch change {
			case "changed":
				must(t, other.change(t.Context(), time.Now(), id, NextPlan(other)))
				before = 1
			case "deleted": // a gate has ended before, too
				for _, step := range other.newChange(time.Now(), id, NextPlan(other)).steps()[:writes+1] {
					must(t, step(t.Context()))
				}
				before = 1
				edit = func(a *book.Account) error {
					a.Exists = false
					a.Record(store.Entry{At: ends.Now(), Action: "account.delete", Target: "2"})
					return nil
				}
			}
			c := ends.newChange(time.Now(), id, edit)
			for _, step := range c.steps()[:done] {
				must(t, step(t.Context()))
			}
			must(t, other.publishMarked(t.Context(), other.Now().Add(time.Second)))

			a, err := other.Get(t.Context(), id)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			list, err := other.List(t.Context(), "", 100, false)
			must(t, err)
			if listed := slices.ContainsFunc(list, func(a *book.Account) bool { return a.ID == id }); listed != (a != nil) {
				t.Errorf("%s after %d steps: the account is listed: %t", change, done, listed)
			}
			want := before
			if change == "deleted" && a == nil || a != nil && a.Plan == strconv.Itoa(before+1) {
				want++
			}
			if is := done > writes; is != (want > before) {
				t.Errorf("%s after %d steps: the change is made: %t", change, done, !is)
			}
			if got := recorded(t, b, id); len(got) != want {
				t.Errorf("%s after %d steps: the log has %q, want %d entries", change, done, got, want)
			}
			made += want
			// What is left does not disturb the next change.
			if change != "deleted" {
				must(t, other.change(t.Context(), time.Now(), id, NextPlan(other)))
				if got := recorded(t, b, id); len(got) != want+1 || got[want] != strconv.Itoa(want+1) {
					t.Errorf("%s after %d steps and another change: the log has %q", change, done, got)
				}
				made++
			}
		}
	}
	var left []string
	for _, pattern := range []string{"*:o", "*:pending"} {
		reply, err := server.Do("KEYS", pattern)
		must(t, err)
		for _, key := range reply.([]any) {
			left = append(left, key.(string))
		}
	}
	if len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	for events := 0; ; {
		added, more, err := event.NewQueue(b).Follow(t.Context(), began, func(e store.Entry) []store.Event {
			return []store.Event{{ID: fmt.Sprint(e.Account, e.Target), At: e.At, Queued: true, Known: e.At.Add(time.Hour)}}
		})
		must(t, err)
		if events += len(added); !more {
			if events != made {
				t.Errorf("%d events, want %d", events, made)
			}
			return
		}
	}
}

// writes is the step of a change that makes it.
const writes = 4

// TestEntriesOnce: several gates publish the entries of one queue. The log has
// each once, in their order, also if a gate knows only a part.
func TestEntriesOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openInside(t, server)
	b := storetest.New(s).Book
	t.Cleanup(func() { must(t, b.Close()) })
	const entries = 2*queuePage + 7
	c := s.newChange(time.Now(), "acc_1", func(a *book.Account) error {
		a.Exists = true
		for i := range entries {
			a.Record(store.Entry{At: s.Now().Add(time.Duration(-i) * time.Minute), Target: strconv.Itoa(i)})
		}
		return nil
	})
	for _, step := range c.steps()[:writes+1] {
		must(t, step(t.Context()))
	}
	first, err := texts(c.queued)
	must(t, err)
	for _, some := range [][]string{first[:3], first[1:7], first, first[5:6]} { // and they stay in the queue
		must(t, s.appendEntries(t.Context(), some))
	}
	for i := range queuePage { // of gates that ended before their changes
		must(t, (&change{Store: s, id: fmt.Sprint("acc_", i+2), step: c.step}).pend(t.Context()))
	}
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- s.publishMarked(t.Context(), s.Now()) }()
	}
	for range cap(errs) {
		must(t, <-errs)
	}
	if left, err := server.Do("ZCARD", s.pendingKey()); err != nil || left != int64(0) {
		t.Errorf("%v marks are left (%v)", left, err)
	}
	got := recorded(t, b, "acc_1")
	if len(got) != entries {
		t.Fatalf("the log has %d entries, want %d", len(got), entries)
	}
	for i, target := range got {
		if target != strconv.Itoa(i) {
			t.Fatalf("entry %d of the log is %s", i, target)
		}
	}
}

// TestEntryAfterMany: the log has an entry once, also if it has many of the same
// time. One script reads a page of them.
func TestEntryAfterMany(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openInside(t, server)
	const entries = 1200
	now := s.Now()
	var list []string
	for i := range entries {
		list = append(list, decimal(now.UnixMilli())+" "+queued(book.LogEntry{At: now.Add(-time.Hour), Value: []byte(strconv.Itoa(i))}))
	}
	for part := range slices.Chunk(list, 300) {
		must(t, s.appendEntries(t.Context(), part))
	}
	for _, some := range [][]string{list[:1], list[700:701], list[entries-1:], {list[3], list[entries-1]}} {
		must(t, s.appendEntries(t.Context(), some))
	}
	found, err := s.Entries(t.Context(), store.EntryID{}, store.EntryID{}, false, 2*entries)
	must(t, err)
	for i, e := range found {
		want := store.EntryID{Milliseconds: now.UnixMilli(), Number: int64(i)}
		if len(found) != entries || e.ID != want || string(e.Value) != strconv.Itoa(i) {
			t.Fatalf("entry %d of %d is %q with the id %v, want the id %v", i, len(found), e.Value, e.ID, want)
		}
	}
	reply, err := s.client.runWithin(t.Context(), appendScript, []string{s.logKey()}, []string{"0", "", list[0], list[entries-1]})
	if must(t, err); len(reply) != 2 {
		t.Fatalf("a search of many entries: got %d values, want the position and the entry that was not found", len(reply))
	}
	if from, err := reply[0].ToString(); err != nil || from != found[499].ID.String() {
		t.Errorf("one script has searched until %q, %v, want %v", from, err, found[499].ID)
	}
}

// TestLongImport: the work for an entry does not grow with the entries since the
// time that a change gives it.
func TestLongImport(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openInside(t, server)
	b := storetest.New(s).Book
	t.Cleanup(func() { must(t, b.Close()) })
	const accounts, batch = 20_000, 500
	at := s.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for first := 0; first < accounts; first += batch {
		ids := make([]string, batch)
		for i := range ids {
			ids[i] = fmt.Sprintf("acc_%d", first+i)
		}
		for _, err := range s.Change(t.Context(), at, ids, func(i int, a *book.Account) error {
			a.Exists = true
			a.Record(store.Entry{At: at, Action: "account.create"})
			return nil
		}) {
			must(t, err)
		}
		// A script reads one page. For another one, it is called again.
		stats, err := server.Do("INFO", "commandstats")
		must(t, err)
		var reads, added int
		for line := range strings.Lines(stats.(string)) {
			fmt.Sscanf(line, "cmdstat_xrange:calls=%d,", &reads) // other lines have no number
			fmt.Sscanf(line, "cmdstat_xadd:calls=%d,", &added)
		}
		if want := first + batch; added != want || reads > want+want/10 {
			t.Fatalf("%d of %d entries were added with %d reads of the log", added, want, reads)
		}
	}
	list, err := b.ListEntries(t.Context(), book.EntryFilter{Since: at}, store.EntryID{}, accounts+1)
	must(t, err)
	if len(list) != accounts || !list[accounts-1].At.Equal(at) {
		t.Errorf("the log has %d entries, the last at %v, want %d at %v", len(list), list[len(list)-1].At, accounts, at)
	}
}

// TestLateChange: a change that comes too late after its mark, or after it has
// claimed a token, is not made. It is tried again.
func TestLateChange(t *testing.T) {
	t.Parallel()
	s := openInside(t, redistest.Start(t))
	must(t, s.change(t.Context(), time.Now(), "acc_1", NextPlan(s)))
	for name, edit := range map[string]func(*book.Account) error{
		"mark": NextPlan(s),
		"claim": func(a *book.Account) error {
			return a.Create(book.Key{Key: store.Key{ID: "key_1", Kind: token.Key, CreatedAt: s.Now()}, Hash: hashOf("key_1")})
		},
	} {
		c := s.newChange(s.Now(), "acc_1", edit)
		least := s.Now().Add(changeWithin - time.Second).UnixMicro()
		for _, step := range []func(context.Context) error{c.read, c.claim, c.pend} {
			must(t, step(t.Context()))
		}
		if most := s.Now().Add(changeWithin + time.Second).UnixMicro(); c.until < least || c.until > most {
			t.Errorf("%s: the change ends at %v", name, time.UnixMicro(c.until))
		}
		late := *c
		late.until = s.Now().Add(-time.Millisecond).UnixMicro()
		if err := late.write(t.Context()); !errors.Is(err, errTooLate) {
			t.Errorf("%s: a late change: got %v, want %v", name, err, errTooLate)
		}
		must(t, c.write(t.Context()))
	}
	if changeWithin >= orphanedAfter || changeWithin >= claimedFor || changeWithin <= maxTimeout {
		t.Error("a change that is possible still can be undone by another gate, or ends before its timeout")
	}
}

// TestGateEndsAfterClaim: a gate that ends between the claim of a token and the
// document does not keep the token for ever. If it only was slow, its change is
// not made.
func TestGateEndsAfterClaim(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	slow, other := openInside(t, server), openInside(t, server)
	for _, id := range []string{"acc_1", "acc_2", "acc_3"} {
		must(t, other.change(t.Context(), time.Now(), id, NextPlan(other)))
	}
	hash := hashOf("a token")
	create := func(a *book.Account) error {
		return a.Create(book.Key{Key: store.Key{ID: "key_" + a.ID, Kind: token.Key, Name: "one", CreatedAt: time.Now()}, Hash: hash})
	}
	c := slow.newChange(time.Now(), "acc_1", create)
	must(t, c.read(t.Context()))
	must(t, c.claim(t.Context()))
	if err := other.change(t.Context(), time.Now(), "acc_2", create); !errors.Is(err, store.ErrTokenTaken) {
		t.Errorf("a token that was just claimed: got %v, want %v", err, store.ErrTokenTaken)
	}
	// A minute later. No clock can be moved, so the claim is.
	old := c.until - changeWithin.Microseconds() - claimedFor.Microseconds() - time.Second.Microseconds()
	_, err := server.Do("SET", other.tokenKey(hash), tokenEntry{"acc_1", "key_acc_1", old}.String())
	must(t, err)
	c.until = old + changeWithin.Microseconds()
	must(t, other.change(t.Context(), time.Now(), "acc_2", create))
	if err := c.write(t.Context()); !errors.Is(err, errOutdated) {
		t.Errorf("the change of the slow gate: got %v, want %v", err, errOutdated)
	}
	if err := slow.change(t.Context(), time.Now(), "acc_1", create); !errors.Is(err, store.ErrTokenTaken) {
		t.Errorf("another try of the slow gate: got %v, want %v", err, store.ErrTokenTaken)
	}
	for _, s := range []*Store{slow, other} {
		if grant, err := s.Confirm(t.Context(), hash, time.Now()); err != nil || grant.Account != "acc_2" {
			t.Errorf("the token: got %+v, %v, want acc_2", grant, err)
		}
	}
	// The entry of a key that is there stays, whatever its age.
	_, err = server.Do("SET", other.tokenKey(hash), tokenEntry{"acc_2", "key_acc_2", old}.String())
	must(t, err)
	if err := other.change(t.Context(), time.Now(), "acc_3", create); !errors.Is(err, store.ErrTokenTaken) {
		t.Errorf("the token of an old key: got %v, want %v", err, store.ErrTokenTaken)
	}
	// A deleted account will never write its key.
	must(t, other.change(t.Context(), time.Now(), "acc_2", func(a *book.Account) error { a.Exists = false; return nil }))
	_, err = server.Do("SET", other.tokenKey(hash), tokenEntry{"acc_2", "key_acc_2", other.Now().UnixMicro()}.String())
	must(t, err)
	must(t, other.change(t.Context(), time.Now(), "acc_3", create))
	if grant, err := slow.Confirm(t.Context(), hash, time.Now()); err != nil || grant.Account != "acc_3" {
		t.Errorf("the token of a deleted account: got %+v, %v, want acc_3", grant, err)
	}
}

// TestEntriesOfTokens: a claim of the same key does not shorten the life of the
// entry, and what is left of a deleted key does not delete a newer claim.
func TestEntriesOfTokens(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openInside(t, server)
	k := &book.Key{Key: store.Key{ID: "key 1", Account: "acc_1"}, Hash: hashOf("a token")}
	now := time.Now().Truncate(time.Millisecond)
	for _, c := range []struct{ expires, want time.Time }{
		{now.Add(time.Hour), now.Add(time.Hour)}, {now.Add(time.Minute), now.Add(time.Hour)}, {now.Add(2 * time.Hour), now.Add(2 * time.Hour)},
		{time.Time{}, time.Time{}}, {now.Add(time.Hour), time.Time{}},
	} {
		k.ExpiresAt = c.expires
		got, err := s.enter(t.Context(), k, tokenEntry{})
		if must(t, err); !got.written {
			t.Fatalf("the entry is %+v", got)
		}
		ends, err := server.Do("PEXPIRETIME", s.tokenKey(k.Hash))
		must(t, err)
		want := int64(-1)
		if !c.want.IsZero() {
			want = c.want.Add(expiredFor).UnixMilli()
		}
		if ends != want {
			t.Errorf("a claim until %v: the entry ends at %v, want %v", c.expires, ends, want)
		}
	}
	longer := &book.Key{Key: store.Key{ID: "key 1 2", Account: "acc_1"}, Hash: k.Hash} // as if of that key and a time
	if got, err := s.enter(t.Context(), longer, tokenEntry{}); err != nil || got.written || got.entry.key != k.ID {
		t.Errorf("a claim of another key: got %+v, %v", got, err)
	}
	got, err := s.enter(t.Context(), k, tokenEntry{})
	must(t, err)
	left := func(what string, want int64) {
		t.Helper()
		if left, err := server.Do("EXISTS", s.tokenKey(k.Hash)); err != nil || left != want {
			t.Errorf("after forgetting %s: %v entries, %v, want %d", what, left, err, want)
		}
	}
	forgotten(t, s, k, got.entry.at)
	left("an earlier claim", 1)
	forgotten(t, s, longer, got.entry.at+1)
	left("another key", 1)
	forgotten(t, s, k, got.entry.at+1)
	left("the claim", 0)
}

// forgotten forgets an entry of before a time.
func forgotten(t *testing.T, s *Store, k *book.Key, before int64) {
	t.Helper()
	_, err := s.client.one(t.Context(), func(b rueidis.Builder) rueidis.Completed {
		return forgetScript.byText(b, []string{s.tokenKey(k.Hash)}, []string{tokenEntry{account: k.Account, key: k.ID}.of(), decimal(before)})
	})
	must(t, err)
}

func hashOf(text string) (hash token.Hash) {
	copy(hash[:], strings.Repeat(text, 32))
	return hash
}

// TestDumpOfChanged: an account that changes while it is dumped is read again,
// so that its rows and counts are those of its document.
func TestDumpOfChanged(t *testing.T) {
	t.Parallel()
	s := openInside(t, redistest.Start(t))
	must(t, s.change(t.Context(), time.Now(), "acc_1", NextPlan(s)))
	before, err := s.read(t.Context(), "acc_1")
	must(t, err)
	must(t, s.change(t.Context(), time.Now(), "acc_1", NextPlan(s)))
	if pieces, err := s.piecesWith(t.Context(), before); !errors.Is(err, errOutdated) {
		t.Errorf("got %+v, %v, want %v", pieces, err, errOutdated)
	}
	pieces, err := s.piecesOf(t.Context(), listed("acc_1", before.handle))
	if err != nil || len(pieces) != 1 || pieces[0].Document.Plan != "2" {
		t.Errorf("got %+v, %v, want the account as it is now", pieces, err)
	}
	must(t, s.change(t.Context(), time.Now(), "acc_1", func(a *book.Account) error { a.Exists = false; return nil }))
	must(t, s.change(t.Context(), time.Now(), "acc_1", NextPlan(s)))
	if pieces, err = s.piecesOf(t.Context(), listed("acc_1", before.handle)); err != nil || len(pieces) != 0 {
		t.Errorf("a deleted account: got %+v, %v", pieces, err)
	}
}

// TestDumpAfterEnd: a gate can end after it has changed a document. A dump has
// the entry of the change, too, or it fails. The mark stays, because its change
// could still come.
func TestDumpAfterEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ends, s := openInside(t, server), openInside(t, server)
	for _, step := range ends.newChange(time.Now(), "acc_1", NextPlan(ends)).steps()[:writes+1] {
		must(t, step(t.Context()))
	}
	later := ends.newChange(time.Now(), "acc_2", NextPlan(ends))
	for _, step := range later.steps()[:writes] {
		must(t, step(t.Context()))
	}
	documents, entries := 0, 0
	dump := func() error {
		documents, entries = 0, 0
		return s.Dump(t.Context(), nil, func(p book.Piece) error {
			if p.Document != nil {
				documents++
			}
			if p.Entry != nil {
				entries++
			}
			return nil
		})
	}
	if must(t, dump()); documents != 1 || entries != 1 {
		t.Errorf("got %d documents and %d entries, want one of each", documents, entries)
	}
	must(t, later.write(t.Context()))
	must(t, s.publishMarked(t.Context(), s.Now().Add(time.Second)))
	if must(t, dump()); documents != 2 || entries != 2 {
		t.Errorf("after another change: got %d documents and %d entries, want two of each", documents, entries)
	}
	must(t, later.pend(t.Context()))
	_, err := server.Do("SET", s.queueKey("acc_2"), "damaged")
	must(t, err)
	if err := dump(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a dump without a queue: got %v, want %v", err, store.ErrUnavailable)
	}
}

// TestDumpOfManyRows: a dump reads the rows of a space in parts.
func TestDumpOfManyRows(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openInside(t, server)
	const rows = 10*dumpPage + 7
	spaces := []book.Space{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "empty"}, {Name: "d"}}
	want := map[string]bool{}
	for _, of := range spaces {
		for first := 0; first < rows && of.Name != "empty"; first += 1000 {
			b := book.Batch{Space: of}
			for i := first; i < min(first+1000, rows); i++ {
				b.Writes = append(b.Writes, book.Write{Row: book.Row{Key: fmt.Sprint("key ", i), Value: []byte{1}}})
				want[of.Name+fmt.Sprint("key ", i)] = true
			}
			must(t, s.Commit(t.Context(), b)[0])
		}
	}
	must(t, s.Dump(t.Context(), spaces, func(p book.Piece) error {
		if !want[p.Space.Name+p.Row.Key] {
			t.Fatalf("got another row %q of %s, or twice", p.Row.Key, p.Space.Name)
		}
		delete(want, p.Space.Name+p.Row.Key)
		return nil
	}))
	if len(want) > 0 {
		t.Errorf("%d rows are missing", len(want))
	}
	stats, err := server.Do("INFO", "commandstats")
	must(t, err)
	for line := range strings.Lines(stats.(string)) {
		for _, whole := range []string{"hgetall", "hvals", "hscan"} {
			if strings.HasPrefix(line, "cmdstat_"+whole+":") {
				t.Errorf("a request has read a whole space: %s", line)
			}
		}
	}
}

// TestCreatedAtOnce: of several gates that create an account at once, those that
// come later leave nothing in the list of accounts.
func TestCreatedAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := openInside(t, server), openInside(t, server)
	for name, c := range map[string]struct {
		before func(*change)
		want   error
	}{
		"outdated": {func(c *change) { must(t, other.change(t.Context(), time.Now(), c.id, NextPlan(other))) }, errOutdated},
		"late":     {func(c *change) { c.until = 1 }, errTooLate},
		"row": {func(c *change) {
			c.step.After.Rows = []book.Write{{Row: book.Row{Key: "a", Value: []byte{1}}, Check: true, Old: []byte{2}}}
		}, book.ErrConflict},
		"created": {func(*change) {}, nil},
	} {
		one := s.newChange(time.Now(), "acc_"+name, NextPlan(s))
		for _, step := range one.steps()[:writes] {
			must(t, step(t.Context()))
		}
		c.before(one)
		if err := one.write(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		list, err := s.List(t.Context(), "", 10, false)
		must(t, err)
		totals, err := s.Totals(t.Context())
		if must(t, err); totals.Accounts != len(list) {
			t.Errorf("%s: Totals has %d accounts, List %d", name, totals.Accounts, len(list))
		}
	}
	// A change of an account that is there does not remove it.
	late := s.newChange(time.Now(), "acc_created", NextPlan(s))
	must(t, late.read(t.Context()))
	late.until = 1
	if err := late.write(t.Context()); !errors.Is(err, errTooLate) {
		t.Errorf("a late change: got %v, want %v", err, errTooLate)
	}
	if totals, err := s.Totals(t.Context()); err != nil || totals.Accounts != 2 {
		t.Errorf("got %+v, %v, want two accounts", totals, err)
	}
}
