package refusal

import (
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Exceeded refuses a call that a limit does not admit, or would if calls in
// progress give nothing back of what they have reserved. The client has to wait
// that long; end is the end of a period of the calendar. unit is what the limit
// counts, "" for calls. policy and rest are the fields RateLimit-Policy and
// RateLimit. A call without a key learns about keys, and where docs, the address of
// the documentation or "", are.
func Exceeded(l store.Limit, unit string, reserved bool, wait time.Duration, end time.Time, policy, rest string, anonymous bool, docs string) *Refusal {
	f := &Refusal{
		Status: http.StatusTooManyRequests, RetryAfter: max(1, WholeSeconds(wait)),
		notice: "The limit" + ofWhat(l) + " is " + inUnits(l, unit) + ".",
		// Clients that sleep through any Retry-After would sleep for hours.
		fields: []field{{"Ratelimit-Policy", policy}, {"Ratelimit", rest}, {"X-Should-Retry", strconv.FormatBool(l.Period.IsPace() || l.Period == store.Concurrent || reserved)}},
	}
	offer := ""
	if anonymous {
		if !l.OfAddress {
			offer = " All calls without a key share this limit."
		}
		if offer += " Calls with an API key have limits of their own."; docs != "" {
			offer += " The documentation of the API is at " + docs + "."
			f.docs, f.fields = docs, append(f.fields, docsLink(docs))
		}
	}
	if l.Period.IsPace() {
		f.Code, f.Outcome, f.heading = "rate_limited", outcome.RateLimited, "Too many calls"
		f.Message = "Too many calls" + ofWhat(l) + ": at most " + inUnits(l, unit) + ". Try again " + inWords(f.RetryAfter) + "." + offer
		return complete(f, members(l))
	}
	if l.Period == store.Concurrent {
		f.Code, f.Outcome, f.heading = "too_many_concurrent", outcome.RateLimited, "Too many calls at once"
		f.Message = "Too many calls at once to " + endpoints(l) + ": at most " + strconv.FormatInt(l.Max, 10) + " of this account. Try again when one of them has ended." + offer
		return complete(f, members(l))
	}
	resets := `,"resets_at":"` + end.Format(time.RFC3339) + `"`
	if l.Period == store.Total {
		resets = ""
	}
	if reserved {
		f.Code, f.Outcome, f.heading = "quota_reserved", outcome.Reserved, "Too many calls in progress"
		f.Message = "Calls in progress have reserved what is left of the limit" + ofWhat(l) + ": " + inUnits(l, unit) + ". Try again " + inWords(f.RetryAfter) + "." + offer
		return complete(f, members(l)+resets)
	}
	if l.Period == store.Total {
		f.RetryAfter = 0
		f.Code, f.Outcome, f.heading = "quota_exhausted", outcome.Exhausted, "Nothing left"
		f.Message = "Nothing is left of the limit" + ofWhat(l) + ": " + inUnits(l, unit) + ". It does not renew: it takes a top-up or another plan." + offer
		return complete(f, members(l))
	}
	adjective, at := map[store.Period]string{store.Day: "Daily", store.Week: "Weekly", store.Month: "Monthly"}[l.Period], clock(end)
	if l.Period != store.Day {
		at = end.Format("on January 2 ") + at
	}
	f.reset = at
	f.Code, f.Outcome, f.heading = "quota_exceeded", outcome.Exhausted, adjective+" limit reached"
	f.Message = adjective + " API limit" + ofWhat(l) + " exceeded: " + inUnits(l, unit) + ". It resets at " + end.Format(time.RFC3339) + "." + offer
	return complete(f, members(l)+resets)
}

// CostAbove refuses a call that "costs" or "reserves" more than a limit can ever
// admit.
func CostAbove(l store.Limit, unit, takes string, cost int64) *Refusal {
	text := strconv.FormatInt(cost, 10)
	return complete(&Refusal{
		Status: http.StatusForbidden, Code: "cost_above_limit", Outcome: outcome.NotEntitled,
		Message: "The call " + takes + " " + text + " and can never be admitted: the limit" + ofWhat(l) + " is " + inUnits(l, unit) + ".",
	}, members(l)+`,"cost":`+text)
}

// members returns the members of JSON that describe a limit. The names of
// endpoints need no escapes.
func members(l store.Limit) string {
	return `,"endpoint":"` + l.Endpoint + `","period":"` + l.Period.String() + `","limit":` + strconv.FormatInt(l.Max, 10) + `,"of":"` + l.Of() + `"`
}

func ofWhat(l store.Limit) string {
	if l.OfKey || l.OfAddress {
		return " of this " + l.Of()
	}
	return ""
}

// inUnits returns a limit in words: "5 calls a day to convert". A unit is a plural,
// and not all of these have a singular without an s.
func inUnits(l store.Limit, unit string) string {
	period := " a " + l.Period.String()
	switch l.Period {
	case store.Hour:
		period = " an hour"
	case store.Total:
		period = " in total"
	case store.Concurrent:
		period = " at once"
	}
	number := plural(l.Max, "call")
	if unit != "" {
		number = strconv.FormatInt(l.Max, 10) + " " + unit
	}
	return number + period + " to " + endpoints(l)
}

func endpoints(l store.Limit) string {
	if l.Endpoint == store.All {
		return "all endpoints together"
	}
	return l.Endpoint
}

// WholeSeconds rounds up.
func WholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// inWords is a wait in words. Minutes are rounded up, so that a client that
// waits that long is admitted; hours and days are rounded.
func inWords(seconds int64) string {
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	switch {
	case seconds <= 90:
		return "in " + plural(seconds, "second")
	case seconds <= 90*minute:
		return "in " + plural((seconds+minute-1)/minute, "minute")
	case seconds <= 2*day:
		return "in about " + plural((seconds+hour/2)/hour, "hour")
	}
	return "in about " + plural((seconds+day/2)/day, "day")
}

func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(n, 10) + " " + noun
}

// clock is the end of a day in words, with its zone. Where clocks change, a
// day can begin later than at 00:00.
func clock(t time.Time) string {
	at := t.Format("15:04")
	if at == "00:00" {
		at = "midnight"
	}
	return "at " + at + " (" + t.Location().String() + ")"
}
