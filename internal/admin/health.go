package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// serveHealth adds the operations for load balancers and supervisors.
func (s *Server) serveHealth() {
	huma.Register(s.router, public(api.GetLiveness), func(context.Context, *struct{}) (*reply[api.Liveness], error) {
		return &reply[api.Liveness]{api.Liveness{Status: api.Live}}, nil
	})
	ready := public(api.GetReadiness)
	ready.Responses = map[string]*huma.Response{strconv.Itoa(http.StatusServiceUnavailable): {
		Description: "The gate cannot take calls.",
		Content:     contentOf[api.Readiness](s.router, "application/json"),
	}}
	huma.Register(s.router, ready, func(ctx context.Context, _ *struct{}) (*readyReply, error) {
		answer := &readyReply{Status: http.StatusOK, Body: s.Backend.Readiness()}
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

// public describes an operation without the secret.
func public[Out any](row api.Operation[api.None, Out]) huma.Operation {
	op := operation(row)
	op.Security, op.Errors = []map[string][]string{}, []int{http.StatusBadRequest}
	return op
}
