package client

import (
	"context"

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
func (c *Client) CreateKey(ctx context.Context, account string, request api.KeyRequest) (api.IssuedKey, error) {
	return call(ctx, c, api.CreateKey, api.KeyCreation{OfAccount: of(account), Body: request})
}

// Keys lists an account's tokens, oldest first.
func (c *Client) Keys(ctx context.Context, account string, filter KeyFilter) ([]api.Key, error) {
	query := api.KeyQuery{OfAccount: of(account), Kind: filter.Kind}
	if filter.Revoked {
		query.Include = "revoked"
	}
	list, err := call(ctx, c, api.ListKeys, query)
	return list.Keys, err
}

// ChangeKey changes a live key. The error for another one is api.ErrNoKey.
func (c *Client) ChangeKey(ctx context.Context, account, id string, change api.KeyChange) (api.Key, error) {
	return call(ctx, c, api.ChangeKey, api.KeyPatch{OfKey: ofKey(account, id), Body: change})
}

// RevokeKey ends a token: the next call with it is refused.
func (c *Client) RevokeKey(ctx context.Context, account, id string) error {
	_, err := call(ctx, c, api.RevokeKey, ofKey(account, id))
	return err
}

// RotateKey replaces a live token with a new one that has the same name,
// abilities, expiry, limits and addresses.
func (c *Client) RotateKey(ctx context.Context, account, id string, rotation api.Rotation) (api.IssuedKey, error) {
	return call(ctx, c, api.RotateKey, api.KeyRotation{OfKey: ofKey(account, id), Body: &rotation})
}

// FindKey returns the key or login token with the SHA-256 in 64 hexadecimal digits, also one that ended and is
// still kept. The error for an unknown one is api.ErrNotFound.
func (c *Client) FindKey(ctx context.Context, sha256 string) (api.FoundKey, error) {
	return call(ctx, c, api.FindKey, api.KeyFinding{Body: api.KeySearch{SHA256: sha256}})
}

// EndLogins ends all login tokens that the account has at this moment: the
// next call with one is refused. The error for an unknown account is
// api.ErrNotFound.
func (c *Client) EndLogins(ctx context.Context, account string) error {
	_, err := call(ctx, c, api.EndLogins, of(account))
	return err
}

func ofKey(account, id string) api.OfKey { return api.OfKey{OfAccount: of(account), ID: id} }
