package client

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// Take counts a call that does not pass through the gate. The secret of the client is
// the gate's take_secret. A refused call is no error: see api.Taken.Admitted. With an
// error it is not known whether the call was counted: repeat it with the same ID.
func (c *Client) Take(ctx context.Context, t api.Taking) (api.Taken, error) {
	return call(ctx, c, api.Take, api.TakeRequest{Body: t})
}

// SettleCall settles the cost of an admitted call, whose name is api.Taken.Call. It
// can be repeated.
func (c *Client) SettleCall(ctx context.Context, name string, cost int64) error {
	_, err := call(ctx, c, api.SettleCall, api.Settlement{Call: name, Body: api.Settled{Cost: cost}})
	return err
}
