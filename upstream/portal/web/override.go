package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// overrideRow is an override in words. Instead is the limit of the plan, "no limit",
// or "no access".
type overrideRow struct {
	Target, Name, Limit, Instead, Reason string
	// Ends is nil without an end. Its text is the last day.
	Ends *moment
}

func (v *visit) overrideRows(overrides []api.Override) (rows []overrideRow) {
	for _, o := range overrides {
		row := overrideRow{Target: o.Endpoint + "/" + o.Period, Name: covers(o.Endpoint), Limit: "unlimited " + api.Per(o.Period), Instead: "no limit", Reason: o.Reason}
		if o.Limit != nil {
			row.Limit = limitText(*o.Limit, o.Period)
		}
		if !has(v.plan, o.Endpoint) {
			row.Instead = "no access"
		}
		if o.ExpiresAt != nil {
			row.Ends = new(v.clock.moment(*o.ExpiresAt))
			row.Ends.Text = o.ExpiresAt.Add(-1).In(v.clock.zone).Format(shortDate) // the day before a midnight
		}
		for _, l := range unusedLimits(v.plan, o.Endpoint, nil) {
			if l.Period == o.Period && !l.Calls {
				row.Instead = humanize.Comma(l.Limit)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// overridesOf gets the overrides of what the account's plan has. Others open
// nothing.
func (s *site) overridesOf(ctx context.Context, v *visit) ([]overrideRow, error) {
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	list, err := s.Gate.Limits(ctx, v.who.ID)
	if errors.Is(err, api.ErrNotFound) {
		err = nil
	}
	return v.overrideRows(slices.DeleteFunc(list, func(o api.Override) bool { return !has(v.plan, o.Endpoint) })), err
}

// fillTarget reads what the form changes now. The error is errNotFound for a key or
// an override that is gone.
func (s *site) fillTarget(r *http.Request, f *actionForm) error {
	ctx, cancel := account.OfCall(r.Context())
	defer cancel()
	target := f.Get("target")
	switch f.Action {
	case "limit":
		document, err := s.usageOf(ctx, f.visit, 0)
		if err != nil {
			return err
		}
		overrides, err := s.Gate.Limits(ctx, f.Account.Account)
		f.fillLimit(document, overrides)
		return err
	case "clear":
		f.Target = target
		overrides, err := s.Gate.Limits(ctx, f.Account.Account)
		if err == nil && !slices.ContainsFunc(overrides, func(o api.Override) bool { return o.Endpoint+"/"+o.Period == target }) {
			err = errNotFound
		}
		return err
	case "revoke":
		r.SetPathValue("id", target)
		key, err := s.liveKey(r, f.visit)
		f.Target = key.Name + " (" + key.Hint + ")"
		return err
	}
	return nil
}

// fillLimit fills an empty form with the limit of its link, or else with the one
// that is nearest.
func (f *actionForm) fillLimit(document api.UsageDocument, overrides []api.Override) {
	document.Keys = nil
	f.Limits, f.Overrides = f.meters(document), f.overrideRows(overrides)
	f.limits, f.used, f.overrides = map[string]api.UsageLimit{}, map[string]int64{}, map[string]api.Override{}
	for _, e := range document.Endpoints {
		f.used[e.Endpoint+"/"+api.Day] = e.Used
		f.used[api.All+"/"+api.Day] += e.Used
	}
	for _, e := range append(document.Endpoints, api.UsageEndpoint{Endpoint: api.All, Limits: document.Limits}) {
		for _, l := range e.Limits {
			if l.Calls {
				continue
			}
			f.limits[e.Endpoint+"/"+l.Period] = l
			if l.Used != nil {
				f.used[e.Endpoint+"/"+l.Period] = *l.Used
			}
		}
	}
	for _, o := range overrides {
		f.overrides[o.Endpoint+"/"+o.Period] = o
	}
	for target, now := range f.limits { // an override replaces a total, not its top-ups
		endpoint, _, _ := strings.Cut(target, "/")
		if now.Period != api.Total {
			continue
		}
		for _, l := range unusedLimits(f.plan, endpoint, nil) {
			if l.Period == api.Total && !l.Calls {
				now.Limit = l.Limit
			}
		}
		if o := f.overrides[target]; o.Limit != nil {
			now.Limit = *o.Limit
		}
		f.limits[target] = now
	}
	target := f.Get("target")
	if target == "" && len(f.Limits.Bars) > 0 {
		target = f.Limits.Bars[0].Target
	}
	if endpoint, period, _ := strings.Cut(target, "/"); !f.Has("endpoint") {
		f.Values = url.Values{"endpoint": {endpoint}, "period": {period}}
		if now, limited := f.limits[target]; limited {
			f.Set("calls", humanize.Comma(now.Limit))
		}
		if end := f.overrides[target].ExpiresAt; end != nil {
			f.Set("until", end.Add(-1).In(f.clock.zone).Format(time.DateOnly))
		}
	}
}

// setLimit overrides a limit. It asks before a number that is lower than the limit,
// or that refuses calls at once, and before an end where there is none.
func (s *site) setLimit(ctx context.Context, f *actionForm, reason string) error {
	endpoint, period := f.Get("endpoint"), f.Get("period")
	calls, valid := wholeNumber(f.Get("calls"), 0)
	end, wrong := f.clock.endOf(f.Get("until"))
	target, number, lower := endpoint+"/"+period, humanize.Comma(calls)+" "+api.Per(period), ""
	now, limited := f.limits[target]
	before, overridden := f.overrides[target]
	switch {
	case !valid:
		return mistake("Calls: a whole number from 0 to 10^15, such as 1000.")
	case wrong != "":
		return mistake("Last day: " + wrong)
	case before.Limit != nil && *before.Limit == calls && before.ExpiresAt != nil && before.ExpiresAt.Equal(end):
		return errUnchanged
	case !limited:
		lower = covers(endpoint) + " has no limit " + api.Per(period) + " now."
	case now.Soft != nil:
		lower = "An override is not soft: above it, calls are refused. The limit of the plan refuses them above " + humanize.Comma(*now.Soft) + "."
	case calls < now.Limit:
		lower = number + " is lower than the present limit of " + covers(endpoint) + ", " + humanize.Comma(now.Limit) + " " + api.Per(period) + "."
	}
	if overridden && before.ExpiresAt == nil {
		lower += " An override without an end applies now. This one replaces it, and ends."
	}
	sure := strings.Join([]string{target, number, humanize.Comma(now.Limit), lower}, "/") // not what is used, which grows
	if used, counted := f.used[target]; counted && used >= calls && period != api.Total {
		lower += " " + humanize.Comma(used) + " are used: calls are refused until the " + period + " ends."
	}
	if err := f.ask(sure, lower); err != nil {
		return err
	}
	_, err := s.Gate.SetLimit(ctx, f.Account.Account, endpoint, period, api.OverrideRequest{Limit: &calls, ExpiresAt: &end, Reason: reason})
	return err
}
