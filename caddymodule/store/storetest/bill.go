package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// wantBills reads the bills of all accounts, in pages of several sizes.
func (s *suite) wantBills(first, last calendar.Day, want ...book.Bill) {
	s.Helper()
	order := func(a, b book.Bill) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(fmt.Sprint(!a.Closed), fmt.Sprint(!b.Closed)), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Endpoint, b.Endpoint))
	}
	slices.SortFunc(want, order)
	for _, size := range []int{1, 2, 100} {
		var got []book.Bill
		for after := ""; ; {
			page, next, err := s.store.Bills(s.Context(), after, size, first, last)
			s.must(err)
			got = append(got, page...)
			if after = next; after == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			s.Errorf("bills, %d accounts at once:\n got %+v\nwant %+v", size, got, want)
		}
	}
}

// credits: a credit gives calls back in all limits of the day and the month, and
// the calls stay. One that is made again changes nothing.
func (s *suite) credits() {
	s.account("acc_1", "acc_2")
	day := s.middleOfMonth()
	old := day - 60
	limits := limitList()
	call, rates := on(s.call("acc_1", "convert"), day), on(s.call("acc_1", "rates"), day)
	ofKey := byKey(call, "key_1")
	s.takeList(on(s.call("acc_2", "convert"), day), nil, true)
	s.takeList(costing(call, 2), nil, true)
	s.takeList(costing(ofKey, 3), nil, true)
	s.takeList(costing(on(call, day-1), 7), nil, true)
	s.takeList(costing(on(call, old), 4), nil, true)
	s.takeList(costing(rates, 3), nil, true)
	credit := func(day calendar.Day, endpoint string, total int64) {
		s.Helper()
		for range 2 {
			s.must(s.store.Engine.Credit(s.Context(), "acc_1", []string{"key_1", "key_none"}, day, endpoint, total))
		}
	}
	wantKey := func(used, credited int64) {
		s.Helper()
		s.wantUsed(ofKey, used)
		s.wantUsed(byKey(call, store.Credited), credited)
	}
	s.takeList(call, limits, true, 14, 17, 31, 34)
	credit(day, "convert", 2)
	credit(day, "unknown", 5)
	wantKey(1, 2)
	s.takeList(call, limits, true, 15, 18, 32, 35)
	credit(day, "convert", 1) // less than before
	credit(day, "convert", 5)
	credit(day, "rates", 3)
	wantKey(0, 5)
	s.takeList(call, limits, true, 17, 20, 37, 40)
	credit(day-1, "convert", 100) // more than there is
	credit(old, "convert", 1)
	s.must(s.store.Engine.Credit(s.Context(), "acc_unknown", nil, day, "convert", 1))
	check := func() {
		s.Helper()
		wantKey(0, 5)
		s.wantBills(old, day,
			book.Bill{Account: "acc_1", Plan: "starter", Day: day, Endpoint: "convert", Calls: 8, Credited: 5},
			book.Bill{Account: "acc_1", Plan: "starter", Day: day, Endpoint: "rates", Calls: 3, Credited: 3},
			book.Bill{Account: "acc_1", Plan: "starter", Day: day - 1, Endpoint: "convert", Calls: 7, Credited: 7},
			book.Bill{Account: "acc_1", Plan: "starter", Day: old, Endpoint: "convert", Calls: 4, Credited: 1},
			book.Bill{Account: "acc_2", Plan: "starter", Day: day, Endpoint: "convert", Calls: 1},
		)
	}
	check()
	s.restart()
	check()
	s.takeList(costing(call, 0), limits, true, 16, 26, 36, 46)
}

// creditsUnderLoad: calls and credits at once lose no call and no credit, and of
// equal credits at once one is made.
func (s *suite) creditsUnderLoad() {
	const callers = 8
	s.account("acc_1")
	key := s.newKey("acc_1", "ci")
	key.Limits = []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 1000, OfKey: true}}
	s.create(key)
	call := byKey(s.call("acc_1", "convert"), key.ID)
	var given int64
	var admitted, recorded atomic.Int64
	credit := func(caller, i int) (book.Credit, error) { // of two callers
		id := fmt.Sprintf("credit_%d_%d", caller/2, i)
		made, err := s.store.Credit(s.Context(), s.now, "acc_1", id, []book.Credit{{Day: s.today, Endpoint: "convert", Calls: 2}}, func(*book.Account, []book.Credit) {
			recorded.Add(1)
		})
		if err != nil || len(made) != 1 || made[0].Credited > 2 {
			return book.Credit{}, fmt.Errorf("got %+v, %w", made, err)
		}
		return made[0], nil
	}
	s.together(callers, func(caller int) error {
		for i := range rounds(200) {
			ok, err := s.store.Take(s.Context(), call, nil, nil)
			if err != nil || !ok {
				return cmp.Or(err, errors.New("a call without limits was refused"))
			}
			admitted.Add(1)
			if i%3 == 0 {
				if _, err := credit(caller, i); err != nil {
					return err
				}
			}
		}
		return nil
	})
	recorded.Store(0)
	for caller := 0; caller < callers; caller += 2 {
		for i := 0; i < rounds(200); i += 3 {
			again, err := credit(caller, i)
			s.must(err)
			given += again.Credited
		}
	}
	bills, _, err := s.store.Bills(s.Context(), "", 10, s.today, s.today)
	s.must(err)
	if len(bills) != 1 || bills[0].Calls != admitted.Load() || bills[0].Credited != given || bills[0].Credited == 0 || recorded.Load() != 0 {
		s.Errorf("after %d calls and credits of %d: got %+v, and %d credits were made again", admitted.Load(), given, bills, recorded.Load())
	}
	left := bills[0].Calls - bills[0].Credited
	s.wantUsed(call, left)
	s.wantUsed(byKey(call, ""), left)
	for _, other := range []book.Credit{{Day: s.today, Endpoint: "convert", Calls: 3}, {Day: s.today, Endpoint: "rates", Calls: 2}} {
		_, err = s.store.Credit(s.Context(), s.now, "acc_1", "credit_0_0", []book.Credit{other}, nil)
		s.wantError("another credit with the same id", err, book.ErrOtherCredit)
	}
	_, err = s.store.Credit(s.Context(), s.now, "acc_2", "", []book.Credit{{Day: s.today, Endpoint: "convert", Calls: 3}}, nil)
	s.wantError("a credit of no account", err, store.ErrNotFound)
}

