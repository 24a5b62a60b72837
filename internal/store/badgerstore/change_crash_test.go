package badgerstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// changeCallers is how many goroutines change accounts in the child, each one of
// its own.
const changeCallers = 6

func changedAccount(caller int) string { return fmt.Sprint("acc_changed_", caller) }

// changeAccounts changes accounts again and again, and makes events of the audit
// log meanwhile. Each change of an account has the next number. It is the label
// of the account and the id of its only key, and it is in the audit log and in a
// row of the account. It is acknowledged on standard output, after a call of the
// account and a credit of some of its calls.
func changeAccounts(s badgerstore.TestStore) {
	ctx := context.Background()
	for caller := range changeCallers {
		go func() {
			for {
				number, err := changeNext(ctx, s, changedAccount(caller))
				if err == nil && number%5 > 0 {
					_, err = s.Take(ctx, store.Call{Account: changedAccount(caller), Endpoint: "convert", At: now, Day: today}, nil, nil)
				}
				var before []store.Count // what closed accounts were credited
				if err == nil {
					before, err = s.Counts(ctx, changedAccount(caller), store.ClosedCredited, today, today)
				}
				if err == nil {
					total := credited(number)
					for _, c := range before {
						total += c.Used
					}
					err = s.Credit(ctx, changedAccount(caller), nil, today, "convert", total)
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Println("changed", caller, number)
			}
		}()
	}
	for queue := event.NewQueue(s.Book); ; {
		if _, _, err := queue.Follow(ctx, time.Time{}, knownEvent); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// credited is how many calls of an account are credited after a change.
func credited(number int) int64 { return int64(number % 5 / 2) }

func knownEvent(e store.Entry) []store.Event {
	return []store.Event{{ID: "evt_" + e.ID.String(), At: e.At, Known: now.Add(24 * time.Hour)}}
}

// changeNext makes the next change of an account: each fifth one deletes it.
func changeNext(ctx context.Context, s badgerstore.TestStore, id string) (number int, err error) {
	entry, err := lastEntry(ctx, s, id)
	if err != nil {
		return 0, err
	}
	number, _ = strconv.Atoi(entry) // 0 without one
	number++
	return number, s.ChangeOne(ctx, time.Now(), id, func(a *book.Account) error {
		text := strconv.Itoa(number)
		a.Exists, a.Label, a.Keys = number%5 > 0, text, nil
		if a.Exists {
			if err := a.Create(book.Key{Key: store.Key{ID: text, Kind: token.Key, Name: "ci", CreatedAt: now}, Hash: numberedHash(id, number)}); err != nil {
				return err
			}
			a.Rows = []book.Write{{Row: book.Row{Key: "number", Value: []byte(text)}}}
		}
		a.Record(store.Entry{At: time.Now(), Action: "account.change", Target: text})
		return nil
	})
}

func numberedHash(account string, number int) token.Hash {
	return crashHash(fmt.Sprint(account, " ", number))
}

// lastEntry returns the target of the last entry of an account, empty for none.
func lastEntry(ctx context.Context, s badgerstore.TestStore, id string) (string, error) {
	list, err := s.ListEntries(ctx, book.EntryFilter{Accounts: []string{id}, NewestFirst: true}, store.EntryID{}, 1)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].Target, nil
}

// TestKillDuringChanges kills a process that changes accounts, over and over: of
// each change the document, the key, the row and the entry of the audit log are
// there, or none of them. Those of acknowledged changes are there, and each
// entry has its event, also those of which a process has made none. All calls of
// an account, of those that had its id before and all credits are there.
func TestKillDuringChanges(t *testing.T) {
	kills := 25
	if storetest.Long() {
		kills = 1000
	}
	dir := t.TempDir()
	c := &changed{calls: true}
	for kill := range kills {
		c.killed(t, dir, rand.N(60))
		s := open(t, dir)
		c.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatalf("closing: %v", err)
		}
		if t.Failed() {
			t.Fatalf("after %d kills", kill+1)
		}
	}
}

// changed is what children have acknowledged, and what was found.
type changed struct {
	acknowledged, found [changeCallers]int
	checked             store.EntryID // the last entry

	calls    bool               // each change has a call
	lost     [changeCallers]int // changes without one
	last     [changeCallers]int // the change that was found before
	credited [changeCallers]int // the credits that were found then
}

// killed runs a child, and kills it after so many changes.
func (c *changed) killed(t *testing.T, dir string, after int) {
	t.Helper()
	cmd, lines := start(t, "changes", dir)
	for n := 0; lines.Scan(); n++ {
		var caller, number int
		if _, err := fmt.Sscanf(lines.Text(), "changed %d %d", &caller, &number); err != nil {
			t.Fatal(err)
		}
		c.acknowledged[caller] = number
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

func (c *changed) check(t *testing.T, s badgerstore.TestStore) {
	t.Helper()
	c.checkLog(t, s)
	for caller, last := range c.found {
		if acknowledged := c.acknowledged[caller]; last != acknowledged && last != acknowledged+1 {
			t.Errorf("caller %d: the last entry is %d, acknowledged was %d", caller, last, acknowledged)
		}
		if c.calls {
			c.checkCounts(t, s, caller)
		}
		c.acknowledged[caller] = last
		id, want := changedAccount(caller), strconv.Itoa(last)
		rows, err := s.GetRows(t.Context(), book.Space{Account: id}, "number")
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Get(t.Context(), id)
		if last%5 == 0 { // deleted, or never created
			if a != nil || rows[0].Value != nil {
				t.Errorf("caller %d: after the deletion there is %+v, %v, with row %q", caller, a, err, rows[0].Value)
			}
			continue
		}
		if err != nil || a.Label != want || string(rows[0].Value) != want || len(a.Keys) != 1 || a.Keys[0].ID != want {
			t.Errorf("caller %d: want %s, got %+v, %v, with row %q", caller, want, a, err, rows[0].Value)
		}
		for number := range last + 2 {
			grant, err := s.Grant(t.Context(), numberedHash(id, number), now)
			if granted := err == nil && grant.Key == want; granted != (number == last) {
				t.Errorf("caller %d: after change %d the token of change %d grants %+v, %v", caller, last, number, grant, err)
			}
		}
	}
}

// checkCounts checks that there is a call for each change that did not delete the
// account. That of a change that was not acknowledged may be lost.
func (c *changed) checkCounts(t *testing.T, s badgerstore.TestStore, caller int) {
	t.Helper()
	last, id := c.found[caller], changedAccount(caller)
	counts := map[string]int{}
	for _, key := range []string{"", store.Credited, store.Closed, store.ClosedCredited} {
		counts[key] = int(countsOf(t, s, id, key)["convert"])
	}
	most := last - last/5 - c.lost[caller]
	least := most
	if last%5 > 0 && last != c.acknowledged[caller] {
		least--
	}
	own, closed := counts[""]+counts[store.Credited], counts[store.Closed]+counts[store.ClosedCredited]
	if got := own + closed; got < least || got > most {
		t.Errorf("caller %d: after change %d there are %d calls, want %d to %d", caller, last, got, least, most)
	}
	c.lost[caller] += most - own - closed
	// Processes can end between a change and its credits twice in a row.
	credits, least := counts[store.Credited], c.credited[caller]
	if acknowledged := c.acknowledged[caller]; acknowledged > c.last[caller] {
		least = int(credited(acknowledged))
	}
	if max(c.acknowledged[caller], c.last[caller])/5 != last/5 {
		least = 0 // of the account before
	}
	c.last[caller], c.credited[caller] = last, credits
	if last%5 == 0 {
		c.credited[caller] = 0
		return // the counts move to those of closed accounts when the next one is created
	}
	if own > last%5 || closed > last/5*4 {
		t.Errorf("caller %d: after change %d the account has %d calls, and closed ones have %d", caller, last, own, closed)
	}
	// Lost calls cannot be credited.
	if most := int(credited(last)); credits < min(least, own) || credits > most {
		t.Errorf("caller %d: after change %d there are credits of %d, want %d to %d", caller, last, credits, min(least, own), most)
	}
}

// checkLog checks that the new entries have the next numbers, and that each has
// an event once the log is followed. Before, the first ones may have.
func (c *changed) checkLog(t *testing.T, s badgerstore.TestStore) {
	t.Helper()
	var known []string
	for {
		page, err := s.ListEntries(t.Context(), book.EntryFilter{}, c.checked, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			var caller int
			if _, err := fmt.Sscanf(e.Account, "acc_changed_%d", &caller); err != nil {
				t.Fatal(err)
			}
			if c.found[caller]++; e.Target != strconv.Itoa(c.found[caller]) {
				t.Errorf("caller %d: the entry after %d is %s", caller, c.found[caller]-1, e.Target)
			}
			known = append(known, "k "+knownEvent(e)[0].ID)
			c.checked = e.ID
		}
		if len(page) == 0 {
			break
		}
	}
	events := func() (n int) {
		rows, err := s.GetRows(t.Context(), book.Space{Name: "events"}, known...)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if row.Value != nil {
				if n++; n != i+1 {
					t.Errorf("there is no event of entry %s", known[n-1])
				}
			}
		}
		return n
	}
	before, made, queue := events(), 0, event.NewQueue(s.Book)
	for more := true; more; {
		added, left, err := queue.Follow(t.Context(), time.Time{}, knownEvent)
		if err != nil {
			t.Fatal(err)
		}
		made, more = made+len(added), left
	}
	if after := events(); after != len(known) || made != after-before {
		t.Errorf("%d of %d new entries have an event, %d had one and %d were made", after, len(known), before, made)
	}
}
