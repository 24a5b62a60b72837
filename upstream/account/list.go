package account

import (
	"context"
	"iter"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// pageSize is how many accounts are read at once, from database and gate.
const pageSize = 1000

// FreePlan is the plan of an account that is unknown to the gate.
const FreePlan = "free"

// Standing is an account with its plan and state at the gate.
type Standing struct {
	Account
	Plan     string
	Disabled bool
}

// List yields all accounts in the order of their e-mail addresses. It
// holds all accounts of the gate in memory, about 100 bytes each. The first
// error ends it.
func (s *Service) List(ctx context.Context) iter.Seq2[Standing, error] {
	return func(yield func(Standing, error) bool) {
		known, err := s.known(ctx)
		if err != nil {
			yield(Standing{}, err)
			return
		}
		var after Email
		for {
			page, err := s.store.List(ctx, after, pageSize)
			if err != nil {
				yield(Standing{}, err)
				return
			}
			for _, a := range page {
				standing := Standing{Account: a, Plan: FreePlan}
				if g, ok := known[a.ID]; ok {
					standing.Plan, standing.Disabled = g.Plan, g.Disabled
				}
				if !yield(standing, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			after = page[len(page)-1].Email
		}
	}
}

// Show returns an account with its plan and state, or ErrNotFound.
func (s *Service) Show(ctx context.Context, id string) (Standing, error) {
	a, err := s.Get(ctx, id)
	if err != nil {
		return Standing{}, err
	}
	standing := Standing{Account: a, Plan: FreePlan}
	err = s.ask(ctx, func(ctx context.Context) error {
		known, err := s.gate.Account(ctx, id)
		if err == nil {
			standing.Plan, standing.Disabled = known.Plan, known.Disabled
		}
		return err
	})
	if err != nil && !isNotFound(err) {
		return Standing{}, err
	}
	return standing, nil
}

// known returns the gate's accounts by their ids.
func (s *Service) known(ctx context.Context) (map[string]api.Account, error) {
	accounts := map[string]api.Account{}
	after := ""
	for {
		var page api.AccountPage
		err := s.ask(ctx, func(ctx context.Context) (err error) {
			page, err = s.gate.Accounts(ctx, after, pageSize)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, a := range page.Accounts {
			accounts[a.Account] = a
		}
		if page.Next == nil {
			return accounts, nil
		}
		after = *page.Next
	}
}
