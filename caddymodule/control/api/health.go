package api

import (
	"net/http"
	"strings"
	"time"
)

// Status is the state of a gate.
type Status string

// The statuses of a gate. Only a gate that is Ready takes calls.
const (
	Ready       Status = "ready"
	Starting    Status = "starting"    // its configuration is not in force yet
	Unavailable Status = "unavailable" // its store does not work
	Stopping    Status = "stopping"    // its process or configuration ends
)

// ModeEnforce is the mode of a gate that enforces its plans.
const ModeEnforce = "enforce"

// Live is the status of a process that answers.
const Live = "live"

// Liveness is the answer of a process that works.
type Liveness struct {
	Status string `json:"status" enum:"live"`
}

// Readiness tells whether a gate can take calls.
type Readiness struct {
	Status Status    `json:"status" enum:"ready,starting,unavailable,stopping" doc:"Only ready comes with the HTTP status 200."`
	Mode   string    `json:"mode" enum:"enforce,shadow" doc:"Whether the gate enforces its plans, or only reports what it would refuse."`
	Since  time.Time `json:"since" doc:"When the gate noticed the last change of the status."`
	Checks []Check   `json:"checks" nullable:"false" doc:"What the status depends on."`
}

// Check is one thing that a Readiness depends on, or that a Summary has.
type Check struct {
	Name    string `json:"name" doc:"A stable word: store, or configuration while it is not in force. In a summary: webhook, if there is one, and backup, if one was made or is due."`
	OK      bool   `json:"ok" doc:"Whether it works."`
	Message string `json:"message" doc:"A sentence for a person. The log has the details."`
	Remedy  string `json:"remedy,omitempty" doc:"What the person who runs the server does. Only in a summary."`
	Cause   string `json:"cause,omitempty" doc:"The error of the check, as in the log. Only on Caddy's admin endpoint."`
}

// Failed returns the first check that failed, as a text for a person, or "".
func (r Readiness) Failed() string {
	for _, c := range r.Checks {
		if !c.OK && c.Cause != "" {
			return strings.TrimSuffix(c.Message, ".") + ": " + c.Cause
		}
		if !c.OK {
			return strings.TrimSuffix(c.Message, ".")
		}
	}
	return ""
}

// As returns a copy of r with another status and its beginning.
func (r Readiness) As(status Status, since time.Time) Readiness {
	r.Status, r.Since = status, since.UTC().Truncate(time.Millisecond)
	return r
}

// The operations for load balancers and supervisors. They need no secret.
var (
	GetLiveness = Operation[None, Liveness]{
		ID: "get-liveness", Method: http.MethodGet, Path: "/tollgate/health/live", Tag: "health",
		Summary:     "Tell that the process works",
		Description: "Needs no secret. Always 200. Restart the process if it does not answer.",
	}
	GetReadiness = Operation[None, Readiness]{
		ID: "get-readiness", Method: http.MethodGet, Path: "/tollgate/health/ready", Tag: "health",
		Summary:     "Tell whether the gate can take calls",
		Description: "Needs no secret. 503 while the gate starts or stops, and while its store does not work. Send no calls then.",
	}
)
