package gate

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// entitlement is what a plan gives to an endpoint, with caches of header
// fields and refusals that most calls have in common.
type entitlement struct {
	gate     *Gate
	endpoint *policy.Endpoint
	plan     *policy.Plan  // nil without one
	listed   bool          // the plan lists the endpoint
	limits   []store.Limit // none if unlimited
	items    []string      // the names of the limits in RateLimit fields; each but the first begins with a comma

	policy    atomic.Pointer[policyField]
	exhausted atomic.Pointer[exhaustion]
}

// maxLimits is the largest number of limits of a call.
const maxLimits = 1

func (g *Gate) entitlementsOf(plan *policy.Plan) []entitlement {
	all := make([]entitlement, len(g.Policy.Endpoints))
	for i, e := range g.Policy.Endpoints {
		all[i].gate, all[i].endpoint, all[i].plan = g, e, plan
		limit, listed := plan.Limit(e)
		all[i].listed = listed
		if listed && limit != store.Unlimited {
			all[i].limits = []store.Limit{{Period: store.Day, Max: limit}}
			all[i].items = []string{`"` + e.Name + `"`}
		}
	}
	return all
}

// policyField is a RateLimit-Policy field. It changes with the length of
// the day.
type policyField struct {
	day   *calendar.Span
	value string
}

// rateLimitPolicy is the field RateLimit-Policy
// (draft-ietf-httpapi-ratelimit-headers). It has the number of calls of each
// limit and the length of its period in seconds.
func (c *Call) rateLimitPolicy() string {
	last := c.policy.Load()
	if last != nil && last.day == c.day {
		return last.value
	}
	var b []byte
	for i, limit := range c.limits {
		b = append(b, c.items[i]...)
		b = strconv.AppendInt(append(b, ";q="...), min(limit.Max, maxInteger), 10)
		b = strconv.AppendInt(append(b, ";w="...), int64(c.day.Length()/time.Second), 10)
	}
	c.policy.Store(&policyField{c.day, string(b)})
	return string(b)
}

// rateLimit is the field RateLimit. It has the remaining calls of each limit
// and the seconds until its period ends. Use it once: the text is in the
// call's own memory, which saves a tenth of the gate's time, and must not
// change afterwards.
func (c *Call) rateLimit() string {
	b := c.text[:0]
	for i := range c.limits {
		b = append(b, c.items[i]...)
		b = strconv.AppendInt(append(b, ";r="...), min(c.remaining[i], maxInteger), 10)
		b = strconv.AppendInt(append(b, ";t="...), c.day.RetryAfter(c.began), 10)
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// maxInteger is the largest integer of a structured field (RFC 9651,
// 3.3.1), one below the largest limit.
const maxInteger = 999_999_999_999_999

// exhaustion is the refusal of a call without calls left. Within a second
// it is the same for all accounts on a plan.
type exhaustion struct {
	day     *calendar.Span
	seconds int64
	refusal *Refusal
}

// refuseExhausted refuses a call that a limit does not admit.
func (c *Call) refuseExhausted() *Refusal {
	seconds := c.day.RetryAfter(c.began)
	last := c.exhausted.Load()
	if last == nil || last.day != c.day || last.seconds != seconds {
		last = &exhaustion{c.day, seconds, c.exhaustedFor(seconds)}
		c.exhausted.Store(last)
	}
	return last.refusal
}

// exhaustedFor makes the refusal from the limit in the way.
func (c *Call) exhaustedFor(seconds int64) *Refusal {
	i := 0
	for c.remaining[i] >= callCost && i+1 < len(c.limits) {
		i++
	}
	limit := strconv.FormatInt(c.limits[i].Max, 10)
	resets := c.day.End.Format(time.RFC3339)
	message := "Daily API limit exceeded: " + limit + " calls a day to " + c.endpoint.Name + ". It resets at " + resets + "."
	// Names need no escapes in JSON.
	body := `{"message":"` + message + `","code":"quota_exceeded","endpoint":"` + c.endpoint.Name + `","limit":` + limit + `,"resets_at":"` + resets + `"}`
	return prepared(&Refusal{
		Status: http.StatusTooManyRequests, Code: codeExhausted, Message: message, outcome: Exhausted,
		notice: "The limit is " + limit + " calls a day to " + c.endpoint.Name + ".", reset: clock(c.day.End),
		header: []field{
			retryAfter(strconv.FormatInt(seconds, 10)),
			{"Ratelimit-Policy", c.rateLimitPolicy()},
			{"Ratelimit", strings.Clone(c.rateLimit())},
		},
	}, []byte(body))
}
