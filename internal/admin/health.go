package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// LivePath needs no secret.
const LivePath = "/tollgate/health/live"

const readyPath = "/tollgate/health/ready"

// registerHealth adds the operations for load balancers and supervisors.
func (s *server) registerHealth(router huma.API) {
	huma.Register(router, healthOperation(huma.Operation{
		OperationID: "get-liveness", Path: LivePath,
		Summary:     "Tell that the process works",
		Description: "Needs no secret. Always 200. Restart the process if it does not answer.",
	}), func(context.Context, *struct{}) (*reply[api.Liveness], error) {
		return &reply[api.Liveness]{api.Liveness{Status: api.Live}}, nil
	})
	huma.Register(router, healthOperation(huma.Operation{
		OperationID: "get-readiness", Path: readyPath,
		Summary:     "Tell whether the gate can take calls",
		Description: "Needs no secret. 503 while the gate starts or stops, and while its store does not work. Send no calls then.",
		Responses: map[string]*huma.Response{strconv.Itoa(http.StatusServiceUnavailable): {
			Description: "The gate cannot take calls.",
			Content:     contentOf[api.Readiness](router, "application/json"),
		}},
	}), func(ctx context.Context, _ *struct{}) (*readyReply, error) {
		answer := &readyReply{Status: http.StatusOK, Body: s.backend.Readiness()}
		if !isAdmin(ctx) {
			answer.Body.Checks = slices.Clone(answer.Body.Checks)
			for i := range answer.Body.Checks {
				answer.Body.Checks[i].Cause = "" // it can have paths and addresses
			}
		}
		if answer.Body.Status != api.Ready {
			answer.Status = http.StatusServiceUnavailable
		}
		return answer, nil
	})
}

// readyReply is a response whose status depends on its body.
type readyReply struct {
	Status int
	Body   api.Readiness
}

// healthOperation completes an operation without the secret.
func healthOperation(op huma.Operation) huma.Operation {
	op.Method, op.Tags, op.Security = http.MethodGet, []string{"health"}, []map[string][]string{}
	op.Errors = []int{http.StatusBadRequest}
	return op
}
