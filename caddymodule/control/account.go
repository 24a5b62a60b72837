package control

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// accountID is an account id in a path. huma checks it against Schema.
type accountID string

// Schema implements huma.SchemaProvider.
func (accountID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: api.AccountPattern, MaxLength: new(api.MaxAccount), Description: "The account's id."}
}

type accountInput struct {
	Account accountID `path:"account"`
}

type putAccountInput struct {
	Account accountID `path:"account"`
	Body    api.AccountChange
}

type listAccountsInput struct {
	After string `query:"after" maxLength:"64" doc:"Lists the accounts after this id."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of accounts."`
}

func (s *server) registerAccounts(router huma.API) {
	const path = "/tollgate/accounts/{account}"
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-accounts", Method: http.MethodGet, Path: "/tollgate/accounts", Tags: []string{"accounts"},
		Summary:     "List accounts",
		Description: "In ascending order of their ids, one page at a time.",
	}), answer(s, s.listAccounts))
	huma.Register(router, operation(huma.Operation{
		OperationID: "get-account", Method: http.MethodGet, Path: path, Tags: []string{"accounts"},
		Summary:     "Show an account",
		Description: "An account that does not exist has the plan free.",
	}, http.StatusNotFound), answer(s, s.getAccount))
	huma.Register(router, operation(huma.Operation{
		OperationID: "put-account", Method: http.MethodPut, Path: path, Tags: []string{"accounts"},
		Summary:     "Create or change an account",
		Description: "Members that the body omits do not change, and neither do the counts of the day. The change applies to the next call of the account.",
	}), answer(s, s.putAccount))
	huma.Register(router, operation(huma.Operation{
		OperationID: "delete-account", Method: http.MethodDelete, Path: path, Tags: []string{"accounts"},
		Summary:     "Delete an account with all its tokens and counts",
		Description: "Its tokens are refused from the next call on. An account that is created later with the same id has no keys and no counts.",
	}, http.StatusNotFound), perform(s, s.deleteAccount))
}

func (s *server) listAccounts(ctx context.Context, with *session, in *listAccountsInput) (api.AccountPage, error) {
	// One more than requested tells whether there is a next page.
	found, err := with.store.ListAccounts(ctx, in.After, in.Limit+1)
	if err != nil {
		return api.AccountPage{}, err
	}
	page := api.AccountPage{Accounts: []api.Account{}}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		page.Next = new(found[in.Limit-1].ID)
	}
	for _, account := range found {
		page.Accounts = append(page.Accounts, showAccount(account))
	}
	return page, nil
}

func (s *server) getAccount(ctx context.Context, with *session, in *accountInput) (api.Account, error) {
	account, err := with.store.Account(ctx, string(in.Account))
	return showAccount(account), err
}

func (s *server) putAccount(ctx context.Context, with *session, in *putAccountInput) (api.Account, error) {
	// Plan free always exists: every account starts on it. Without a plan
	// free in the configuration, it gives no access.
	if plan := in.Body.Plan; plan != nil && *plan != policy.FreePlan && with.policy.Plan(*plan) == nil {
		return api.Account{}, unknownPlan(*plan, with.policy)
	}
	account, err := with.store.ChangeAccount(ctx, string(in.Account), func(account *store.Account, exists bool) error {
		if !exists {
			with.setDefaults(account)
		}
		if in.Body.Plan != nil {
			account.Plan = *in.Body.Plan
		}
		if in.Body.Disabled != nil {
			account.Disabled = *in.Body.Disabled
		}
		return nil
	})
	return showAccount(account), err
}

func (s *server) deleteAccount(ctx context.Context, with *session, in *accountInput) error {
	return with.store.DeleteAccount(ctx, string(in.Account))
}

// ensureAccount returns an account. It creates an unknown one on plan free
// if that plan gives access. Otherwise, refused requests of strangers would
// leave accounts in the store.
func (with *session) ensureAccount(ctx context.Context, id string) (store.Account, error) {
	account, err := with.store.Account(ctx, id)
	switch {
	case !errors.Is(err, store.ErrNotFound):
		return account, err
	case !with.policy.Plan(policy.FreePlan).HasAccess():
		return account, errPlanRequired
	}
	return with.store.ChangeAccount(ctx, id, func(account *store.Account, exists bool) error {
		if !exists {
			with.setDefaults(account)
		}
		return nil
	})
}

// setDefaults puts a new account on plan free.
func (with *session) setDefaults(account *store.Account) {
	account.Plan, account.CreatedAt = policy.FreePlan, round(with.now)
}

func showAccount(a store.Account) api.Account {
	return api.Account{Account: a.ID, Plan: a.Plan, Disabled: a.Disabled, CreatedAt: round(a.CreatedAt)}
}

// round converts a time to the precision of the API: UTC, in milliseconds.
func round(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
