package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// wantBills reads the bills of all accounts, in pages of several sizes. Those of
// one account are in the order of want.
func (s *suite) wantBills(first, last calendar.Day, want ...book.Bill) {
	s.Helper()
	slices.SortStableFunc(want, func(a, b book.Bill) int { return cmp.Compare(a.Account, b.Account) })
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
	var once sync.Map                                    // the ids of credits that gave something back
	credit := func(caller, i int) (book.Credit, error) { // of two callers
		id := fmt.Sprintf("credit_%d_%d", caller/2, i)
		made, err := s.store.Credit(s.Context(), s.now, "acc_1", id, []book.Credit{{Day: s.today, Endpoint: "convert", Calls: 2}}, func(*book.Account, []book.Credit) {
			recorded.Add(1)
		})
		if errors.Is(err, book.ErrNothingLeft) {
			return book.Credit{}, nil
		}
		if err != nil || len(made) != 1 || made[0].Credited > 2 {
			return book.Credit{}, fmt.Errorf("got %+v, %w", made, err)
		}
		once.Store(id, true)
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
			if _, made := once.Load(fmt.Sprintf("credit_%d_%d", caller/2, i)); !made { // it gave nothing back then
				recorded.Add(-1)
			}
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

// lives makes and closes accounts with the id acc_1, one after the other.
type lives struct {
	*suite
	day  calendar.Day // on which they are closed
	made int
}

func (l *lives) begin(plan string) store.Handle {
	l.Helper()
	l.made++
	_, err := PutAccount(l.Context(), l.store.Book, store.Account{ID: "acc_1", Plan: plan, Label: "Ada", CreatedAt: l.now.Add(time.Duration(l.made))})
	l.must(err)
	grant, err := l.store.GrantAccount(l.Context(), "acc_1", true)
	l.must(err)
	return grant.Handle
}

func (l *lives) end(want int64) {
	l.Helper()
	l.must(l.store.CloseAccount(l.Context(), l.now, "acc_1", l.day-1, l.day, func(_ *book.Account, called []book.Bill) {
		var calls int64
		for _, bill := range called {
			calls += bill.Calls - bill.Credited
		}
		if calls != want {
			l.Errorf("closing an account: got %+v, want %d calls", called, want)
		}
	}))
}

// bill is that of an account. Some of 6 and of 3 calls were above a soft limit.
func (l *lives) bill(plan string, closed bool, day calendar.Day, calls, credited int64) book.Bill {
	b := book.Bill{Overage: map[int64]int64{3: 1, 6: 2}[calls], Account: "acc_1", Plan: plan, Closed: closed, Day: day, Period: firstOf(day), Endpoint: "convert", Calls: calls, Credited: credited}
	if !closed {
		b.Label = "Ada"
	}
	return b
}

// closedAccounts: what each closed account called stays, and the next account with
// its id has not used it. Calls that were in flight can still be given back.
func (s *suite) closedAccounts() {
	day := s.middleOfMonth()
	old := day - 60
	l := &lives{suite: s, day: day}
	call := on(s.call("acc_1", "convert"), day)
	s.wantError("closing no account", s.store.CloseAccount(s.Context(), s.now, "acc_1", day, day, nil), store.ErrNotFound)
	s.account("acc_10", "acc_unused")
	s.must(s.store.CloseAccount(s.Context(), s.now, "acc_unused", day, day, func(*book.Account, []book.Bill) {}))
	s.takeList(on(s.call("acc_10", "convert"), day), nil, true)
	other := book.Bill{Account: "acc_10", Plan: "starter", Day: day, Period: firstOf(day), Endpoint: "convert", Calls: 1}

	first := l.begin("starter")
	s.create(store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key, Name: "ci", CreatedAt: s.now})
	late := call
	late.Handle = first
	soft := daily(100)
	soft.Soft, soft.Included = true, 3
	s.takeList(costing(call, 5), []store.Limit{soft}, true, 95)
	s.takeList(costing(byKey(call, "key_1"), 2), nil, true)
	s.takeList(costing(on(call, old), 4), nil, true)
	s.must(s.store.Engine.Credit(s.Context(), "acc_1", nil, day, "convert", 1))
	l.end(6)
	s.must(s.store.Settle(s.Context(), late, nil, nil, 0, false))
	s.wantBills(old, day, l.bill("starter", true, old, 4, 0), l.bill("starter", true, day, 6, 1), other)
	s.restart()
	s.wantBills(old, day, l.bill("starter", true, old, 4, 0), l.bill("starter", true, day, 6, 1), other)

	call.Handle = l.begin("business")
	soft.Included = 2
	s.takeList(costing(call, 3), append(limitList(), soft), true, 17, 27, 37, 47, 97)
	s.wantUsed(byKey(call, "key_1"), 0)
	check := func() {
		s.Helper()
		s.wantBills(old, day, l.bill("starter", true, old, 4, 0), l.bill("starter", true, day, 6, 1), l.bill("business", false, day, 3, 0), other)
		s.wantUsed(call, 3)
	}
	check()
	s.restart()
	check()
	grant, err := s.store.GrantAccount(s.Context(), "acc_1", true)
	s.must(err)
	l.end(3)
	call.Handle = l.begin("pro")
	s.takeList(call, limitList(), true, 19, 29, 39, 49)
	if late.Handle = grant.Handle; late.Handle != 0 {
		s.must(s.store.Settle(s.Context(), late, nil, nil, 0, false)) // changes nothing
	}
	closed := []book.Bill{l.bill("starter", true, old, 4, 0), l.bill("starter", true, day, 6, 1), l.bill("business", true, day, 3, 0)}
	s.wantBills(old, day, append(closed, l.bill("pro", false, day, 1, 0), other)...)
	l.end(1)
	s.wantBills(old, day, append(closed, l.bill("pro", true, day, 1, 0), other)...)
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
	if counts != 5 {
		s.Errorf("a dump has %d counts of the closed account, want those of two days, of the closed ones before, a credit and overage", counts)
	}
}
