package ledger

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// clashing is a hash that shares its shard and its place there with
// others, at both ends of the table.
func clashing(i int) token.Hash {
	var h token.Hash
	h[0], h[8] = [...]byte{0, 1, 255}[i%3], 7
	binary.LittleEndian.PutUint32(h[16:], uint32(i))
	return h
}

// TestTokenCollisions drives tokens whose hashes collide against a map.
func TestTokenCollisions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := New(nil)
		l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
		want := map[int]string{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, 20).Draw(t, "token")
			hash := clashing(i)
			if rapid.Bool().Draw(t, "put") {
				if _, ok := want[i]; !ok {
					want[i] = fmt.Sprintf("key_%d", i)
				}
				l.PutToken(&Token{Hash: hash, Account: "acc_1", ID: want[i]})
			} else {
				delete(want, i)
				l.EndToken(&Token{Hash: hash, Account: "acc_1", ID: fmt.Sprintf("key_%d", i)})
			}
			for j := range 21 {
				hash := clashing(j)
				got, err := l.Grant(&hash, time.Time{})
				if (err == nil) != (want[j] != "") || got.Key != want[j] {
					t.Fatalf("token %d: got %q, %v, want %q", j, got.Key, err, want[j])
				}
			}
		}
	})
}

// TestAccountCollisions: ids that share a hash are different accounts.
func TestAccountCollisions(t *testing.T) {
	t.Parallel()
	var a accounts
	a.init()
	numbers := map[uint32]string{}
	for _, id := range []string{"a", "b", "c", "a", "b", "c"} {
		i := a.numberHashed(7, id)
		if other, ok := numbers[i]; ok && other != id {
			t.Errorf("%q and %q have one number", id, other)
		}
		numbers[i] = id
		if got := a.at(i).id; got != id {
			t.Errorf("account %d: got %q, want %q", i, got, id)
		}
	}
	if len(numbers) != 3 {
		t.Errorf("got %d accounts, want 3", len(numbers))
	}
}

// TestMovedToken: only the key that has a token ends it, and of several keys with
// one token, the one that expires last is loaded.
func TestMovedToken(t *testing.T) {
	t.Parallel()
	l, hash := New(nil), clashing(1)
	want := func(account, id string) {
		t.Helper()
		if got, err := l.Grant(&hash, time.Unix(0, 0)); err != nil || got.Account != account || got.Key != id {
			t.Errorf("got %+v, %v, want %s of %s", got, err, id, account)
		}
	}
	for _, account := range []string{"acc_1", "acc_2"} {
		l.PutAccount(&store.Account{ID: account, Plan: "starter"})
	}
	l.PutToken(&Token{Hash: hash, Account: "acc_1", ID: "old", ExpiresAt: time.Unix(10, 0)})
	l.PutToken(&Token{Hash: hash, Account: "acc_2", ID: "new", ExpiresAt: time.Unix(20, 0)})
	want("acc_2", "new")
	for _, other := range [][2]string{{"acc_1", "old"}, {"acc_1", "new"}, {"acc_2", "old"}, {"acc_3", "new"}} {
		l.EndToken(&Token{Hash: hash, Account: other[0], ID: other[1]})
		want("acc_2", "new")
	}
	l.LoadToken(&Token{Hash: hash, Account: "acc_1", ID: "old", ExpiresAt: time.Unix(10, 0)})
	want("acc_2", "new")
	l.LoadToken(&Token{Hash: hash, Account: "acc_1", ID: "newest"})
	want("acc_1", "newest")
	l.LoadToken(&Token{Hash: hash, Account: "acc_2", ID: "new", ExpiresAt: time.Unix(20, 0)})
	want("acc_1", "newest")
	ended := &Token{Hash: hash, Account: "acc_1", ID: "newest", Revoked: true, ExpiresAt: time.Unix(50, 0)}
	l.EndToken(ended)
	if got, err := l.Grant(&hash, time.Unix(0, 0)); err != store.Revoked || got.Key != "newest" {
		t.Errorf("a revoked token: got %+v, %v", got, err)
	}
	l.LoadToken(&Token{Hash: hash, Account: "acc_2", ID: "new", ExpiresAt: time.Unix(20, 0)})
	want("acc_2", "new")
	l.LoadToken(ended)
	want("acc_2", "new")
	l.EndToken(&Token{Hash: hash, Account: "acc_2", ID: "new"})
	if _, err := l.Grant(&hash, time.Unix(0, 0)); err == nil {
		t.Error("a removed token is granted")
	}
}

// TestCompactionUnderReaders: readers keep the strings that they hold
// while the table forgets and moves them.
func TestCompactionUnderReaders(t *testing.T) {
	t.Parallel()
	const tokens, rounds = 200, 60
	l := New(nil)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	name := func(i int) string { return strings.Repeat(fmt.Sprintf("%08d", i), 8) }
	put := func(i int) { l.PutToken(&Token{Hash: clashing(i), Account: "acc_1", ID: name(i), Name: name(i)}) }
	for i := range tokens {
		put(i)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			held := map[int]string{}
			for i := 0; ; i = (i + 1) % tokens {
				select {
				case <-stop:
					return
				default:
				}
				hash := clashing(i)
				if got, err := l.Grant(&hash, time.Time{}); err == nil {
					if got.Key != name(i) || got.KeyName != name(i) {
						t.Errorf("token %d: got %q, %q", i, got.Key, got.KeyName)
					}
					if old, ok := held[i]; ok && old != name(i) {
						t.Errorf("token %d: what was held became %q", i, old)
					}
					held[i] = got.Key
				}
			}
		})
	}
	for range rounds {
		for i := range tokens / 2 {
			l.EndToken(&Token{Hash: clashing(i), Account: "acc_1", ID: name(i)})
			put(i)
		}
	}
	close(stop)
	readers.Wait()
	probe := clashing(0)
	shard, _ := l.tokens.shard(&probe)
	if live := tokens * 2 * len(name(0)); shard.text.size > 2*live+2*chunkSize {
		t.Errorf("the text of %d bytes takes %d", live, shard.text.size)
	}
	if rows := len(shard.rows); rows > 3*tokens {
		t.Errorf("%d rows for %d tokens: rows are not used again", rows, tokens)
	}
}

// TestRemoveExpired: what has expired leaves the memory, the rest stays.
func TestRemoveExpired(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	l := New(nil)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	for i := range 300 {
		tok := Token{Hash: clashing(i), Account: "acc_1", ID: fmt.Sprint(i)}
		if i%3 > 0 {
			tok.ExpiresAt = now.Add(time.Duration(i-150) * time.Second)
		}
		l.PutToken(&tok)
	}
	if got := l.RemoveExpired(now); got != 100 {
		t.Errorf("removed %d tokens, want 100", got)
	}
	for i := range 300 {
		hash := clashing(i)
		_, err := l.Grant(&hash, now.Add(-time.Hour))
		if live := i%3 == 0 || i > 150; live != (err == nil) {
			t.Errorf("token %d: got %v, want live %v", i, err, live)
		}
	}
}
