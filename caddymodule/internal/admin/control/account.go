package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
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

type lookUpInput struct{ Body api.AccountLookup }

type listAccountsInput struct {
	Plan     string `query:"plan" maxLength:"64" doc:"Lists the accounts on this plan."`
	Search   string `query:"search" maxLength:"200" doc:"Lists the accounts with this text in the id or the label, in upper or lower case."`
	Disabled string `query:"disabled" enum:"true,false" doc:"Lists the accounts that are disabled, or that are not."`
	After    string `query:"after" maxLength:"64" doc:"Lists the accounts after this id."`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of accounts."`
}

func (s *server) registerAccounts(router huma.API) {
	const path = "/tollgate/accounts/{account}"
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-accounts", Method: http.MethodGet, Path: "/tollgate/accounts", Tags: []string{"accounts"},
		Summary:     "List accounts",
		Description: "In ascending order of their ids, one page at a time. A page can have fewer accounts than its limit, or none, and a next page.",
	}), answer(s, s.listAccounts))
	huma.Register(router, operation(huma.Operation{
		OperationID: "look-up-account", Method: http.MethodPost, Path: "/tollgate/accounts/lookup", Tags: []string{"accounts"},
		Summary: "Find the account that a person means",
		Description: "The account with this id, or else the accounts with this label. If no label is the same, those that differ only in upper and lower case. It changes nothing; the name is in the body because access logs have URLs. " +
			fmt.Sprintf("The answer has at most %d accounts and no next page.", maxFound),
	}), answer(s, s.lookUpAccount))
	huma.Register(router, operation(huma.Operation{
		OperationID: "get-account", Method: http.MethodGet, Path: path, Tags: []string{"accounts"},
		Summary:     "Show an account",
		Description: "An account that does not exist has the plan free.",
	}), answer(s, s.getAccount))
	huma.Register(router, operation(huma.Operation{
		OperationID: "put-account", Method: http.MethodPut, Path: path, Tags: []string{"accounts"},
		Summary:     "Create or change an account",
		Description: "Members that the body omits do not change, and neither do the counts of the day. The change applies to the next call of the account.",
	}), answer(s, s.putAccount))
	huma.Register(router, operation(huma.Operation{
		OperationID: "delete-account", Method: http.MethodDelete, Path: path, Tags: []string{"accounts"},
		Summary:     "Delete an account with all its tokens and counts",
		Description: "Its tokens are refused from the next call on. An account that is created later with the same id has no keys and no counts.",
	}), perform(s, s.deleteAccount))
}

// accountsPerRead is how many accounts a lookup reads at once.
const accountsPerRead = 1000

// maxExamined is how many accounts one page of a list examines. A page can
// therefore have fewer accounts than its limit and a next page.
const maxExamined = 10_000

func (s *server) listAccounts(ctx context.Context, with *session, in *listAccountsInput) (api.AccountPage, error) {
	page := api.AccountPage{Accounts: []api.Account{}}
	after := in.After
	for examined := 0; ; {
		// One more than requested tells whether there is a next page.
		found, err := with.store.ListAccounts(ctx, after, in.Limit+1)
		if err != nil {
			return api.AccountPage{}, err
		}
		more := len(found) > in.Limit
		for i, account := range found[:min(len(found), in.Limit)] {
			after = account.ID
			if in.selects(account) {
				page.Accounts = append(page.Accounts, showAccount(account))
			}
			if len(page.Accounts) == in.Limit {
				more = i+1 < len(found)
				break
			}
		}
		examined += len(found)
		if more && (len(page.Accounts) == in.Limit || examined >= maxExamined) {
			page.Next = &after
		}
		if !more || page.Next != nil {
			return page, nil
		}
	}
}

func (in *listAccountsInput) selects(account store.Account) bool {
	search := strings.ToLower(in.Search)
	return (in.Plan == "" || account.Plan == in.Plan) &&
		(in.Disabled == "" || account.Disabled == (in.Disabled == "true")) &&
		(strings.Contains(strings.ToLower(account.ID), search) || strings.Contains(strings.ToLower(account.Label), search))
}

// maxFound is how many accounts a lookup finds.
const maxFound = 100

