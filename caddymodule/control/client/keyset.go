package client

import (
	"context"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
)

// PublicKeys returns the keys that verify assertions.
func (c *Client) PublicKeys(ctx context.Context) (set assertion.KeySet, err error) {
	err = c.do(ctx, http.MethodGet, "/jwks.json", nil, nil, &set)
	return set, err
}
