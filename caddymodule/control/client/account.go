package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// Plans returns the plans and endpoints of the configuration.
func (c *Client) Plans(ctx context.Context) (plans api.Plans, err error) {
	err = c.do(ctx, http.MethodGet, "/plans", nil, nil, &plans)
	return plans, err
}

// PutAccount creates or changes an account. The counts of the day do not
// change.
func (c *Client) PutAccount(ctx context.Context, account string, change api.AccountChange) (result api.Account, err error) {
	path, err := accountPath(account)
	if err != nil {
		return result, err
	}
	err = c.do(ctx, http.MethodPut, path, nil, change, &result)
	return result, err
}

// Account returns one account. The error for an unknown one is
// api.ErrNotFound; it has plan free.
func (c *Client) Account(ctx context.Context, account string) (result api.Account, err error) {
	path, err := accountPath(account)
	if err != nil {
		return result, err
	}
	err = c.do(ctx, http.MethodGet, path, nil, nil, &result)
	return result, err
}

// AccountFilter selects accounts. Its zero value selects all.
type AccountFilter struct {
	Plan string
	// Search is a part of the id or of the label, in upper or lower case.
	Search string
	// Disabled selects accounts that are disabled, or that are not. Nil
	// selects both.
	Disabled *bool
}

// Accounts returns up to limit accounts after an id, or the first ones for
// "". Limit 0 is the default of the gate.
func (c *Client) Accounts(ctx context.Context, after string, limit int) (page api.AccountPage, err error) {
	return c.FindAccounts(ctx, AccountFilter{}, after, limit)
}

// FindAccounts is Accounts for those that a filter selects. A page can have
// fewer than limit accounts, or none, and still have a next one.
func (c *Client) FindAccounts(ctx context.Context, filter AccountFilter, after string, limit int) (page api.AccountPage, err error) {
	query := pageQuery(after, limit)
	setQuery(query, "plan", filter.Plan)
	setQuery(query, "search", filter.Search)
	if filter.Disabled != nil {
		query.Set("disabled", strconv.FormatBool(*filter.Disabled))
	}
	err = c.do(ctx, http.MethodGet, "/accounts", query, nil, &page)
	return page, err
}

// LookUpAccount finds the account that a person means: the account with this
// id, or else the accounts with this label.
func (c *Client) LookUpAccount(ctx context.Context, name string) ([]api.Account, error) {
	return c.lookUp(ctx, api.AccountLookup{Name: name})
}

// AccountsWithPrefix finds the accounts whose id or label begins with a text, in
// upper or lower case.
func (c *Client) AccountsWithPrefix(ctx context.Context, text string) ([]api.Account, error) {
	return c.lookUp(ctx, api.AccountLookup{Name: text, Prefix: true})
}

func (c *Client) lookUp(ctx context.Context, question api.AccountLookup) ([]api.Account, error) {
	var page api.AccountPage
	err := c.do(ctx, http.MethodPost, "/accounts/lookup", nil, question, &page)
	return page.Accounts, err
}

// DeleteAccount deletes an account with all its tokens and counts.
func (c *Client) DeleteAccount(ctx context.Context, account string) error {
	path, err := accountPath(account)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodDelete, path, nil, nil, nil)
}

// accountPath checks the id first: with an empty id or dots, the path would
// be that of another resource.
func accountPath(account string) (string, error) {
	if !api.ValidAccount(account) {
		return "", api.ErrInvalidAccount
	}
	return "/accounts/" + url.PathEscape(account), nil
}
