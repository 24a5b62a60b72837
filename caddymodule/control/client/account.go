package client

import (
	"context"
	"encoding/json"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// PutAccount creates or changes an account. The counts of the day do not
// change.
func (c *Client) PutAccount(ctx context.Context, account string, change api.AccountChange) (api.Account, error) {
	return call(ctx, c, api.PutAccount, api.AccountPut{OfAccount: of(account), Body: change})
}

// Account returns one account. The error for an unknown one is
// api.ErrNotFound; it has plan free.
func (c *Client) Account(ctx context.Context, account string) (api.Account, error) {
	return call(ctx, c, api.GetAccount, of(account))
}

// Document returns what the store has of an account, as in a backup. Its
// members can change with the version of Tollgate. The error for an unknown
// account is api.ErrNotFound.
func (c *Client) Document(ctx context.Context, account string) (json.RawMessage, error) {
	return call(ctx, c, api.GetDocument, of(account))
}

// Accounts returns a page of the accounts that a query selects. It can have fewer
// accounts than its limit, or none, and still have a next one.
func (c *Client) Accounts(ctx context.Context, query api.AccountQuery) (api.AccountPage, error) {
	return call(ctx, c, api.ListAccounts, query)
}

// LookUpAccount finds the account that a person means: the account with this
// id, or else the accounts with this label.
func (c *Client) LookUpAccount(ctx context.Context, name string) ([]api.Account, error) {
	page, err := call(ctx, c, api.LookUpAccount, api.AccountSearch{Body: api.AccountLookup{Name: name}})
	return page.Accounts, err
}

// HasAccount reports whether an account has this id. The id is not in the URL, since
// the e-mail address of a person can be one.
func (c *Client) HasAccount(ctx context.Context, id string) (bool, error) {
	page, err := call(ctx, c, api.LookUpAccount, api.AccountSearch{Body: api.AccountLookup{Name: id, IDOnly: true}})
	return len(page.Accounts) > 0, err
}

// DeleteAccount deletes an account with all its tokens. Its counts stay
// in bills.
func (c *Client) DeleteAccount(ctx context.Context, account string) error {
	_, err := call(ctx, c, api.DeleteAccount, of(account))
	return err
}

// Portal makes a link that opens the web pages of an account once. The error for
// an unknown account is api.ErrNotFound.
func (c *Client) Portal(ctx context.Context, account string) (api.Portal, error) {
	return call(ctx, c, api.CreatePortalLink, of(account))
}

// SetLimit overrides a limit of an account, or adds one. The endpoint is a name
// or api.All. The error for an unknown account is api.ErrNotFound.
func (c *Client) SetLimit(ctx context.Context, account, endpoint, period string, request api.OverrideRequest) (api.Override, error) {
	return call(ctx, c, api.PutLimit, api.OverridePut{OfLimit: ofLimit(account, endpoint, period), Body: request})
}

// Limits lists the overrides of an account that have not ended, oldest first.
func (c *Client) Limits(ctx context.Context, account string) ([]api.Override, error) {
	list, err := call(ctx, c, api.ListLimits, of(account))
	return list.Limits, err
}

// ClearLimit removes an override: the limit of the plan applies again. The error
// is api.ErrNotFound if there is none.
func (c *Client) ClearLimit(ctx context.Context, account, endpoint, period string) error {
	_, err := call(ctx, c, api.DeleteLimit, ofLimit(account, endpoint, period))
	return err
}

func of(account string) api.OfAccount { return api.OfAccount{Account: account} }

func ofLimit(account, endpoint, period string) api.OfLimit {
	return api.OfLimit{OfAccount: of(account), Endpoint: endpoint, Period: period}
}