// closedAccounts: what a closed account called stays, and the next account with
// its id has not used it. Calls that were in flight can still be given back.
func (s *suite) closedAccounts() {
	day := s.middleOfMonth()
	old := day - 60
	call := on(s.call("acc_1", "convert"), day)
	begin := func(plan string) store.Handle {
		s.Helper()
		_, err := PutAccount(s.Context(), s.store.Book, store.Account{ID: "acc_1", Plan: plan, Label: "Ada", CreatedAt: s.now})
		s.must(err)
		grant, err := s.store.GrantAccount(s.Context(), "acc_1", true)
		s.must(err)
		return grant.Handle
	}
	end := func(want int64) {
		s.Helper()
		s.must(s.store.CloseAccount(s.Context(), s.now, "acc_1", day-1, day, func(_ *book.Account, called []book.Bill) {
			var calls int64
			for _, bill := range called {
				calls += bill.Calls - bill.Credited
			}
			if calls != want {
				s.Errorf("closing an account: got %+v, want %d calls", called, want)
			}
		}))
	}
	bill := func(plan string, closed bool, day calendar.Day, calls, credited int64) book.Bill {
		b := book.Bill{Account: "acc_1", Plan: plan, Closed: closed, Day: day, Endpoint: "convert", Calls: calls, Credited: credited}
		if !closed {
			b.Label = "Ada"
		}
		return b
	}
	s.wantError("closing no account", s.store.CloseAccount(s.Context(), s.now, "acc_1", day, day, nil), store.ErrNotFound)
	s.account("acc_10", "acc_unused")
	s.must(s.store.CloseAccount(s.Context(), s.now, "acc_unused", day, day, func(*book.Account, []book.Bill) {}))
	s.takeList(on(s.call("acc_10", "convert"), day), nil, true)
	other := book.Bill{Account: "acc_10", Plan: "starter", Day: day, Endpoint: "convert", Calls: 1}

	first := begin("starter")
	s.create(store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key, Name: "ci", CreatedAt: s.now})
	late := call
	late.Handle = first
	s.takeList(costing(call, 5), nil, true)
	s.takeList(costing(byKey(call, "key_1"), 2), nil, true)
	s.takeList(costing(on(call, old), 4), nil, true)
	s.must(s.store.Engine.Credit(s.Context(), "acc_1", nil, day, "convert", 1))
	end(6)
	s.must(s.store.Settle(s.Context(), late, 0))
	s.wantBills(old, day, bill("starter", true, day, 6, 1), bill("starter", true, old, 4, 0), other)
	s.restart()
	s.wantBills(old, day, bill("starter", true, day, 6, 1), bill("starter", true, old, 4, 0), other)

	call.Handle = begin("business")
	s.takeList(costing(call, 3), limitList(), true, 17, 27, 37, 47)
	s.wantUsed(byKey(call, "key_1"), 0)
	check := func() {
		s.Helper()
		s.wantBills(old, day, bill("starter", true, day, 6, 1), bill("starter", true, old, 4, 0), bill("business", false, day, 3, 0), other)
		s.wantUsed(call, 3)
	}
	check()
	s.restart()
	check()
	grant, err := s.store.GrantAccount(s.Context(), "acc_1", true)
	s.must(err)
	end(3)
	call.Handle = begin("pro")
	s.takeList(call, limitList(), true, 19, 29, 39, 49)
	if late.Handle = grant.Handle; late.Handle != 0 {
		s.must(s.store.Settle(s.Context(), late, 0)) // changes nothing
	}
	s.wantBills(old, day, bill("business", true, day, 9, 1), bill("business", true, old, 4, 0), bill("pro", false, day, 1, 0), other)
	end(1)
	s.wantBills(old, day, bill("pro", true, day, 10, 1), bill("pro", true, old, 4, 0), other)
	page, next, err := s.store.Bills(s.Context(), "acc_1", 1, old, day)
	if s.must(err); len(page) != 1 || page[0] != other || next != "" {
		s.Errorf("bills after acc_1: got %+v, next %q", page, next)
	}
	// A dump has them once, and a restore brings them back: see Fill.
	counts := 0
	for _, p := range Pieces(s, s.store.Book) {
		if p.Row != nil && p.Row.Key == "acc_unused" {
			s.Error("an account without calls has left a row")
		}
		if p.Count != nil && p.Count.Account == "acc_1" {
			counts++
		}
	}
	if counts != 4 {
		s.Errorf("a dump has %d counts of the closed account, want those of two days, of the closed ones before and a credit", counts)
	}
}
