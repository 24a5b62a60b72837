// Package health tells whether a gate can admit calls now.
//
// A Readiness is the answer to a load balancer. A Monitor makes it from a
// check of the store. It checks on demand only, at most twice a second, and
// waits at most Timeout for a store that hangs.
package health

import (
	"errors"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Status is the status of a gate.
type Status string

// The statuses of a gate. Only Ready means that it can admit calls.
const (
	Ready       Status = "ready"
	Starting    Status = "starting"    // its configuration is not in force yet
	Unavailable Status = "unavailable" // its store does not work
	Stopping    Status = "stopping"    // its process or configuration ends
)

// ModeEnforce is the mode of a gate that enforces its plans.
const ModeEnforce = "enforce"

// Live is the status of every process that answers.
const Live = "live"

// Liveness is the answer that the process runs.
type Liveness struct {
	Status string `json:"status" enum:"live"`
}

// Readiness tells whether a gate can admit calls.
type Readiness struct {
	Status Status `json:"status" enum:"ready,starting,unavailable,stopping" doc:"Only ready comes with the HTTP status 200."`
	Mode   string `json:"mode" enum:"enforce" doc:"Whether the gate enforces its plans."`
	// Since is when the gate noticed the last change of the status, in UTC.
	Since  time.Time `json:"since" doc:"When the gate noticed the last change of the status."`
	Checks []Check   `json:"checks" nullable:"false" doc:"What the status depends on."`
}

// Check is one thing that a Readiness depends on.
type Check struct {
	Name    string `json:"name" doc:"A stable word: store."`
	OK      bool   `json:"ok"`
	Message string `json:"message" doc:"A sentence for a person. The log has the details."`
}

// errSlow is the error of a check that takes longer than Timeout.
var errSlow = errors.New("the store does not answer in time")

// Report returns a Readiness for the error of a check. It does not contain
// the error itself, because anyone can read it.
func Report(err error, since time.Time) Readiness {
	status, check := Unavailable, Check{Name: "store", OK: err == nil}
	switch {
	case err == nil:
		status, check.Message = Ready, "The store works."
	case errors.Is(err, store.ErrOpening):
		status, check.Message = Starting, "The store is being opened."
	case errors.Is(err, errSlow):
		check.Message = "The store does not answer in time."
	default:
		check.Message = "The store cannot admit calls."
	}
	return Readiness{Mode: ModeEnforce, Checks: []Check{check}}.As(status, since)
}

// As returns r with another status and its start.
func (r Readiness) As(status Status, since time.Time) Readiness {
	r.Status, r.Since = status, since.UTC().Truncate(time.Millisecond)
	return r
}
