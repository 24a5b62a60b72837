package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
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
	Search   string `query:"search" maxLength:"200" doc:"Lists the accounts with this text in the id or the label, in upper or lower case, and those with a key or login token whose last 4 characters it is."`
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
		Summary:     "Close an account: delete it with its label and all its tokens",
		Description: fmt.Sprintf("Its tokens are refused from the next call on. What it called is kept for %d days, for bills: see list-counts. An account that is created later with the same id has no keys and has used nothing.", store.CountsFor),
	}), perform(s, s.deleteAccount))
	huma.Register(router, operation(huma.Operation{
		OperationID: "get-document", Method: http.MethodGet, Path: path + "/document", Tags: []string{"accounts"},
		Summary:     "Show what the store has of an account",
		Description: "The account with its keys and login tokens, also those that ended, as in a backup: with the hashes of tokens, without counts and recent calls. Members can change with the version of Tollgate.",
	}), answer(s, s.getDocument))
}

// accountsPerRead is how many accounts are read at once, without their keys.
const accountsPerRead = 1000

// documents returns the documents behind an id, in ascending order, with or
// without their keys. It reads some at once.
func (with *session) documents(ctx context.Context, after string, atOnce int, keys bool) iter.Seq2[*book.Account, error] {
	return func(yield func(*book.Account, error) bool) {
		for {
			found, err := with.book.List(ctx, after, atOnce, keys)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, a := range found {
				if after = a.ID; !yield(a, nil) {
					return
				}
			}
			if len(found) < atOnce {
				return
			}
		}
	}
}

func (s *server) listAccounts(ctx context.Context, with *session, in *listAccountsInput) (api.AccountPage, error) {
	page := api.AccountPage{Accounts: []api.Account{}}
	read, last := 0, ""
	atOnce, keys := in.Limit+1, token.IsHintEnd(in.Search)
	if keys {
		atOnce = min(atOnce, documentsPerRead)
	}
	for account, err := range with.documents(ctx, in.After, atOnce, keys) {
		if err != nil {
			return api.AccountPage{}, err
		}
		if len(page.Accounts) == in.Limit || read > 0 && read%accountsPerRead == 0 && s.isSlow(with.now) {
			page.Next = &last
			break
		}
		read, last = read+1, account.ID
		if in.selects(account, keys) {
			page.Accounts = append(page.Accounts, showAccount(account.Account))
		}
	}
	return page, nil
}

// selects tells whether a list has an account. With keys, the search can be the
// end of a token.
func (in *listAccountsInput) selects(account *book.Account, keys bool) bool {
	search := strings.ToLower(in.Search)
	return (in.Plan == "" || account.Plan == in.Plan) &&
		(in.Disabled == "" || account.Disabled == (in.Disabled == "true")) &&
		(strings.Contains(strings.ToLower(account.ID), search) || strings.Contains(strings.ToLower(account.Label), search) ||
			keys && slices.ContainsFunc(account.Keys, func(k *book.Key) bool { return strings.HasSuffix(k.Hint, in.Search) }))
}

// maxFound is how many accounts a lookup finds.
const maxFound = 100

func (s *server) lookUpAccount(ctx context.Context, with *session, in *lookUpInput) (api.AccountPage, error) {
	name := cleanName(in.Body.Name)
	none := api.AccountPage{Accounts: []api.Account{}}
	if name == "" {
		return none, nil // not the accounts without a label
	}
	if api.ValidAccount(name) {
		a, err := with.book.Get(ctx, name)
		if err == nil {
			return api.AccountPage{Accounts: []api.Account{showAccount(a.Account)}}, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return api.AccountPage{}, err
		}
	}
	if in.Body.IDOnly {
		return none, nil
	}
	same, similar := []api.Account{}, []api.Account{}
	for account, err := range with.documents(ctx, "", accountsPerRead, false) {
		if err != nil {
			return api.AccountPage{}, err
		}
		switch {
		case account.Label == name:
			same = append(same, showAccount(account.Account))
		case len(similar) < maxFound && strings.EqualFold(account.Label, name):
			similar = append(similar, showAccount(account.Account))
		}
		if len(same) == maxFound {
			break
		}
	}
	if len(same) == 0 {
		same = similar
	}
	return api.AccountPage{Accounts: same}, nil
}

func (s *server) getAccount(ctx context.Context, with *session, in *accountInput) (api.Account, error) {
	a, err := with.book.Get(ctx, string(in.Account))
	if err != nil {
		return api.Account{}, err
	}
	return showAccount(a.Account), nil
}

func (s *server) getDocument(ctx context.Context, with *session, in *accountInput) (json.RawMessage, error) {
	a, err := with.book.Get(ctx, string(in.Account))
	if err != nil {
		return nil, err
	}
	return json.Marshal(book.Piece{Document: a})
}

func (s *server) putAccount(ctx context.Context, with *session, in *putAccountInput) (shown api.Account, err error) {
	if err := with.checkChange(in.Body); err != nil {
		return api.Account{}, err
	}
	err = with.change(ctx, string(in.Account), func(a *book.Account) error {
		with.setAccount(ctx, a, in.Body)
		shown = showAccount(a.Account)
		return nil
	})
	return shown, err
}

// checkChange checks what a change sets.
func (with *session) checkChange(change api.AccountChange) error {
	// Plan free always exists: every account starts on it. Without a plan
	// free in the configuration, it gives no access.
	if plan := change.Plan; plan != nil && *plan != policy.FreePlan && with.policy.Plan(*plan) == nil {
		return apierror.New(http.StatusBadRequest, "unknown_plan", fmt.Sprintf("Unknown plan %.64q. Plans: %s.", *plan, with.policy.PlanNames()))
	}
	if change.Label != nil && !isText(cleanName(*change.Label), 0, store.MaxLabel) {
		return errInvalidLabel
	}
	return nil
}

// deleteAccount closes an account. The entry has what it called this month.
func (s *server) deleteAccount(ctx context.Context, with *session, in *accountInput) error {
	today := with.policy.Calendar.At(with.now).Day
	first, _ := today.Month()
	err := with.book.CloseAccount(ctx, with.now, string(in.Account), first, today, func(a *book.Account, called []book.Bill) {
		closed := api.ClosedAccount{Month: first.String()[:len("2026-11")], Usage: closedUsage(called)}
		with.record(ctx, a, api.AccountDelete, "", accountEntry(a.Account, false), closed)
	})
	if err == nil {
		with.follow()
	}
	return err
}

// closedUsage adds up the calls of each endpoint.
func closedUsage(called []book.Bill) []api.ClosedUsage {
	list := []api.ClosedUsage{}
	slices.SortStableFunc(called, func(a, b book.Bill) int { return strings.Compare(a.Endpoint, b.Endpoint) })
	for _, bill := range called {
		if last := len(list) - 1; last < 0 || list[last].Endpoint != bill.Endpoint {
			list = append(list, api.ClosedUsage{Endpoint: bill.Endpoint})
		}
		of := &list[len(list)-1]
		of.Calls, of.Credited = of.Calls+bill.Calls, of.Credited+bill.Credited
	}
	return list
}

func showAccount(a store.Account) api.Account {
	return api.Account{Account: a.ID, Plan: a.Plan, Label: a.Label, Disabled: a.Disabled, CreatedAt: round(a.CreatedAt)}
}

// round converts a time to the precision of the API: UTC, in milliseconds.
func round(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
