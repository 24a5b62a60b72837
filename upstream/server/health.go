package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
	"github.com/caddy-tollgate/tollgate/upstream/rates/ecb"
)

// pingTimeout is how long the database may take to answer a health check.
const pingTimeout = 2 * time.Second

// Pinger tells whether a part answers.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Rates gives the rates of the moment and tells how they came.
type Rates interface {
	Current() *rates.Dataset
	Status() ecb.Status
}

// health answers GET /healthz: 200 while the upstream can serve, 503 when
// its database does not answer. Old rates are told and no reason for 503:
// they are served all the same. The gate is not asked, because it may be
// the gate that asks.
type health struct {
	database Pinger
	rates    Rates
	now      func() time.Time
	outage   *outage.Log
}

type healthAnswer struct {
	Status string   `json:"status"`
	Rates  ratesAge `json:"rates"`
}

// ratesAge tells how old the newest rates are. AgeDays counts calendar
// days in UTC; 3 is usual on a Monday morning. Live tells whether rates
// are fetched, Failing whether the last attempt failed, CheckedAt when the
// last one succeeded.
type ratesAge struct {
	Date      civil.Date `json:"date"`
	AgeDays   int        `json:"age_days"`
	Live      bool       `json:"live"`
	Failing   bool       `json:"failing"`
	CheckedAt *time.Time `json:"checked_at"`
}

func (h *health) age() ratesAge {
	newest, status := h.rates.Current().Newest(), h.rates.Status()
	age := ratesAge{
		Date:    newest,
		AgeDays: int(civil.Of(h.now().UTC()) - newest),
		Live:    status.Live,
		Failing: status.Err != nil,
	}
	if !status.CheckedAt.IsZero() {
		age.CheckedAt = &status.CheckedAt
	}
	return age
}

func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	age := h.age()
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	if err := h.database.Ping(ctx); err != nil {
		if r.Context().Err() == nil {
			h.outage.Failed(slog.Any("error", err))
		}
		send(w, apierror.New(http.StatusServiceUnavailable, "unavailable", "The account database does not answer.").
			With("status", "unavailable").With("rates", age).WithHeader("Retry-After", "5"))
		return
	}
	h.outage.Worked()
	body, err := json.Marshal(healthAnswer{"ok", age})
	if err != nil {
		panic(err) // only a type that cannot be JSON
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	// Nobody is left to tell when this fails: the client is gone.
	_, _ = w.Write(body)
}
