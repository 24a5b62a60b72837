package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/usage"
)

// Call is one identified request to an endpoint. It is the only thing
// that a request allocates besides what the server does with it, so it
// also holds the memory of the headers that it sets. It lives as long as
// the request does and can be asked afterwards, which is why none is used
// again. Each word of it costs all requests: it has 384 bytes.
type Call struct {
	*terms  // without a plan until the call is entitled
	store   store.Store
	request *http.Request
	writer  http.ResponseWriter // of the answer
	began   time.Time
	path    string // asked for: handlers behind the gate may rewrite it

	// Of the grant.
	account, planName, key, keyName string
	handle                          store.Handle

	effective *policy.Effective // known once the call is entitled

	// Known once a call was asked for and counted or refused; day is nil
	// before.
	day       *calendar.Span
	remaining int64
	remains   [1]int64 // of terms.limits

	body    *body // nil for a request without one
	status  int16 // of the answer; 0 while there is none
	headers int16 // of the answer, when it began
	history int16 // days of it that a call to usage asks for
	head    bool  // HEAD was asked for where the endpoint has GET
	settled bool  // it is decided whether the call is given back

	values [9]string // of the headers that are set, each in a place of its own
	text   [40]byte  // of RateLimit, if the endpoint's name is not too long
}

// The places of headers in Call.values.
const (
	atAccount = iota
	atPlan
	atKey
	atAbilities
	atAssertion
	atQuotaPolicy
	atRateLimit
	atCacheControl
	atVary
)

// header sets a header to a value that belongs to this call: servers have
// handlers that edit the values of headers in place.
func (c *Call) header(h http.Header, name string, at int, value string) {
	c.values[at] = value
	h[name] = c.values[at : at+1 : at+1]
}

// Lookup returns the value of one of the gate's placeholders.
func (c *Call) Lookup(name string) (any, bool) {
	switch name {
	case "http.auth.user.id":
		return c.account, true
	case "http.tollgate.endpoint":
		return c.endpoint.Name, true
	case "http.tollgate.plan":
		return c.planName, true
	case "http.tollgate.key":
		return c.key, true
	case "http.tollgate.limit":
		return c.number(c.limit), true
	case "http.tollgate.remaining":
		if c.day == nil {
			return "", true
		}
		return c.number(c.remaining), true
	}
	return nil, false
}

// number is a number of calls for people.
func (c *Call) number(n int64) any {
	switch {
	case c.plan == nil:
		return ""
	case c.limit == store.Unlimited:
		return "unlimited"
	}
	return n
}

// serve hands an admitted call on and looks at what became of it.
func (c *Call) serve(w http.ResponseWriter, r *http.Request, said seen, next Handler) error {
	c.writer = w
	a := (*answer)(c)
	// Also when the handler panics, as a proxy does whose upstream breaks
	// off in the middle of an answer. Before the answer, that is an error
	// of the server.
	otherwise := http.StatusInternalServerError
	defer func() {
		a.begin(otherwise)
		// Trailers that the handler has set since then are in addition: the
		// headers are looked through again only if their number differs.
		if h := a.Header(); len(h) != int(c.headers) {
			stripTrailers(h)
		}
		if c.status != http.StatusSwitchingProtocols {
			c.record(int(c.status))
		}
	}()
	if c.endpoint.Usage {
		return c.serveUsage(a, r)
	}
	c.identify(r, said)
	err := next.ServeHTTP(a, r)
	if err != nil || c.body.fault() != nil {
		c.gate.unmark(r)
		if c.status == 0 {
			return c.fail(r, err)
		}
	}
	otherwise = http.StatusOK // net/http's, for a handler that wrote nothing
	if c.status != statusClientGone {
		c.gate.outages.upstream[c.endpoint.Index].Worked()
	}
	return err
}

// fail answers for an upstream that did not. What the gate has no words
// for goes on to the server, with the headers of a gated answer.
//
// A call whose body is broken or too long stays counted: the upstream may have
// worked for it, and a client could repeat that as often as it likes.
func (c *Call) fail(r *http.Request, err error) error {
	if fault := c.gate.fault(c.body, err); fault != nil {
		(*answer)(c).begin(fault.Status)
		return c.gate.refuse((*answer)(c), r, c.endpoint, fault)
	}
	status := c.gate.Server.Status(err)
	c.settle(status, false)
	refusal := unanswered(status)
	if refusal != nil {
		failed(c.gate.outages.upstream[c.endpoint.Index], err, slog.Int("status", status))
		if !c.gate.PassErrors {
			return c.gate.refuse((*answer)(c), r, c.endpoint, refusal)
		}
	}
	(*answer)(c).begin(status)
	return err
}

