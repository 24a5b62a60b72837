package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// accountBatch: a batch creates and changes accounts. An error of one account
// does not stop the others.
func (s *suite) accountBatch() {
	ids := make([]string, store.MaxBatch)
	for i := range ids {
		ids[i] = fmt.Sprintf("acc_%03d", i)
	}
	s.account(ids[7])
	errRefused := errors.New("refused")
	accounts, errs := s.store.ChangeAccounts(s.Context(), ids, func(i int, account *store.Account, exists bool) error {
		if account.ID != ids[i] || exists != (i == 7) || exists && account.Plan != "starter" {
			return fmt.Errorf("%d: got %+v, exists %v", i, *account, exists)
		}
		if account.Plan, account.Label, account.CreatedAt = "business", fmt.Sprint(i), s.now; i == 9 {
			return errRefused
		}
		return nil
	})
	if len(accounts) != len(ids) || len(errs) != len(ids) {
		s.Fatalf("got %d accounts and %d errors, want %d", len(accounts), len(errs), len(ids))
	}
	s.restart()
	for i, id := range ids {
		want := store.Account{ID: id, Plan: "business", Label: fmt.Sprint(i), CreatedAt: s.now}
		got, err := s.store.Account(s.Context(), id)
		if i == 9 {
			s.wantError("the refused account", errs[i], errRefused)
			s.wantError("reading the refused account", err, store.ErrNotFound)
			continue
		}
		if errs[i] != nil || err != nil || !same(accounts[i], want) || !same(got, want) {
			s.Fatalf("%s: got %+v, %v, stored %+v, %v, want %+v", id, accounts[i], errs[i], got, err, want)
		}
	}
	if accounts, errs := s.store.ChangeAccounts(s.Context(), nil, nil); len(accounts)+len(errs) > 0 {
		s.Errorf("an empty batch: got %v, %v", accounts, errs)
	}
}

// accountBatchesUnderConcurrency: batches in any order and single changes of
// the same accounts end, and lose no change.
func (s *suite) accountBatchesUnderConcurrency() {
	const callers, rounds = 8, 5
	ids := []string{"acc_1", "acc_2", "acc_3", "acc_4", "acc_5"}
	s.account(ids...)
	longer := func(a *store.Account, _ bool) error { a.Label += "x"; return nil }
	s.together(callers, func(caller int) error {
		mine := slices.Clone(ids)
		if caller%2 == 1 {
			slices.Reverse(mine)
		}
		for range rounds {
			if caller == 0 {
				for _, id := range mine {
					if _, err := s.store.ChangeAccount(s.Context(), id, longer); err != nil {
						return err
					}
				}
				continue
			}
			_, errs := s.store.ChangeAccounts(s.Context(), mine, func(_ int, a *store.Account, exists bool) error { return longer(a, exists) })
			if err := errors.Join(errs...); err != nil {
				return err
			}
		}
		return nil
	})
	for _, id := range ids {
		if got, err := s.store.Account(s.Context(), id); err != nil || len(got.Label) != callers*rounds {
			s.Errorf("%s: got %d changes, %v, want %d", id, len(got.Label), err, callers*rounds)
		}
	}
}
