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
// that long; end is the end of a day or a month. policy and rest are the fields
// RateLimit-Policy and RateLimit. A call without a key learns about keys, and where
// docs, the address of the documentation or "", are.
func Exceeded(l store.Limit, reserved bool, wait time.Duration, end time.Time, policy, rest string, anonymous bool, docs string) *Refusal {
	f := &Refusal{
		Status: http.StatusTooManyRequests, RetryAfter: max(1, WholeSeconds(wait)),
		notice: "The limit" + ofWhat(l) + " is " + inCalls(l) + ".",
		// Clients that sleep through any Retry-After would sleep for hours.
		fields: []field{{"Ratelimit-Policy", policy}, {"Ratelimit", rest}, {"X-Should-Retry", strconv.FormatBool(l.Period.IsPace() || reserved)}},
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
		f.Message = "Too many calls" + ofWhat(l) + ": at most " + inCalls(l) + ". Try again " + inWords(f.RetryAfter) + "." + offer
		return complete(f, members(l))
	}
	adjective, at := "Daily", clock(end)
	if l.Period == store.Month {
		adjective = "Monthly"
		at = end.Format("on January 2 ") + at
	}
	resets := end.Format(time.RFC3339)
	if reserved {
		f.Code, f.Outcome, f.heading = "quota_reserved", outcome.Reserved, "Too many calls in progress"
		f.Message = "Calls in progress have reserved what is left of the limit" + ofWhat(l) + ": " + inCalls(l) + ". Try again " + inWords(f.RetryAfter) + "." + offer
		return complete(f, members(l)+`,"resets_at":"`+resets+`"`)
	}
	f.reset = at
	f.Code, f.Outcome, f.heading = "quota_exceeded", outcome.Exhausted, adjective+" limit reached"
	f.Message = adjective + " API limit" + ofWhat(l) + " exceeded: " + inCalls(l) + ". It resets at " + resets + "." + offer
	return complete(f, members(l)+`,"resets_at":"`+resets+`"`)
}

// CostAbove refuses a call that "costs" or "reserves" more than a limit can ever
// admit.
func CostAbove(l store.Limit, takes string, cost int64) *Refusal {
	text := strconv.FormatInt(cost, 10)
	return complete(&Refusal{
		Status: http.StatusForbidden, Code: "cost_above_limit", Outcome: outcome.NotEntitled,
		Message: "The call " + takes + " " + text + " and can never be admitted: the limit" + ofWhat(l) + " is " + inCalls(l) + ".",
	}, members(l)+`,"cost":`+text)
}

// members returns the members of JSON that describe a limit. The names of
// endpoints need no escapes.
func members(l store.Limit) string {
	return `,"endpoint":"` + l.Endpoint + `","period":"` + l.Period.String() + `","limit":` + strconv.FormatInt(l.Max, 10) + `,"of":"` + Of(l) + `"`
}

// Of returns what a limit is of: "account", "key" or "address".
func Of(l store.Limit) string {
	switch {
	case l.OfKey:
		return "key"
	case l.OfAddress:
		return "address"
	}
	return "account"
}

func ofWhat(l store.Limit) string {
	if l.OfKey || l.OfAddress {
		return " of this " + Of(l)
	}
	return ""
}

// inCalls returns a limit in words: "5 calls a day to convert".
func inCalls(l store.Limit) string {
	period, endpoints := " a "+l.Period.String(), l.Endpoint
	if l.Period == store.Hour {
		period = " an hour"
	}
	if l.Endpoint == store.All {
		endpoints = "all endpoints together"
	}
	return plural(l.Max, "call") + period + " to " + endpoints
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
