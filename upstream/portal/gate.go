package portal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// gateCheck calls the control API in the background, so that a wrong secret or
// address is in the log before the first login fails.
type gateCheck struct {
	client *client.Client
	outage *outage.Log
	state  atomic.Pointer[string]

	// every is the time between two checks, and retry the time after a failed
	// one. A failure is logged after patience: the gate and upstream may start
	// at the same time.
	every, retry, patience time.Duration
}

func newGateCheck(gate *client.Client, logger *slog.Logger) *gateCheck {
	return &gateCheck{
		client: gate, outage: outage.New(logger, slog.LevelError, "checking the gate"),
		every: 30 * time.Second, retry: 2 * time.Second, patience: 5 * time.Second,
	}
}

// State returns the result of the last check.
func (g *gateCheck) State() string {
	if state := g.state.Load(); state != nil {
		return *state
	}
	return gateUnchecked
}

// run checks the gate until ctx ends.
func (g *gateCheck) run(ctx context.Context) {
	var failing time.Time // since when; zero while the gate answers
	for {
		state, err := g.check(ctx)
		if ctx.Err() != nil {
			return
		}
		g.state.Store(&state)
		wait := g.retry
		switch {
		case err == nil:
			failing, wait = time.Time{}, g.every
			g.outage.Worked()
		case failing.IsZero():
			failing = time.Now()
			fallthrough
		default:
			if state == gateSecretRefused || time.Since(failing) >= g.patience {
				g.outage.Failed(slog.Any("error", err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// check makes one call, which needs the secret and changes nothing.
func (g *gateCheck) check(ctx context.Context) (state string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, err = g.client.Plans(ctx)
	var refused *apierror.Error
	switch {
	case err == nil:
		return gateOK, nil
	case errors.Is(err, client.ErrOther):
		return gateNotControl, errNotControl
	case !errors.As(err, &refused):
		return gateUnreachable, err
	case refused.Status == http.StatusUnauthorized:
		return gateSecretRefused, errSecretRefused
	case refused.Status < http.StatusInternalServerError:
		return gateNotControl, errNotControl
	}
	return gateUnavailable, fmt.Errorf("the gate answers %d", refused.Status)
}
