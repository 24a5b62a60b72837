package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Dump returns the pieces of a store as sorted JSON, and checks that a document
// comes before the rest of its account, unless that is closed.
func Dump(t testing.TB, b *book.Book) (list []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range Pieces(t, b) {
		owner := p.Space.Account
		switch {
		case p.Document != nil:
			seen[p.Document.ID] = true
		case p.Count != nil:
			owner = p.Count.Account
		case p.Space.Name == "closed":
			seen[p.Row.Key] = true
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Errorf("encoding a piece: %v", err)
		}
		if owner != "" && !seen[owner] {
			t.Errorf("%s comes before its document", text)
		}
		list = append(list, string(text))
	}
	slices.Sort(list)
	return list
}

// Pieces returns the pieces of a store, as a backup has them.
func Pieces(t testing.TB, b *book.Book) (pieces []book.Piece) {
	t.Helper()
	err := b.Dump(context.Background(), func(p book.Piece) error {
		text, err := json.Marshal(p)
		var read book.Piece
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		pieces = append(pieces, read)
		return err
	})
	if err != nil {
		t.Fatalf("dumping: %v", err)
	}
	return pieces
}

// Fill adds data of each kind to an empty engine.
func Fill(t *testing.T, opened book.Engine) {
	s := newSuite(t, opened)
	defer s.close()
	s.fill()
}

func (s *suite) fill() {
	s.account("acc_1", "acc_2", "acc_empty", "acc_deleted", "acc_closed", "acc_again")
	_, err := PutAccount(s.Context(), s.store.Book, store.Account{
		ID: "acc_2", Plan: "business", Label: "Grace Hopper", Disabled: true,
		Terms: store.Terms{
			Overrides: []store.Override{{Limit: store.Limit{Endpoint: "convert", Period: store.Day, Max: 7}, Reason: "trial", CreatedAt: s.now, ExpiresAt: s.now.Add(time.Hour)}},
			Billing:   store.Billing{Day: 31}.Change(15, s.today), PlanUntil: s.now.Add(time.Hour), Then: "starter",
			Prepaid: []store.Prepaid{{
				Endpoint: "convert", Counted: 7, Used: -2, TopUps: []store.TopUp{{Calls: 5, Left: 3, ExpiresAt: s.now.Add(time.Hour)}, {Calls: 9, Left: 9}}, Since: s.now,
			}},
		},
	})
	s.must(err)
	s.must(s.store.NotePlanEnd(s.Context(), "acc_2", s.now.Add(time.Hour)))
	_, _, err = s.store.TopUp(s.Context(), s.now, "acc_2", "topup_1", book.TopUp{Endpoint: store.All, Calls: 4, ExpiresAt: s.now.Add(time.Hour)}, "", func(*book.Account) error { return nil }, func(*book.Account) {})
	s.must(err)
	plain, limited, login := s.newKey("acc_1", "plain"), s.newKey("acc_1", "limited"), s.newKey("acc_2", "login")
	limited.Limits = []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 5}}
	limited.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	login.Kind, login.ExpiresAt = token.Login, s.now.Add(time.Hour)
	revoked, rotated := s.newKey("acc_1", "revoked"), s.newKey("acc_2", "rotated")
	for _, key := range []store.Key{plain, limited, login, revoked, rotated, s.newKey("acc_deleted", "gone")} {
		s.create(key)
	}
	s.must(s.store.RevokeKey(s.Context(), "acc_1", revoked.ID, s.now))
	s.must(s.replace(rotated.ID, s.successor(rotated, "key_next"), s.now.Add(time.Hour)))
	call, ofKey := s.call("acc_1", "convert"), costing(s.call("acc_1", "convert"), 3)
	ofKey.Key = limited.ID
	for _, call := range []store.Call{call, ofKey, on(call, s.today-1), on(ofKey, s.today-40), s.call("acc_2", "rates"), s.call("acc_deleted", "rates"), costing(s.call("acc_closed", "rates"), 3), s.call("acc_again", "rates")} {
		s.takeList(call, nil, true)
	}
	limits := []store.Limit{
		{Endpoint: "rates", Period: store.Total, Max: 20}, {Endpoint: "rates", Period: store.Total, Max: 20, OfKey: true},
		{Endpoint: store.All, Period: store.Total, Max: 20, Calls: true}, {Endpoint: "rates", Period: store.Week, Max: 9, Soft: true, Included: 1},
	}
	for _, account := range []string{"acc_1", "acc_closed"} {
		admitted, err := s.store.Take(s.Context(), byKey(costing(s.call(account, "rates"), 4), limited.ID), limits, make([]store.Room, len(limits)))
		if s.must(err); !admitted {
			s.Errorf("a call of %s was refused", account)
		}
	}
	credit := []book.Credit{{Day: s.today, Endpoint: "rates", Calls: 1}}
	for _, account := range []string{"acc_2", "acc_closed"} {
		_, err := s.store.Credit(s.Context(), s.now, account, "credit_1", credit, func(*book.Account, []book.Credit) {})
		s.must(err)
	}
	for _, account := range []string{"acc_closed", "acc_again"} {
		s.must(s.store.CloseAccount(s.Context(), s.now, account, s.today, s.today, func(*book.Account, []book.Bill) {}))
	}
	for life := range 2 { // with Closed.Before
		again := store.Account{ID: "acc_again", Plan: "starter", CreatedAt: s.now.Add(time.Duration(life+1) * time.Millisecond)}
		_, err := PutAccount(s.Context(), s.store.Book, again)
		s.must(err)
		if life == 0 {
			s.takeList(s.call("acc_again", "rates"), nil, true)
			s.must(s.store.CloseAccount(s.Context(), s.now, "acc_again", s.today, s.today, func(*book.Account, []book.Bill) {}))
		}
	}
	_, err = s.store.Credit(s.Context(), s.now, "acc_closed", "credit_2", credit, func(*book.Account, []book.Credit) {})
	s.must(err)
	for i := range 20 {
		record := s.record("acc_1", i-20)
		record.Key, record.From = plain.ID, netip.MustParseAddr("192.0.2.1")
		s.store.Record(record)
	}
	s.must(s.store.DeleteAccount(s.Context(), "acc_deleted"))
	s.must(s.store.SetTimezone(s.Context(), "Europe/Berlin"))
	s.must(s.store.AddRefused(s.Context(), []store.Refused{
		{Day: s.today, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 4},
		{Day: s.today - 300, Endpoint: "convert", Code: "invalid_token", Calls: 2},
		{Day: s.today - 300, Account: "acc_1", Endpoint: "convert", Code: "invalid_token", Reason: string(store.Revoked), Calls: 2},
	}))
	s.must(s.store.AddEntries(s.Context(), s.entry("acc_1", -5), s.entry("acc_1", -5), s.entry("acc_2", -4)))
	queued := store.Event{ID: "evt_1", Type: "tollgate.quota_exceeded", At: s.now, Body: []byte(`{}`), Known: s.now.Add(48 * time.Hour)}
	var writes []book.Write
	for key, value := range map[string]any{"k evt_1": "", "k evt_done": "", "x 2126-11-20T10:00:00Z acc_1 key_1": "", "q 01780000000000000000 evt_1": queued, "c": [3]int64{0, 0, 1_780_000_000_000_000_000}} {
		w := book.Write{Row: book.Row{Key: key, Value: book.EncodeRow(value)}}
		if value == "" {
			w.Expires = queued.Known
		}
		writes = append(writes, w)
	}
	s.must(s.store.Commit(s.Context(), book.Batch{Space: book.EventSpace, Writes: writes})[0])
}

