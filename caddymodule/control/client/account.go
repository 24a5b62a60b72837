package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// PutAccount creates or changes an account. The counts of the day do not
// change.
func (c *Client) PutAccount(ctx context.Context, account string, change api.AccountChange) (api.Account, error) {
	return ofAccount[api.Account](ctx, c, http.MethodPut, account, "", nil, change)
}

// Account returns one account. The error for an unknown one is
// api.ErrNotFound; it has plan free.
func (c *Client) Account(ctx context.Context, account string) (api.Account, error) {
	return ofAccount[api.Account](ctx, c, http.MethodGet, account, "", nil, nil)
}

// Document returns what the store has of an account, as in a backup. Its
// members can change with the version of Tollgate. The error for an unknown
// account is api.ErrNotFound.
func (c *Client) Document(ctx context.Context, account string) (json.RawMessage, error) {
	return ofAccount[json.RawMessage](ctx, c, http.MethodGet, account, "/document", nil, nil)
}

// AccountFilter selects accounts. Its zero value selects all.
type AccountFilter struct {
	Plan string
	// Search is a part of the id or of the label, in upper or lower case, or
	// the last 4 characters of a token.
	Search string
	// Disabled selects accounts that are disabled, or that are not. Nil
	// selects both.
	Disabled *bool
}

// Accounts returns up to limit accounts after an id, or the first ones for
// "". Limit 0 is the default of the gate.
func (c *Client) Accounts(ctx context.Context, after string, limit int) (api.AccountPage, error) {
	return c.FindAccounts(ctx, AccountFilter{}, after, limit)
}

// FindAccounts is Accounts for those that a filter selects. A page can have
// fewer than limit accounts, or none, and still have a next one.
func (c *Client) FindAccounts(ctx context.Context, filter AccountFilter, after string, limit int) (api.AccountPage, error) {
	query := pageQuery(after, limit, "plan", filter.Plan, "search", filter.Search)
	if filter.Disabled != nil {
		query.Set("disabled", strconv.FormatBool(*filter.Disabled))
	}
	return call[api.AccountPage](ctx, c, http.MethodGet, "/accounts", query, nil)
}

// LookUpAccount finds the account that a person means: the account with this
// id, or else the accounts with this label.
func (c *Client) LookUpAccount(ctx context.Context, name string) ([]api.Account, error) {
	page, err := call[api.AccountPage](ctx, c, http.MethodPost, "/accounts/lookup", nil, api.AccountLookup{Name: name})
	return page.Accounts, err
}

// HasAccount reports whether an account has this id. The id is not in the URL, since
// the e-mail address of a person can be one.
func (c *Client) HasAccount(ctx context.Context, id string) (bool, error) {
	page, err := call[api.AccountPage](ctx, c, http.MethodPost, "/accounts/lookup", nil, api.AccountLookup{Name: id, IDOnly: true})
	return len(page.Accounts) > 0, err
}

// DeleteAccount deletes an account with all its tokens. Its counts stay
// in bills.
func (c *Client) DeleteAccount(ctx context.Context, account string) error {
	_, err := ofAccount[none](ctx, c, http.MethodDelete, account, "", nil, nil)
	return err
}

// Portal makes a link that opens the web pages of an account once. The error for
// an unknown account is api.ErrNotFound.
func (c *Client) Portal(ctx context.Context, account string) (api.Portal, error) {
	return ofAccount[api.Portal](ctx, c, http.MethodPost, account, "/portal", nil, nil)
}

// ofAccount calls a path below that of an account. It checks the id first: with
// an empty id or dots, the path would be that of another resource.
func ofAccount[T any](ctx context.Context, c *Client, method, account, path string, query url.Values, in any) (out T, err error) {
	if !api.ValidAccount(account) {
		return out, api.ErrInvalidAccount
	}
	return call[T](ctx, c, method, "/accounts/"+url.PathEscape(account)+path, query, in)
}

// ofKey calls a path below that of a key. It refuses an id that would be the
// path of another resource, with the refusal of an unknown key.
func ofKey[T any](ctx context.Context, c *Client, method, account, id, path string, query url.Values, in any) (out T, err error) {
	if isNoSegment(id) {
		return out, api.ErrNoKey
	}
	return ofAccount[T](ctx, c, method, account, "/keys/"+url.PathEscape(id)+path, query, in)
}

// ofLimit calls the path of an override, and refuses names that would be the
// path of another resource.
func ofLimit[T any](ctx context.Context, c *Client, method, account, endpoint, period string, in any) (out T, err error) {
	switch {
	case isNoSegment(endpoint):
		return out, api.ErrUnknownEndpoint
	case isNoSegment(period):
		return out, api.ErrInvalidPeriod
	}
	return ofAccount[T](ctx, c, method, account, "/limits/"+url.PathEscape(endpoint)+"/"+url.PathEscape(period), nil, in)
}

// isNoSegment tells whether a name has a meaning of its own in a path.
func isNoSegment(name string) bool { return name == "" || name == "." || name == ".." }

// SetLimit overrides a limit of an account, or adds one. The endpoint is a name
// or api.All. The error for an unknown account is api.ErrNotFound.
func (c *Client) SetLimit(ctx context.Context, account, endpoint, period string, request api.OverrideRequest) (api.Override, error) {
	return ofLimit[api.Override](ctx, c, http.MethodPut, account, endpoint, period, request)
}

// Limits lists the overrides of an account that have not ended, oldest first.
func (c *Client) Limits(ctx context.Context, account string) ([]api.Override, error) {
	list, err := ofAccount[api.OverrideList](ctx, c, http.MethodGet, account, "/limits", nil, nil)
	return list.Limits, err
}

// ClearLimit removes an override: the limit of the plan applies again. The error
// is api.ErrNotFound if there is none.
func (c *Client) ClearLimit(ctx context.Context, account, endpoint, period string) error {
	_, err := ofLimit[none](ctx, c, http.MethodDelete, account, endpoint, period, nil)
	return err
}
