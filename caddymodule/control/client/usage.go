package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// Usage returns the usage of an account, with a history of up to
// api.MaxUsageDays days; 0 for none.
func (c *Client) Usage(ctx context.Context, account string, days int) (document api.UsageDocument, err error) {
	path, err := accountPath(account)
	if err != nil {
		return document, err
	}
	query := url.Values{}
	if days != 0 {
		query.Set("days", strconv.Itoa(days))
	}
	err = c.do(ctx, http.MethodGet, path+"/usage", query, nil, &document)
	return document, err
}

// KeyUsage returns the calls of a key on the last days, up to
// api.MaxKeyUsageDays.
func (c *Client) KeyUsage(ctx context.Context, account, id string, days int) (usage api.KeyUsage, err error) {
	path, err := keyPath(account, id)
	if err != nil {
		return usage, err
	}
	err = c.do(ctx, http.MethodGet, path+"/usage", url.Values{"days": {strconv.Itoa(days)}}, nil, &usage)
	return usage, err
}

// ResetUsage sets today's count of one endpoint to zero, or the counts of all
// endpoints if endpoint is empty.
func (c *Client) ResetUsage(ctx context.Context, account, endpoint string) error {
	path, err := accountPath(account)
	if err != nil {
		return err
	}
	query := url.Values{}
	if endpoint != "" {
		query.Set("endpoint", endpoint)
	}
	return c.do(ctx, http.MethodDelete, path+"/usage", query, nil, nil)
}