// identify tells the upstream whose call this is, and takes away what it
// must not see.
func (c *Call) identify(r *http.Request, said seen) {
	h := r.Header
	// Before anything is added: up to eight fields are a small map.
	delete(h, "Authorization")
	if said.cookie {
		delete(h, "Cookie")
	}
	c.header(h, "Tollgate-Account", atAccount, c.account)
	c.header(h, "Tollgate-Plan", atPlan, c.planName)
	c.header(h, "Tollgate-Key", atKey, c.key)
	c.header(h, "Tollgate-Abilities", atAbilities, c.effective.Abilities)
	by := assertion.Caller{Account: c.account, Plan: c.planName, Key: c.key, Abilities: c.effective.Abilities}
	c.header(h, assertion.Header, atAssertion, c.gate.Assertions.Call(said.token, r.Host, by, c.began))
	c.gate.prove(h)
	c.gate.Server.Mark(r, c)
	c.body = watchBody(r)
}

// statusClientGone is what Caddy's proxy answers with to a client that
// has gone away. It says nothing about the upstream.
const statusClientGone = 499

// settle decides, once, whether the call is given back. It is not if the
// client went away before the answer (499): the upstream has worked for
// it.
func (c *Call) settle(status int, answered bool) {
	if c.settled {
		return
	}
	c.settled = true
	switch c.gate.Policy.Refund {
	case policy.RefundUnreachable:
		if !answered && unanswered(status) != nil {
			c.refund()
		}
	case policy.RefundServerErrors:
		if status >= 500 {
			c.refund()
		}
	}
}

// refund gives the call back, whether or not the client still waits.
func (c *Call) refund() {
	c.gate.unmark(c.request)
	if err := c.store.GiveBack(context.WithoutCancel(c.request.Context()), c.counter()); err != nil {
		failed(c.gate.outages.refund, err, slog.String("endpoint", c.endpoint.Name))
		return
	}
	c.gate.outages.refund.Worked()
	c.remaining = min(c.limit, c.remaining+1)
	c.gate.Server.Count(c.endpoint, Refunded)
}

// record notes the call for the account's list of recent calls.
func (c *Call) record(status int) {
	c.store.Record(store.Record{
		Account: c.account, Key: c.key, KeyName: c.keyName, At: c.began,
		Endpoint: c.endpoint.Name, Method: c.method(), Path: c.path,
		Status: status, Duration: c.gate.Since(c.began), Handle: c.handle,
	})
}

// method is what was asked with: a route is matched by its own method,
// and that of GET also by HEAD.
func (c *Call) method() string {
	if c.head {
		return http.MethodHead
	}
	return c.endpoint.Method
}

// serveUsage answers the gate's own endpoint.
func (c *Call) serveUsage(w http.ResponseWriter, r *http.Request) error {
	doc, err := usage.Build(r.Context(), c.gate.Policy, c.store, c.account, c.planName, c.began, int(c.history))
	if err != nil {
		c.settled = true
		c.refund() // it is the gate itself that failed
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
func usageDays(r *http.Request) (days int16, refusal *Refusal) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return 0, invalidDays
	}
	for name, values := range query {
		n, err := strconv.Atoi(values[0])
		if name != "days" || len(values) != 1 || err != nil || n < 1 || n > api.MaxUsageDays {
			return 0, invalidDays
		}
		days = int16(n)
	}
	return days, nil
}

// rateLimit is the RateLimit header of this call. To be had once: the
// text stands in the call itself and must not change afterwards.
func (c *Call) rateLimit() string {
	b := appendQuota(c.text[:0], c.endpoint.Name, c.remaining, c.day.RetryAfter(c.began))
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// appendQuota appends what is left of a quota and the seconds until it
// is full again, in the form of draft-ietf-httpapi-ratelimit-headers.
func appendQuota(b []byte, name string, remaining, seconds int64) []byte {
	b = append(append(append(b, '"'), name...), `";r=`...)
	b = strconv.AppendInt(b, min(remaining, maxInteger), 10)
	return strconv.AppendInt(append(b, ";t="...), seconds, 10)
}

// maxInteger is the largest integer of a structured field (RFC 9651,
// 3.3.1), one below the largest limit.
const maxInteger = 999_999_999_999_999

// terms are what a plan gives to an endpoint, and what the gate last said
// of them: the next answer mostly says the same. They are made with the
// gate, for each plan and endpoint and for each endpoint without a plan.
type terms struct {
	gate     *Gate
	endpoint *policy.Endpoint
	plan     *policy.Plan // nil without one
	limit    int64
	limits   []store.Limit

	policy    atomic.Pointer[dayField]
	exhausted atomic.Pointer[exhaustion]
}

// dayField is a RateLimit-Policy header, which changes with the length of
// the day only.
type dayField struct {
	day   *calendar.Span
	value string
}

// quotaPolicy is the RateLimit-Policy header of this call: so many calls
// within a window of the day's true length.
func (c *Call) quotaPolicy() string {
	last := c.policy.Load()
	if last != nil && last.day == c.day {
		return last.value
	}
	value := `"` + c.endpoint.Name + `";q=` + strconv.FormatInt(min(c.limit, maxInteger), 10) + ";w=" + strconv.FormatInt(int64(c.day.Length()/time.Second), 10)
	c.policy.Store(&dayField{c.day, value})
	return value
}
