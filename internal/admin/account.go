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

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

func (s *Server) serveAccounts() {
	Handle(s, api.ListAccounts, s.listAccounts)
	Handle(s, api.LookUpAccount, LookUpAccount)
	Handle(s, api.GetAccount, getAccount)
	Handle(s, api.PutAccount, putAccount)
	Perform(s, api.DeleteAccount, deleteAccount)
	Handle(s, api.GetDocument, getDocument)
}

// documentsPerRead is how many accounts with their keys are read at once.
const documentsPerRead = 100

// accountsPerRead is how many accounts are read at once, without their keys.
const accountsPerRead = 1000

// Documents returns the documents behind an id, in ascending order, with or
// without their keys. It reads some at once.
func (with *Session) Documents(ctx context.Context, after string, atOnce int, keys bool) iter.Seq2[*book.Account, error] {
	return func(yield func(*book.Account, error) bool) {
		for {
			found, err := with.Book.List(ctx, after, atOnce, keys)
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

func (s *Server) listAccounts(ctx context.Context, with *Session, in *api.AccountQuery) (api.AccountPage, error) {
	page := api.AccountPage{Accounts: []api.Account{}}
	read, last := 0, ""
	atOnce, keys := in.Limit+1, token.IsHintEnd(in.Search)
	if keys {
		atOnce = min(atOnce, documentsPerRead)
	}
	for account, err := range with.Documents(ctx, in.After, atOnce, keys) {
		if err != nil {
			return api.AccountPage{}, err
		}
		if len(page.Accounts) == in.Limit || read > 0 && read%accountsPerRead == 0 && s.IsSlow(with.Now) {
			page.Next = &last
			break
		}
		read, last = read+1, account.ID
		if selects(in, account, keys) {
			page.Accounts = append(page.Accounts, with.ShowAccount(account.Account))
		}
	}
	return page, nil
}

// selects tells whether a list has an account. With keys, the search can be the
// end of a token.
func selects(in *api.AccountQuery, account *book.Account, keys bool) bool {
	search := strings.ToLower(in.Search)
	return (in.Plan == "" || account.Plan == in.Plan) &&
		(in.Disabled == "" || account.Disabled == (in.Disabled == "true")) &&
		(strings.Contains(strings.ToLower(account.ID), search) || strings.Contains(strings.ToLower(account.Label), search) ||
			keys && slices.ContainsFunc(account.Keys, func(k *book.Key) bool { return strings.HasSuffix(k.Hint, in.Search) }))
}

// LookUpAccount finds the account that a person means.
func LookUpAccount(ctx context.Context, with *Session, in *api.AccountSearch) (api.AccountPage, error) {
	name := CleanName(in.Body.Name)
	none := api.AccountPage{Accounts: []api.Account{}}
	if name == "" {
		return none, nil // not the accounts without a label
	}
	if api.ValidAccount(name) {
		a, err := with.Book.Get(ctx, name)
		if err == nil {
			return api.AccountPage{Accounts: []api.Account{with.ShowAccount(a.Account)}}, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return api.AccountPage{}, err
		}
	}
	if in.Body.IDOnly {
		return none, nil
	}
	same, similar := []api.Account{}, []api.Account{}
	for account, err := range with.Documents(ctx, "", accountsPerRead, false) {
		if err != nil {
			return api.AccountPage{}, err
		}
		switch {
		case account.Label == name:
			same = append(same, with.ShowAccount(account.Account))
		case len(similar) < api.MaxFound && strings.EqualFold(account.Label, name):
			similar = append(similar, with.ShowAccount(account.Account))
		}
		if len(same) == api.MaxFound {
			break
		}
	}
	if len(same) == 0 {
		same = similar
	}
	return api.AccountPage{Accounts: same}, nil
}

func getAccount(ctx context.Context, with *Session, in *api.OfAccount) (api.Account, error) {
	a, err := with.Book.Get(ctx, in.Account)
	if err != nil {
		return api.Account{}, err
	}
	return with.ShowAccount(a.Account), nil
}

func getDocument(ctx context.Context, with *Session, in *api.OfAccount) (json.RawMessage, error) {
	a, err := with.Book.Get(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	return json.Marshal(book.Piece{Document: a})
}

func putAccount(ctx context.Context, with *Session, in *api.AccountPut) (shown api.Account, err error) {
	if err := with.CheckChange(in.Body); err != nil {
		return api.Account{}, err
	}
	if err := with.NotePlanEnd(ctx, in.Account, in.Body); err != nil {
		return api.Account{}, err
	}
	err = with.Change(ctx, in.Account, func(a *book.Account) error {
		with.SetAccount(ctx, a, in.Body)
		shown = with.ShowAccount(a.Account)
		return nil
	})
	return shown, err
}

var (
	errBillingDay = apierror.New(http.StatusBadRequest, "invalid_request", "billing_day is a number from 1 to 31.")
	errThen       = apierror.New(http.StatusBadRequest, "invalid_request", "then without plan_until: write when the plan ends.")
	errPlanUntil  = apierror.New(http.StatusBadRequest, "invalid_request", "plan_until is not within the next 100 years.")
)

// NotePlanEnd notes the end of a plan before a change that sets it.
func (with *Session) NotePlanEnd(ctx context.Context, account string, change api.AccountChange) error {
	if change.PlanUntil.Value == nil {
		return nil
	}
	return with.Book.NotePlanEnd(ctx, account, *change.PlanUntil.Value)
}

// CheckChange checks what a change sets.
func (with *Session) CheckChange(change api.AccountChange) error {
	// Plan free always exists: every account starts on it. Without a plan
	// free in the configuration, it gives no access.
	for _, plan := range []*string{change.Plan, change.Then} {
		if plan != nil && *plan != policy.FreePlan && with.Policy.Plan(*plan) == nil {
			return apierror.New(http.StatusBadRequest, "unknown_plan", fmt.Sprintf("Unknown plan %.64q. Plans: %s.", *plan, with.Policy.PlanNames()))
		}
	}
	switch end := change.PlanUntil.Value; {
	case end == nil && change.Then != nil:
		return errThen
	case end != nil && (!end.After(with.Now) || end.After(with.Now.Add(calendar.MaxDuration))):
		return errPlanUntil
	}
	// A line of an import has no schema.
	if day := change.BillingDay; day != nil && (*day < 1 || *day > 31) {
		return errBillingDay
	}
	if change.Label != nil && !IsText(CleanName(*change.Label), 0, store.MaxLabel) {
		return errInvalidLabel
	}
	return nil
}

// deleteAccount closes an account. The entry has what it called this month.
func deleteAccount(ctx context.Context, with *Session, in *api.OfAccount) error {
	today := with.Policy.Calendar.At(with.Now).Day
	first, _ := today.Month()
	err := with.Book.CloseAccount(ctx, with.Now, in.Account, first, today, func(a *book.Account, called []book.Bill) {
		closed := api.ClosedAccount{Month: first.String()[:len("2026-11")], Usage: closedUsage(called)}
		with.Record(ctx, a, api.AccountDelete, "", with.accountEntry(a.Account, false), closed)
	})
	if err == nil {
		with.Follow()
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

// ShowAccount returns an account as the API shows it.
func (with *Session) ShowAccount(a store.Account) api.Account {
	shown := api.Account{
		Account: a.ID, Plan: a.Plan, Label: a.Label, Disabled: a.Disabled, Declared: a.Declared, CreatedAt: Round(a.CreatedAt),
		PlanUntil: roundOrNil(a.PlanUntil), Then: a.Then,
	}
	if a.Billing != (store.Billing{}) {
		month := with.Policy.Calendar.Span(a.Terms.Month(with.Policy.Calendar.At(with.Now).Day))
		shown.BillingDay, shown.PeriodStart, shown.PeriodEndsAt = max(1, a.Billing.Day), month.Day.String(), &month.End
	}
	return shown
}

// Round converts a time to the precision of the API: UTC, in milliseconds.
func Round(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
