package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// KeyFilter selects tokens of an account. Its zero value selects the keys
// that are not revoked.
type KeyFilter struct {
	// Kind is "key", the default, or "login".
	Kind string
	// Revoked includes the revoked ones that are still kept.
	Revoked bool
}

// CreateKey creates a token. Only the result has its secret.
func (c *Client) CreateKey(ctx context.Context, account string, request api.KeyRequest) (key api.IssuedKey, err error) {
	path, err := accountPath(account)
	if err != nil {
		return key, err
	}
	err = c.do(ctx, http.MethodPost, path+"/keys", nil, request, &key)
	return key, err
}

// Keys lists an account's tokens, oldest first.
func (c *Client) Keys(ctx context.Context, account string, filter KeyFilter) ([]api.Key, error) {
	path, err := accountPath(account)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if filter.Kind != "" {
		query.Set("kind", filter.Kind)
	}
	if filter.Revoked {
		query.Set("include", "revoked")
	}
	var list api.KeyList
	err = c.do(ctx, http.MethodGet, path+"/keys", query, nil, &list)
	return list.Keys, err
}

// ChangeKey changes a live key. The error for another one is api.ErrNoKey.
func (c *Client) ChangeKey(ctx context.Context, account, id string, change api.KeyChange) (key api.Key, err error) {
	path, err := keyPath(account, id)
	if err != nil {
		return key, err
	}
	err = c.do(ctx, http.MethodPatch, path, nil, change, &key)
	return key, err
}

// RevokeKey ends a token: the next call with it is refused.
func (c *Client) RevokeKey(ctx context.Context, account, id string) error {
	path, err := keyPath(account, id)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodDelete, path, nil, nil, nil)
}

// EndLogins ends all login tokens that the account has at this moment: the
// next call with one is refused. The error for an unknown account is
// api.ErrNotFound.
func (c *Client) EndLogins(ctx context.Context, account string) error {
	path, err := accountPath(account)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodDelete, path+"/logins", nil, nil, nil)
}

// RotateKey replaces a live token with a new one that has the same name,
// abilities, expiry, limits and addresses.
func (c *Client) RotateKey(ctx context.Context, account, id string, rotation api.Rotation) (key api.IssuedKey, err error) {
	path, err := keyPath(account, id)
	if err != nil {
		return key, err
	}
	err = c.do(ctx, http.MethodPost, path+"/rotate", nil, rotation, &key)
	return key, err
}

// keyPath refuses an id that would be the path of another resource, with the
// refusal of an unknown key.
func keyPath(account, id string) (string, error) {
	path, err := accountPath(account)
	if err != nil {
		return "", err
	}
	if isNoSegment(id) {
		return "", api.ErrNoKey
	}
	return path + "/keys/" + url.PathEscape(id), nil
}

// isNoSegment tells whether a name has a meaning of its own in a path.
func isNoSegment(name string) bool { return name == "" || name == "." || name == ".." }
