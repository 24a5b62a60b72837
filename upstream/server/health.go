package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
)

// pingTimeout is how long the database may take to answer a health check.
const pingTimeout = 2 * time.Second

// Pinger is a part with a health check.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Rates tells how fresh the rates are.
type Rates interface {
	Status() ecb.Status
	Missed(now time.Time) int
}

// health answers GET /healthz: 200 while the upstream can serve, 503 when
// its database does not answer. Old rates and an unreachable gate do not cause a
// 503: a load balancer could not send the requests elsewhere, and the API still
// serves. The check does not call the gate, because the gate may be the
// client: it tells what the last check in the background found.
type health struct {
	database Pinger
	rates    Rates
	gate     func() string // nil if it is not known
	now      func() time.Time
	outage   *outage.Log
}

type healthAnswer struct {
	Status string `json:"status"`
	// Gate is "ok", or what is wrong with the gate.
	Gate string `json:"gate,omitempty"`
	// Rates is missing without the currency API.
	Rates *ratesAge `json:"rates,omitempty"`
}

// ratesAge is the age of the bank's newest rates: newer rates of another source
// must not hide that the bank's are old. AgeDays counts calendar days in UTC; 3
// is usual on a Monday morning. Missed counts publications that are not there.
// Live is true if rates are fetched, Failing if the last attempt failed.
// CheckedAt is the last success.
type ratesAge struct {
	Date      civil.Date `json:"date"`
	AgeDays   int        `json:"age_days"`
	Missed    int        `json:"missed"`
	Live      bool       `json:"live"`
	Failing   bool       `json:"failing"`
	CheckedAt *time.Time `json:"checked_at"`
}

func (h *health) age() *ratesAge {
	if h.rates == nil {
		return nil
	}
	now, status := h.now(), h.rates.Status()
	age := &ratesAge{
		Date:    status.Newest,
		AgeDays: int(civil.Of(now.UTC()) - status.Newest),
		Missed:  h.rates.Missed(now),
		Live:    status.Live,
		Failing: status.Err != nil,
	}
	if !status.CheckedAt.IsZero() {
		age.CheckedAt = &status.CheckedAt
	}
	return age
}

func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found := healthAnswer{Status: "ok", Rates: h.age()}
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
