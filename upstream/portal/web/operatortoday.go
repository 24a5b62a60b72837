package web

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// summaryWait is how long Today waits for its numbers. The gate goes on adding
// them up.
const summaryWait = 200 * time.Millisecond

var secretRefused = api.Check{
	Name: "gate", Message: "The gate refuses the secret of these pages: they can show and change nothing.",
	Remedy: "Give the gate and upstream the same secret, and restart upstream: see Secrets in docs/operations.md.",
}

// todayView is what an operator looks at first.
type todayView struct {
	*visit
	// Checks say what works, or what to do.
	Checks []api.Check
	// Numbers is nil while the gate adds them up.
	Numbers        *api.Summary
	Days           int
	Calls, Refused *chart
}

func (s *site) today(w http.ResponseWriter, r *http.Request, v *visit) error {
	view := todayView{visit: v, Checks: s.checks(r.Context()), Days: historyDays}
	if r.URL.Query().Get("days") == "7" {
		view.Days = recentDays
	}
	ctx, cancel := context.WithTimeout(r.Context(), summaryWait)
	defer cancel()
	numbers, err := s.Gate.Summary(ctx)
	switch {
	case err == nil && v.clock.zone != nil:
		view.fill(numbers)
	case err == nil, classify(err) == errGate:
		if refused, isRefused := errors.AsType[*apierror.Error](err); isRefused && refused.Status == http.StatusUnauthorized {
			view.Checks[0] = secretRefused // the readiness needs no secret
		}
		w.Header().Set("Refresh", "3")
	default:
		return err
	}
	return s.views.show(w, http.StatusOK, "operatortoday", v.page("Today", operatorSection, view))
}

// checks tells the state of the gate and of the rates.
func (s *site) checks(ctx context.Context) []api.Check {
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	gate := api.Check{Name: "gate", OK: true, Message: "The gate admits calls."}
	ready, err := s.Gate.Readiness(ctx)
	switch {
	case err != nil:
		gate.OK, gate.Message = false, "The gate does not answer these pages."
		gate.Remedy = "Run caddy tollgate health. If it says ready, upstream has another TOLLGATE_CONTROL than Caddy."
	case ready.Status == api.Unavailable:
		gate.OK, gate.Message = false, "The gate refuses calls: "+ready.Failed()+"."
		gate.Remedy = "Run caddy tollgate health: see TollgateStoreDown in docs/operations.md."
	case ready.Status != api.Ready: // for a moment
		gate.OK, gate.Message = false, "The gate refuses calls: "+ready.Failed()+"."
	case ready.Mode != api.ModeEnforce:
		gate.Message = "The gate works in mode shadow: it does not enforce its limits, and only reports what it would refuse."
		gate.Remedy = "To enforce the limits, write mode enforce in the Caddyfile and reload Caddy."
	}
	if s.Rates == nil {
		return []api.Check{gate}
	}
	rates := api.Check{Name: "rates", OK: true, Message: "The rates are up to date."}
	if missed := s.Rates(); missed > 0 {
		rates.OK, rates.Message = false, plural(missed, "publication")+" of the bank missing: calls without a date get the last rates, with their date."
		rates.Remedy = "Run the command rates refresh of upstream: see TollgateRatesMissed in docs/operations.md."
	}
	return []api.Check{gate, rates}
}

// fill adds the numbers of all accounts.
func (view *todayView) fill(numbers api.Summary) {
	view.Numbers, view.Checks = &numbers, append(view.Checks, numbers.Checks...)
	days := numbers.Days[max(0, len(numbers.Days)-view.Days):]
	view.Calls = chartOf(days, func(d api.SummaryDay) map[string]int64 { return d.Calls })
	view.Refused = chartOf(days, func(d api.SummaryDay) map[string]int64 { return d.Refused })
	if c := view.Refused; c != nil { // nothing that it shows was admitted
		c.Summary, _, _ = strings.Cut("Refused c"+strings.TrimPrefix(c.Summary, "C"), " admitted")
	}
}

// Bar is a limit as My usage shows it.
func (v *visit) Bar(n api.NearestLimit) meter {
	return newMeter(v.clock, n.Endpoint, "", "", api.UsageLimit{Period: n.Period, Limit: n.Limit, Used: &n.Used, Remaining: &n.Remaining, ResetsAt: n.ResetsAt})
}

// chartOf returns the chart of counts by name, nil without any.
func chartOf(days []api.SummaryDay, counts func(api.SummaryDay) map[string]int64) *chart {
	var document api.UsageDocument
	names := map[string]int64{}
	for _, day := range days {
		maps.Copy(names, counts(day))
		document.Days = append(document.Days, api.UsageDay{Day: day.Day, Calls: counts(day)})
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		document.Endpoints = append(document.Endpoints, api.UsageEndpoint{Endpoint: name})
	}
	return newChart(newChartData(document, nil))
}
