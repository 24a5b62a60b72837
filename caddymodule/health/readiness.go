// Package health tells whether a gate can admit calls now.
//
// A Readiness is what a gate answers to a load balancer. A Monitor makes
// it from what the store says, at a bounded cost: it asks the store only
// when it is asked itself, at most twice a second, and never waits longer
// than Timeout for a store that hangs.
package health

import (
	"errors"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// errSlow says that a check of the store did not end within Timeout.
var errSlow = errors.New("the store does not answer in time")

// Report makes a Readiness from what the store's check returned, and from
// the time since when. The error itself is not shown: anyone may ask.
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
		check.Message = "The store cannot admit calls."
	}
	return api.Readiness{Mode: api.ModeEnforce, Checks: []api.Check{check}}.As(status, since)
}
