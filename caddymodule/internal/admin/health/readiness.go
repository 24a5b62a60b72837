// Package health tells whether a gate can admit calls now.
//
// A Readiness is the answer to a load balancer. A Monitor makes it from a
// check of the store. It checks on demand only, at most twice a second, and
// waits at most Timeout for a store that hangs.
package health

import (
	"errors"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// errSlow is the error of a check that takes longer than Timeout.
var errSlow = errors.New("the store does not answer in time")

// Report returns a Readiness for the error of a check. The error itself is only
// the Cause, which is not for everybody.
func Report(err error, since time.Time) api.Readiness {
	status, check := api.Unavailable, api.Check{Name: "store", OK: err == nil}
	switch {
	case err == nil:
		status, check.Message = api.Ready, "The store works."
	case errors.Is(err, store.ErrOpening):
		status, check.Message = api.Starting, "The store is being opened."
	case errors.Is(err, errSlow):
		check.Message = "The store does not answer in time."
	default:
		check.Message, check.Cause = "The store cannot admit calls.", err.Error()
	}
	return api.Readiness{Mode: api.ModeEnforce, Checks: []api.Check{check}}.As(status, since)
}
