package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// Usage returns what an account used, with a history of up to
// api.MaxUsageDays days; with 0 there is none.
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

// ResetUsage gives today's calls to one endpoint back, or those to all
// endpoints when endpoint is empty.
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
