package account

import (
	"cmp"
	"context"
	"errors"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// FreePlan is the plan of an account that is unknown to the gate.
const FreePlan = "free"

// Standing is an account with its plan and state at the gate.
type Standing struct {
	Account
	Operator bool   `json:"operator"`
	Plan     string `json:"plan"`
	Disabled bool   `json:"disabled"`
}

// List returns all accounts in the order of their e-mail addresses.
func (s *Service) List(ctx context.Context) ([]Standing, error) {
	known, err := client.All(func(after string) (page []api.Account, next *string, err error) {
		err = s.ask(ctx, func(ctx context.Context) error {
			got, err := s.gate.Accounts(ctx, after, client.PageSize)
			page, next = got.Accounts, got.Next
			return err
		})
		return page, next, err
	})
	if err != nil {
		return nil, err
	}
	atGate := make(map[string]api.Account, len(known))
	for _, a := range known {
		atGate[a.Account] = a
	}
	stored, err := s.store.List(ctx)
	all := make([]Standing, len(stored))
	for i, c := range stored {
		all[i] = standing(c.Identity, atGate[c.ID])
	}
	return all, err
}

// Show returns an account with its plan and state, or ErrNotFound.
func (s *Service) Show(ctx context.Context, id string) (Standing, error) {
	c, err := s.store.ByID(ctx, id)
	if err != nil {
		return Standing{}, err
	}
	known, err := s.atGate(ctx, id)
	return standing(c.Identity, known), err
}

// standing joins what is stored and what the gate knows of an account.
func standing(who Identity, known api.Account) Standing {
	return Standing{who.Account, who.Operator, cmp.Or(known.Plan, FreePlan), known.Disabled}
}

// atGate returns what the gate knows of an account, zero for an unknown one.
func (s *Service) atGate(ctx context.Context, id string) (known api.Account, err error) {
	err = s.ask(ctx, func(ctx context.Context) error {
		known, err = s.gate.Account(ctx, id)
		return err
	})
	if errors.Is(err, api.ErrNotFound) {
		err = nil
	}
	return known, err
}