// dump: a dump has everything, and nothing of a deleted account. A restart
// changes neither that nor what a token grants.
func (s *suite) dump() {
	s.fill()
	want, grants := Dump(s, s.store.Book), s.grants()
	s.restart()
	if got := s.grants(); !slices.Equal(got, grants) {
		s.Errorf("grants after a restart:\n got %s\nwant %s", got, grants)
	}
	if got := Dump(s, s.store.Book); !slices.Equal(got, want) {
		s.Errorf("dump:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	kinds := map[string]int{}
	for _, text := range want {
		if strings.Contains(text, "acc_deleted") {
			s.Errorf("a dump has %s of a deleted account", text)
		}
		kind, _, _ := strings.Cut(text, ":")
		kinds[kind]++
	}
	if got := fmt.Sprint(kinds); got != `map[{"account":4 {"audit":3 {"count":17 {"row":20]` {
		s.Errorf("got %s pieces:\n%s", got, strings.Join(want, "\n"))
	}
	stop, calls := errors.New("stop"), 0
	err := s.store.Dump(s.Context(), func(book.Piece) error { calls++; return stop })
	if s.wantError("an error of write", err, stop); calls != 1 {
		s.Errorf("write was called %d times after an error", calls-1)
	}
}

// grants returns what each key grants, as text.
func (s *suite) grants() (list []string) {
	for _, p := range Pieces(s, s.store.Book) {
		if p.Document == nil {
			continue
		}
		for _, k := range p.Document.Keys {
			grant, err := s.store.Grant(s.Context(), k.Hash, s.now)
			list = append(list, fmt.Sprint(k.ID, grant.Account, grant.Plan, overridesOf(grant), grant.Restriction != nil, err))
		}
	}
	slices.Sort(list)
	return list
}

// Heap returns how much of the heap is in use.
func Heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// dumpUnderLoad: a dump has every call that was admitted before it, and
// calls are admitted meanwhile.
func (s *suite) dumpUnderLoad() {
	const callers, dumps = 4, 5
	accounts := []string{"acc_1", "acc_2", "acc_3"}
	s.account(accounts...)
	var admitted [3]atomic.Int64
	var done atomic.Bool
	s.together(callers+1, func(caller int) error {
		if caller < callers {
			for i := caller; !done.Load(); i++ {
				ok, err := s.store.Take(s.Context(), s.call(accounts[i%3], "convert"), nil, nil)
				if err != nil || !ok {
					done.Store(true)
					return cmp.Or(err, errors.New("a call without limits was refused"))
				}
				admitted[i%3].Add(1)
			}
			return nil
		}
		defer done.Store(true)
		for range dumps {
			var least [3]int64
			for i := range least {
				least[i] = admitted[i].Load()
			}
			got := map[string]int64{}
			err := s.store.Dump(s.Context(), func(p book.Piece) error {
				if p.Count != nil {
					got[p.Count.Account] += p.Count.Used
				}
				return nil
			})
			if err != nil {
				return err
			}
			for i, account := range accounts {
				if most := admitted[i].Load() + callers; got[account] < least[i] || got[account] > most {
					return fmt.Errorf("%s: dumped %d, want %d to %d", account, got[account], least[i], most)
				}
			}
		}
		return nil
	})
}
