package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// Question is a request to explain. Only Method and Target are required.
type Question struct {
	Method, Target string
	Account, Key   string
	// From is the address of the client.
	From string
	// Cost is the number of elements in the body, for endpoints with
	// cost json. 0 means 1.
	Cost int64
}

// Explain tells what the gate would answer to a request. It counts nothing.
// The error for an unknown account is api.ErrNotFound, and for an unknown key
// api.ErrNoKey.
func (c *Client) Explain(ctx context.Context, q Question) (explanation api.Explanation, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"method": q.Method, "target": q.Target, "account": q.Account, "key": q.Key, "from": q.From} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Cost != 0 {
		query.Set("cost", strconv.FormatInt(q.Cost, 10))
	}
	err = c.do(ctx, http.MethodGet, "/explain", query, nil, &explanation)
	return explanation, err
}
