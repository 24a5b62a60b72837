package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// Readiness tells whether the gate can take calls. It returns no error for a
// gate that cannot. It needs no secret.
func (c *Client) Readiness(ctx context.Context) (api.Readiness, error) {
	got, err := c.send(ctx, http.MethodGet, "/health/ready", nil, nil)
	if err != nil {
		return api.Readiness{}, err
	}
	var state api.Readiness
	if got.status == http.StatusServiceUnavailable && json.Unmarshal(got.body, &state) == nil && isAnswer(&state) {
		return state, nil
	}
	err = got.decode(&state)
	return state, err
}