func (s *server) lookUpAccount(ctx context.Context, with *session, in *lookUpInput) (api.AccountPage, error) {
	name := cleanName(in.Body.Name)
	if name == "" {
		return api.AccountPage{Accounts: []api.Account{}}, nil // not the accounts without a label
	}
	if api.ValidAccount(name) {
		account, err := with.store.Account(ctx, name)
		if !errors.Is(err, store.ErrNotFound) {
			return api.AccountPage{Accounts: []api.Account{showAccount(account)}}, err
		}
	}
	same, similar := []api.Account{}, []api.Account{}
	for after, more := "", true; more && len(same) < maxFound; {
		found, err := with.store.ListAccounts(ctx, after, accountsPerRead)
		if err != nil {
			return api.AccountPage{}, err
		}
		more = len(found) == accountsPerRead
		for _, account := range found {
			after = account.ID
			switch {
			case account.Label == name:
				same = append(same, showAccount(account))
			case len(similar) < maxFound && strings.EqualFold(account.Label, name):
				similar = append(similar, showAccount(account))
			}
		}
	}
	if len(same) == 0 {
		same = similar
	}
	return api.AccountPage{Accounts: same[:min(len(same), maxFound)]}, nil
}

func (s *server) getAccount(ctx context.Context, with *session, in *accountInput) (api.Account, error) {
	account, err := with.store.Account(ctx, string(in.Account))
	return showAccount(account), err
}

func (s *server) putAccount(ctx context.Context, with *session, in *putAccountInput) (api.Account, error) {
	if err := with.checkChange(in.Body); err != nil {
		return api.Account{}, err
	}
	account, err := with.changeAccount(ctx, string(in.Account), func(account *store.Account, exists bool) (change, error) {
		before := with.apply(in.Body, account, exists)
		return accountChange(before, *account), nil
	})
	return showAccount(account), err
}

// checkChange checks what a change sets.
func (with *session) checkChange(change api.AccountChange) error {
	// Plan free always exists: every account starts on it. Without a plan
	// free in the configuration, it gives no access.
	if plan := change.Plan; plan != nil && *plan != policy.FreePlan && with.policy.Plan(*plan) == nil {
		return unknownPlan(*plan, with.policy)
	}
	if change.Label != nil && !validLabel(cleanName(*change.Label)) {
		return errInvalidLabel
	}
	return nil
}

// apply changes an account and returns what it was before, nil for a new one.
func (with *session) apply(change api.AccountChange, account *store.Account, exists bool) (before *store.Account) {
	if exists {
		before = new(*account)
	} else {
		with.setDefaults(account)
	}
	if change.Label != nil {
		account.Label = cleanName(*change.Label)
	}
	if change.Plan != nil {
		account.Plan = *change.Plan
	}
	if change.Disabled != nil {
		account.Disabled = *change.Disabled
	}
	return before
}

func (s *server) deleteAccount(ctx context.Context, with *session, in *accountInput) error {
	account, err := with.store.Account(ctx, string(in.Account))
	if err != nil {
		return err
	}
	deletion := change{
		action: api.AccountDelete, account: account.ID, before: accountEntry(account, false),
		event: &event.Change{Type: event.AccountChanged, Plan: account.Plan, Disabled: account.Disabled, Deleted: true},
	}
	if err := with.record(ctx, deletion); err != nil {
		return err
	}
	if err := with.store.DeleteAccount(ctx, account.ID); err != nil {
		return err
	}
	with.tell(ctx, deletion)
	return nil
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
	return with.changeAccount(ctx, id, func(account *store.Account, exists bool) (change, error) {
		before := with.apply(api.AccountChange{}, account, exists)
		return accountChange(before, *account), nil
	})
}

// setDefaults puts a new account on plan free.
func (with *session) setDefaults(account *store.Account) {
	account.Plan, account.CreatedAt = policy.FreePlan, round(with.now)
}

func showAccount(a store.Account) api.Account {
	return api.Account{Account: a.ID, Plan: a.Plan, Label: a.Label, Disabled: a.Disabled, CreatedAt: round(a.CreatedAt)}
}

// validLabel reports whether a label has at most store.MaxLabel characters,
// none of them invisible.
func validLabel(label string) bool {
	return utf8.RuneCountInString(label) <= store.MaxLabel && utf8.ValidString(label) && !strings.ContainsFunc(label, isHidden)
}

// round converts a time to the precision of the API: UTC, in milliseconds.
func round(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
