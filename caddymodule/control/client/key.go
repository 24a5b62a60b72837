package client

import (
	"context"
	"encoding/hex"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/token"
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
func (c *Client) CreateKey(ctx context.Context, account string, request api.KeyRequest) (api.IssuedKey, error) {
	return ofAccount[api.IssuedKey](ctx, c, http.MethodPost, account, "/keys", nil, request)
}

// Keys lists an account's tokens, oldest first.
func (c *Client) Keys(ctx context.Context, account string, filter KeyFilter) ([]api.Key, error) {
	query := pageQuery("", 0, "kind", filter.Kind)
	if filter.Revoked {
		query.Set("include", "revoked")
	}
	list, err := ofAccount[api.KeyList](ctx, c, http.MethodGet, account, "/keys", query, nil)
	return list.Keys, err
}

// ChangeKey changes a live key. The error for another one is api.ErrNoKey.
func (c *Client) ChangeKey(ctx context.Context, account, id string, change api.KeyChange) (api.Key, error) {
	return ofKey[api.Key](ctx, c, http.MethodPatch, account, id, "", nil, change)
}

// RevokeKey ends a token: the next call with it is refused.
func (c *Client) RevokeKey(ctx context.Context, account, id string) error {
	_, err := ofKey[none](ctx, c, http.MethodDelete, account, id, "", nil, nil)
	return err
}

// RotateKey replaces a live token with a new one that has the same name,
// abilities, expiry, limits and addresses.
func (c *Client) RotateKey(ctx context.Context, account, id string, rotation api.Rotation) (api.IssuedKey, error) {
	return ofKey[api.IssuedKey](ctx, c, http.MethodPost, account, id, "/rotate", nil, rotation)
}

// FindKey returns the key or login token with a hash, also one that ended and is
// still kept. The error for an unknown one is api.ErrNotFound.
func (c *Client) FindKey(ctx context.Context, hash token.Hash) (api.FoundKey, error) {
	return call[api.FoundKey](ctx, c, http.MethodPost, "/keys/find", nil, api.KeySearch{SHA256: hex.EncodeToString(hash[:])})
}

// EndLogins ends all login tokens that the account has at this moment: the
// next call with one is refused. The error for an unknown account is
// api.ErrNotFound.
func (c *Client) EndLogins(ctx context.Context, account string) error {
	_, err := ofAccount[none](ctx, c, http.MethodDelete, account, "/logins", nil, nil)
	return err
}
