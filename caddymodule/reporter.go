package caddymodule

import (
	"context"

	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/metrics"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// reporter is an App as a gate.Reporter.
type reporter struct{ *App }

// Refused implements gate.Reporter. The day is that of this configuration.
// Without an open store, the call is dropped.
func (r reporter) Refused(account string, endpoint *policy.Endpoint, code string, reason store.NoGrant) {
	row := store.Refused{Day: r.policy.Calendar.At(r.now()).Day, Account: account, Code: code, Reason: string(reason), Calls: 1}
	if endpoint != nil {
		row.Endpoint = endpoint.ID
	}
	if s := r.store.Load(); s != nil {
		s.Refused.Add(row)
		return
	}
	metrics.RefusedDropped.Inc()
}

// Reached implements gate.Reporter.
func (r reporter) Reached(quota store.Quota) {
	quota.Oldest = r.policy.Names.Endpoints.Oldest(quota.Endpoint)
	if s := r.store.Load(); s != nil {
		s.Events.Reached(quota)
	}
}

// flushReports writes the refused calls that are in memory to the store, so
// that ListRefused has all calls that this gate refused before.
func (a *App) flushReports(ctx context.Context) error {
	s := a.store.Load()
	if s == nil {
		return store.ErrOpening
	}
	return s.Refused.Flush(ctx)
}

// Interface guards.
var _ gate.Reporter = reporter{}
