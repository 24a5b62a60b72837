package web

import (
	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// The periods of the calendar. All other periods are paces.
const (
	perDay   = "day"
	perMonth = "month"
)

// isPace tells whether a limit of this period is a pace: it is refilled all the
// time and has no reset.
func isPace(period string) bool { return period != perDay && period != perMonth }

// limitText returns a limit in words, such as "1,000 a day" and "at most 10 a
// second". A limit of 0 admits no call.
func limitText(limit int64, period string) string {
	if limit == 0 {
		return "Closed"
	}
	text := humanize.Comma(limit) + " " + api.Per(period)
	if isPace(period) {
		return "at most " + text
	}
	return text
}

// covers returns what a limit covers: the name of an endpoint, or the words
// for all.
func covers(endpoint string) string {
	if endpoint == api.All {
		return "All endpoints"
	}
	return endpoint
}

// has tells whether a plan has an endpoint. It has all together if it has one.
func has(plan api.Plan, endpoint string) bool {
	_, listed := plan.Limits[endpoint]
	return listed || endpoint == api.All && len(plan.Limits) > 0
}

// planLimits returns a plan's limits of an endpoint, or of all endpoints
// together, in words. It returns nil without access, and if there is no limit
// of all endpoints.
func planLimits(plan api.Plan, endpoint string) []string {
	if !has(plan, endpoint) {
		return nil
	}
	var quotas, paces []string
	if daily := plan.Limits[endpoint]; daily != nil {
		quotas = append(quotas, limitText(*daily, perDay))
	}
	for _, l := range plan.MoreLimits {
		switch {
		case l.Endpoint != endpoint:
		case isPace(l.Period):
			paces = append(paces, limitText(l.Limit, l.Period))
		default:
			quotas = append(quotas, limitText(l.Limit, l.Period))
		}
	}
	if endpoint != api.All && len(quotas) == 0 {
		quotas = append(quotas, "Unlimited")
	}
	return append(quotas, paces...)
}
