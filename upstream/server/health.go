package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// pingTimeout is how long the database may take to answer a health check.
const pingTimeout = 2 * time.Second

// Pinger is a part with a health check.
type Pinger interface {
	Ping(ctx context.Context) error
}

// health answers GET /healthz: 200 while the upstream can serve, 503 when
// its database does not answer. Old rates and an unreachable gate do not cause a
// 503: a load balancer could not send the requests elsewhere, and the API still
// serves. The check does not call the gate, because the gate may be the
// client: it tells what the last check in the background found.
type health struct {
	database Pinger
	rates    func() any    // nil without the currency API
	gate     func() string // nil if it is not known
	outage   *outage.Log
}

type healthAnswer struct {
	Status string `json:"status"`
	// Gate is "ok", or what is wrong with the gate.
	Gate string `json:"gate,omitempty"`
	// Rates is missing without the currency API.
	Rates any `json:"rates,omitempty"`
}

func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found := healthAnswer{Status: "ok"}
	if h.rates != nil {
		found.Rates = h.rates()
	}
	if h.gate != nil {
		found.Gate = h.gate()
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	err := h.database.Ping(ctx)
	if err == nil {
		h.outage.Worked()
		sendJSON(w, found)
		return
	}
	if r.Context().Err() == nil {
		h.outage.Failed(slog.Any("error", err))
	}
	refusal := apierror.New(http.StatusServiceUnavailable, "unavailable", "The account database does not answer.").
		With("status", "unavailable").WithHeader("Retry-After", "5")
	if found.Rates != nil {
		refusal = refusal.With("rates", found.Rates)
	}
	if found.Gate != "" {
		refusal = refusal.With("gate", found.Gate)
	}
	send(w, refusal)
}
