package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// receipts: of calls with the same receipt, one counts, and one settles it, also if
// many come at once, whatever the limits are, and after the store was closed or
// killed.
func (s *suite) receipts() {
	s.account("acc_1", "acc_2")
	limits := []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 10}, {Endpoint: "convert", Period: store.Month, Max: 90, Soft: true, Included: 4}}
	call := func(account, name, old, value string) store.Call {
		c := costing(s.call(account, "convert"), 3)
		grant, err := s.store.GrantAccount(s.Context(), account, true)
		s.must(err)
		c.Handle, c.Receipt = grant.Handle, &store.Receipt{Name: name, New: []byte(value), Expires: time.Now().Add(time.Hour)}
		if old != "" {
			c.Receipt.Old = []byte(old)
		}
		return c
	}
	take := func(c store.Call) (bool, error) {
		return s.store.Take(s.Context(), c, limits, make([]store.Room, len(limits)))
	}
	kept := func(account, name, want string) {
		s.Helper()
		got, err := s.store.Receipt(s.Context(), call(account, "", "", ""), name)
		if s.must(err); string(got) != want || (got == nil) != (want == "") {
			s.Errorf("kept %q of %s %s, want %q", got, account, name, want)
		}
	}
	used := func(account string, want, overage int64) {
		s.Helper()
		got := map[string]int64{}
		for _, key := range []string{"", store.OverageKey} {
			list, err := s.store.Counts(s.Context(), account, key, s.today, s.today)
			s.must(err)
			for _, c := range list {
				got[key] = c.Used
			}
		}
		if got[""] != want || got[store.OverageKey] != overage {
			s.Errorf("%s has used %v, want %d and %d above", account, got, want, overage)
		}
	}
	var admitted, others atomic.Int64
	s.together(32, func(i int) error {
		ok, err := take(call("acc_1", "job", "", fmt.Sprint("by ", i)))
		switch {
		case ok && err == nil:
			admitted.Add(1)
		case err == store.ErrReceipt:
			others.Add(1)
		default:
			return fmt.Errorf("admitted %v, %w", ok, err)
		}
		return nil
	})
	if admitted.Load() != 1 || others.Load() != 31 {
		s.Errorf("admitted %d, %d have another receipt", admitted.Load(), others.Load())
	}
	s.kill()
	used("acc_1", 3, 0)
	first, err := s.store.Receipt(s.Context(), call("acc_1", "", "", ""), "job")
	s.must(err)
	for name := range 3 {
		ok, err := take(call("acc_1", fmt.Sprint("more ", name), "", "x"))
		if s.must(err); ok != (name < 2) {
			s.Errorf("call %d: admitted %v", name, ok)
		}
	}
	used("acc_1", 9, 5)
	kept("acc_1", "more 1", "x")
	kept("acc_1", "more 2", "")
	_, err = take(call("acc_1", "job", "", "again"))
	s.wantError("a repetition at the limit", err, store.ErrReceipt)
	ok, err := take(call("acc_2", "job", "", "of another account"))
	if s.must(err); !ok {
		s.Error("the receipt of another account refuses a call")
	}
	s.restart()
	kept("acc_2", "job", "of another account")
	kept("acc_1", "job", string(first))

	settle := func(old, value string, cost int64) error {
		rooms := []store.Room{limits[0].RoomAfter(9), limits[1].RoomAfter(9)}
		return s.store.Settle(s.Context(), call("acc_1", "more 1", old, value), limits, rooms, cost, false)
	}
	s.wantError("a settlement that expects another receipt", settle("y", "z", 0), store.ErrReceipt)
	s.wantError("a settlement that expects none", settle("", "z", 0), store.ErrReceipt)
	var settled atomic.Int64
	s.together(16, func(int) error {
		err := settle("x", "settled", 1)
		if err == nil {
			settled.Add(1)
		} else if err != store.ErrReceipt {
			return err
		}
		return nil
	})
	if settled.Load() != 1 {
		s.Errorf("settled %d times", settled.Load())
	}
	used("acc_1", 7, 3)
	s.must(s.store.Settle(s.Context(), call("acc_1", "job", string(first), "same cost"), nil, nil, 3, false))
	s.kill()
	used("acc_1", 7, 3)
	kept("acc_1", "more 1", "settled")
	kept("acc_1", "job", "same cost")

	s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	s.account("acc_1")
	kept("acc_1", "job", "")
	if ok, err := take(call("acc_1", "job", "", "of the next account")); !ok {
		s.Errorf("a call of the next account with the id: %v", err)
	}
	used("acc_1", 3, 0)
	gone := call("acc_2", "gone", "", "soon")
	gone.Receipt.Expires = time.Now().Add(time.Second)
	if ok, err := take(gone); !ok {
		s.Errorf("a call: %v", err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if value, err := s.store.Receipt(s.Context(), gone, "gone"); err == nil && value == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.Error("a receipt does not expire")
}
