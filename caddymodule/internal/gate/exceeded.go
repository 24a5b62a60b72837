package gate

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// exhaustion is the cached refusal of a call that costs 1 and has one limit,
// that of the plan. Within a second, it is the same for all accounts on the
// plan.
type exhaustion struct {
	day     *calendar.Span
	seconds int64
	refusal *Refusal
}

// refuseExceeded refuses a call that a limit does not admit.
func (c *Call) refuseExceeded() *Refusal {
	c.warn(true)
	if !c.shared || len(c.limits) != 1 || c.limits[0].Period.IsPace() || c.cost != 1 {
		return c.exceeded()
	}
	seconds := c.day.RetryAfter(c.began)
	last := c.exhausted.Load()
	if last == nil || last.day != c.day || last.seconds != seconds {
		last = &exhaustion{c.day, seconds, c.exceeded()}
		c.exhausted.Store(last)
	}
	return last.refusal
}

// exceeded returns the refusal for the limit with the longest wait: a client
// that waits that long is admitted.
func (c *Call) exceeded() *Refusal {
	limit, wait := c.longestWait()
	seconds := max(1, wholeSeconds(wait))
	members := limitMembers(limit)
	f := &Refusal{Status: http.StatusTooManyRequests, notice: "The limit" + ofKey(limit) + " is " + inCalls(limit) + "."}
	if limit.Period.IsPace() {
		f.Code, f.outcome, f.heading = "rate_limited", RateLimited, "Too many calls"
		f.Message = "Too many calls" + ofKey(limit) + ": at most " + inCalls(limit) + ". Try again " + inWords(int(seconds)) + "."
	} else {
		adjective, end := "Daily", c.span(limit.Period).End
		f.reset = clock(end)
		if limit.Period == store.Month {
			adjective = "Monthly"
			f.reset = end.Format("on January 2 ") + f.reset
		}
		resets := end.Format(time.RFC3339)
		f.Code, f.outcome, f.heading = "quota_exceeded", Exhausted, adjective+" limit reached"
		f.Message = adjective + " API limit" + ofKey(limit) + " exceeded: " + inCalls(limit) + ". It resets at " + resets + "."
		members += `,"resets_at":"` + resets + `"`
	}
	f.header = []field{
		retryAfter(strconv.FormatInt(seconds, 10)),
		{"Ratelimit-Policy", c.rateLimitPolicy()},
		{"Ratelimit", strings.Clone(c.rateLimit())},
	}
	return withMembers(f, members)
}

// longestWait returns the limit that refuses the call for the longest time, and
// that time. Of equal waits, the longer period decides, then the account: its
// limits are before those of the key.
func (c *Call) longestWait() (longest store.Limit, wait time.Duration) {
	for i, limit := range c.limits {
		if c.rooms[i].Remaining >= c.cost {
			continue
		}
		var w time.Duration
		if limit.Period.IsPace() {
			w = limit.Wait(c.rooms[i], c.cost)
		} else {
			w = c.span(limit.Period).End.Sub(c.began)
		}
		if w > wait || w == wait && limit.Period > longest.Period {
			longest, wait = limit, w
		}
	}
	return longest, wait
}

// checkCost refuses a call that costs more than a limit can ever admit. A limit
// of 0 refuses each call with 429 instead, whatever the call costs.
func (c *Call) checkCost() *Refusal {
	for _, limit := range c.limits {
		if limit.Max > 0 && limit.Max < c.cost {
			cost := strconv.FormatInt(c.cost, 10)
			return withMembers(&Refusal{
				Status: http.StatusForbidden, Code: "cost_above_limit", outcome: NotEntitled,
				Message: "The call costs " + cost + " and can never be admitted: the limit" + ofKey(limit) + " is " + inCalls(limit) + ".",
			}, limitMembers(limit)+`,"cost":`+cost)
		}
	}
	return nil
}

// withMembers completes a refusal with further members. The names of endpoints
// need no escapes in JSON.
func withMembers(f *Refusal, members string) *Refusal {
	return prepared(f, []byte(`{"message":"`+f.Message+`","code":"`+f.Code+`",`+members+`}`))
}

// limitMembers returns the members that describe a limit.
func limitMembers(l store.Limit) string {
	of := "account"
	if l.OfKey {
		of = "key"
	}
	return `"endpoint":"` + l.Endpoint + `","period":"` + l.Period.String() + `","limit":` + strconv.FormatInt(l.Max, 10) + `,"of":"` + of + `"`
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
	return plural(int(l.Max), "call") + period + " to " + endpoints
}

func ofKey(l store.Limit) string {
	if l.OfKey {
		return " of this key"
	}
	return ""
}
