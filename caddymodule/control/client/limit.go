package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// SetLimit overrides a limit of an account, or adds one. The endpoint is a name
// or api.All. The error for an unknown account is api.ErrNotFound.
func (c *Client) SetLimit(ctx context.Context, account, endpoint, period string, request api.OverrideRequest) (override api.Override, err error) {
	path, err := limitPath(account, endpoint, period)
	if err != nil {
		return override, err
	}
	err = c.do(ctx, http.MethodPut, path, nil, request, &override)
	return override, err
}

// Limits lists the overrides of an account that have not ended, oldest first.
func (c *Client) Limits(ctx context.Context, account string) ([]api.Override, error) {
	path, err := accountPath(account)
	if err != nil {
		return nil, err
	}
	var list api.OverrideList
	err = c.do(ctx, http.MethodGet, path+"/limits", nil, nil, &list)
	return list.Limits, err
}

// ClearLimit removes an override: the limit of the plan applies again. The error
// is api.ErrNotFound if there is none.
func (c *Client) ClearLimit(ctx context.Context, account, endpoint, period string) error {
	path, err := limitPath(account, endpoint, period)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodDelete, path, nil, nil, nil)
}

// limitPath refuses names that would be the path of another resource.
func limitPath(account, endpoint, period string) (string, error) {
	path, err := accountPath(account)
	switch {
	case err != nil:
		return "", err
	case isNoSegment(endpoint):
		return "", api.ErrUnknownEndpoint
	case isNoSegment(period):
		return "", api.ErrInvalidPeriod
	}
	return path + "/limits/" + url.PathEscape(endpoint) + "/" + url.PathEscape(period), nil
}
