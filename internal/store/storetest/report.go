package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// entry returns an audit entry some seconds after the time of the test.
func (s *suite) entry(account string, seconds int) store.Entry {
	return store.Entry{
		At: s.now.Add(time.Duration(seconds) * time.Second), ActorKind: "application", ActorID: "shop", Action: "key.create",
		Account: account, Target: fmt.Sprint("key_", seconds), Reason: "täglich", After: json.RawMessage(`{"name":"ci \"1\""}`),
	}
}

// log: entries are in the order of their ids, which ascend also if a clock goes
// back, and are read in parts from both ends.
func (s *suite) log() {
	s.wantEntries(nil)
	var want []string
	add := func(seconds int, entries ...store.Entry) {
		s.must(s.store.AddEntries(s.Context(), entries...))
		for _, e := range entries {
			want = append(want, e.Account)
		}
		s.restart()
		list, err := s.store.ListEntries(s.Context(), book.EntryFilter{}, store.EntryID{}, 100)
		s.must(err)
		for i := range entries {
			got := list[len(list)-len(entries)+i]
			entries[i].ID = got.ID
			// The id has the time of the entry, or that of the change.
			at, ms := s.now.Add(time.Duration(seconds)*time.Second), got.ID.Milliseconds
			if ms != at.UnixMilli() && ms < s.now.UnixMilli() || !same(got, entries[i]) {
				s.Errorf("got entry %+v, want %+v at %v", got, entries[i], at)
			}
		}
	}
	person := store.Entry{At: s.now.Add(-time.Hour), ActorKind: "person", Action: "account.change", Account: "acc_0", Before: json.RawMessage(`{}`)}
	add(-3600, person)
	add(-20, s.entry("acc_1", -20), s.entry("acc_2", -20), s.entry("acc_3", -20)) // in a millisecond
	add(-20, s.entry("acc_4", -20))
	add(-20, s.entry("acc_5", -300), s.entry("acc_6", -200)) // the clock went back
	add(-9, s.entry("acc_7", -9))
	s.wantEntries(want)
}

// logUnderConcurrency: each entry gets an id of its own, and none appears
// before one that was read.
func (s *suite) logUnderConcurrency() {
	const callers, rounds = 8, 10
	var want, got []string
	for caller := range callers {
		for range 2 * rounds {
			want = append(want, fmt.Sprint("acc_", caller))
		}
	}
	var running atomic.Int64
	running.Store(callers)
	s.together(callers+1, func(caller int) error {
		for after, last := (store.EntryID{}), false; caller == callers; {
			ended := running.Load() == 0
			list, err := s.store.Entries(s.Context(), after, store.EntryID{}, false, 7)
			if err != nil || last && len(list) == 0 {
				return err
			}
			for _, l := range list {
				after, got = l.ID, append(got, accountOf(l))
			}
			last = ended
		}
		defer running.Add(-1)
		for i := range rounds {
			account := fmt.Sprint("acc_", caller)
			if err := s.store.AddEntries(s.Context(), s.entry(account, -caller), s.entry(account, -i)); err != nil {
				return err
			}
		}
		return nil
	})
	if slices.Sort(got); !slices.Equal(got, want) {
		s.Errorf("a reader of the log got %d entries, want %d", len(got), len(want))
	}
}

func accountOf(l book.LogEntry) string {
	value, err := book.Piece{Entry: &l}.Value()
	if err != nil {
		return err.Error()
	}
	return value.(*store.Entry).Account
}

// wantEntries reads the log in parts of several sizes, from both ends. want has
// the account of each entry.
func (s *suite) wantEntries(want []string) {
	s.Helper()
	for _, reverse := range []bool{false, true} {
		for _, limit := range []int{1, 3, 100} {
			list := pages(s, limit, func(at book.LogEntry) ([]book.LogEntry, error) {
				after, before := at.ID, store.EntryID{}
				if reverse {
					after, before = store.EntryID{}, at.ID
				}
				return s.store.Entries(s.Context(), after, before, reverse, limit)
			})
			var got []string
			for i, l := range list {
				got = append(got, accountOf(l))
				if i > 0 && l.ID.Compare(list[i-1].ID) > 0 == reverse {
					s.Errorf("reverse %v: id %v follows %v", reverse, l.ID, list[i-1].ID)
				}
			}
			if reverse {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				s.Errorf("parts of %d, reverse %v: got %q, want %q", limit, reverse, got, want)
			}
			if n := len(list); n > 2 { // neither end is included
				first, last := list[0].ID, list[n-1].ID
				if reverse {
					first, last = last, first
				}
				between, err := s.store.Entries(s.Context(), first, last, reverse, 100)
				if s.must(err); len(between) != n-2 {
					s.Errorf("got %d entries between the ends, want %d", len(between), n-2)
				}
			}
		}
	}
}
