package gate

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/usage"
)

// Call is one identified request to an endpoint. It is the only thing
// that a request allocates besides what the server does with it, so it
// also holds the memory of the headers that it sets.
type Call struct {
	gate     *Gate
	store    store.Store
	endpoint *policy.Endpoint
	request  *http.Request
	began    time.Time
	grant    store.Grant

	// Known once the call is entitled.
	plan      *policy.Plan
	effective *policy.Effective
	limit     int64

	// Known once a call was asked for.
	day       calendar.Span
	remaining int64

	answer answer
	values [4]string // account, plan and key for the upstream; RateLimit
	text   [112]byte // of RateLimit
}

// Lookup returns the value of one of the gate's placeholders.
func (c *Call) Lookup(name string) (any, bool) {
	switch name {
	case "http.auth.user.id":
		return c.grant.Account, true
	case "http.tollgate.endpoint":
		return c.endpoint.Name, true
	case "http.tollgate.plan":
		return c.grant.Plan, true
	case "http.tollgate.key":
		return c.grant.Key, true
	case "http.tollgate.limit":
		return c.quota(c.limit), true
	case "http.tollgate.remaining":
		return c.quota(c.remaining), true
	}
	return nil, false
}

func (c *Call) quota(n int64) any {
	switch {
	case c.plan == nil:
		return ""
	case c.limit == store.Unlimited:
		return "unlimited"
	}
	return n
}

// serve hands an admitted call on and looks at what became of it.
func (c *Call) serve(w http.ResponseWriter, r *http.Request, next Handler) error {
	c.answer = answer{ResponseWriter: w, call: c}
	// Also when the handler panics, as a proxy does whose upstream breaks
	// off in the middle of an answer.
	defer func() { c.record(c.answer.recorded()) }()
	if c.endpoint.Usage {
		return c.serveUsage(&c.answer, r)
	}
	c.identify(r.Header)
	err := next(&c.answer, r)
	if err == nil || c.answer.status != 0 {
		c.settle(c.answer.status)
		return err
	}
	status := c.gate.Server.Status(err)
	c.answer.failed = status
	c.settleError(status)
	if refusal := unanswered(status); refusal != nil && !c.gate.PassErrors {
		c.gate.Logger.Error("calling the upstream", zap.String("endpoint", c.endpoint.Name), zap.Int("status", status), zap.Error(err))
		return c.gate.refuse(w, r, c.endpoint, refusal)
	}
	return err
}

// identify tells the upstream whose call this is, and takes away what it
// must not see.
func (c *Call) identify(h http.Header) {
	v := &c.values
	v[0], v[1], v[2] = c.grant.Account, c.grant.Plan, c.grant.Key
	h["Tollgate-Account"] = v[0:1:1]
	h["Tollgate-Plan"] = v[1:2:2]
	h["Tollgate-Key"] = v[2:3:3]
	h["Tollgate-Abilities"] = c.effective.Header
	h["Tollgate-Proof"] = c.gate.proof
	delete(h, "Authorization")
	delete(h, "Cookie")
}

// settle gives the call back if the upstream's answer asks for it.
func (c *Call) settle(status int) {
	if status >= 500 && c.gate.Policy.Refund == policy.RefundServerErrors {
		c.refund()
	}
}

// settleError gives the call back if no upstream answered. A client that
// goes away before the answer (499) has had the upstream's work.
func (c *Call) settleError(status int) {
	switch c.gate.Policy.Refund {
	case policy.RefundUnreachable:
		switch status {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			c.refund()
		}
	case policy.RefundServerErrors:
		if status >= 500 {
			c.refund()
		}
	}
}

func (c *Call) refund() {
	if err := c.store.GiveBack(c.request.Context(), c.counter()); err != nil {
		c.gate.Logger.Error("giving a call back", zap.String("endpoint", c.endpoint.Name), zap.Error(err))
		return
	}
	c.remaining = min(c.limit, c.remaining+1)
	c.gate.Server.Count(c.endpoint, Refunded)
}

// record notes the call for the account's list of recent calls.
func (c *Call) record(status int) {
	c.store.Record(store.Record{
		Account: c.grant.Account, Key: c.grant.Key, KeyName: c.grant.KeyName, At: c.began,
		Endpoint: c.endpoint.Name, Method: c.request.Method, Path: c.request.URL.Path,
		Status: status, Duration: c.gate.Now().Sub(c.began),
	})
}

// serveUsage answers the gate's own endpoint.
func (c *Call) serveUsage(w http.ResponseWriter, r *http.Request) error {
	days, refusal := usageDays(r)
	if refusal != nil {
		return c.gate.refuse(w, r, c.endpoint, refusal)
	}
	doc, err := usage.Build(r.Context(), c.gate.Policy, c.store, c.grant.Account, c.grant.Plan, c.began, days)
	if err != nil {
		c.refund()
		return c.gate.unavailable(w, r, c.endpoint, err)
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(doc); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err = w.Write(body.Bytes())
	if err != nil {
		c.gate.Logger.Debug("writing usage", zap.Error(err))
	}
	return nil
}

// usageDays reads the length of the history asked for. Nothing else can
// be asked.
func usageDays(r *http.Request) (int, *Refusal) {
	days := 0
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return 0, invalidDays
	}
	for name, values := range query {
		n, err := strconv.Atoi(values[0])
		if name != "days" || len(values) != 1 || err != nil || n < 1 || n > usage.MaxDays {
			return 0, invalidDays
		}
		days = n
	}
	return days, nil
}

// rateLimit writes the RateLimit header of this call. The text stands in
// the call itself and is not changed afterwards.
func (c *Call) rateLimit() []string {
	b := appendQuota(c.text[:0], c.endpoint.Name, c.remaining, c.day.RetryAfter(c.began))
	c.values[3] = unsafe.String(unsafe.SliceData(b), len(b))
	return c.values[3:4:4]
}

// appendQuota appends what is left of a quota and the seconds until it
// is full again, in the form of draft-ietf-httpapi-ratelimit-headers.
func appendQuota(b []byte, name string, remaining, seconds int64) []byte {
	b = append(append(append(b, '"'), name...), `";r=`...)
	b = strconv.AppendInt(b, remaining, 10)
	return strconv.AppendInt(append(b, ";t="...), seconds, 10)
}

// quotaPolicy is the quota as it is when it is full: so many calls within
// a window of a day's true length.
func quotaPolicy(name string, limit int64, window time.Duration) string {
	return `"` + name + `";q=` + strconv.FormatInt(limit, 10) + ";w=" + strconv.FormatInt(int64(window/time.Second), 10)
}

// policyField is a RateLimit-Policy header as it was last written for a
// plan and an endpoint: it changes with the length of the day only.
type policyField struct{ last atomic.Pointer[dayField] }

type dayField struct {
	length time.Duration
	values []string
}

// policyValues returns the RateLimit-Policy header of this call.
func (c *Call) policyValues() []string {
	f := &c.gate.policies[c.plan.Index][c.endpoint.Index]
	length := c.day.Length()
	if last := f.last.Load(); last != nil && last.length == length {
		return last.values
	}
	next := &dayField{length: length, values: []string{quotaPolicy(c.endpoint.Name, c.limit, length)}}
	f.last.Store(next)
	return next.values
}
