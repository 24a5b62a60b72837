package gate

import (
	"log/slog"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate/answer"
	"github.com/caddy-tollgate/tollgate/internal/gate/credential"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// refuse reports and writes a refusal. The account is empty if it is not known.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, account string, e *policy.Endpoint, f *refusal.Refusal) error {
	g.report(account, e, f)
	return g.write(w, r, e, f)
}

// refuse refuses a call that was passed to the next handler. A call that
// shadow passes is reported already, and Answered counts one that failed.
func (c *Call) refuse(w http.ResponseWriter, f *refusal.Refusal) error {
	c.mark.refusal = f
	if !c.uncounted && f.Outcome != outcome.Failed {
		c.gate.report(c.grant.Account, c.endpoint, f)
	}
	return c.gate.write(w, c.request, c.endpoint, f)
}

// report counts a refusal. An answer for a service that has failed is no
// refusal of the request.
func (g *Gate) report(account string, e *policy.Endpoint, f *refusal.Refusal) {
	g.Server.Count(e, f.Outcome)
	if f.Outcome != outcome.Failed {
		g.Reporter.Refused(account, e, f.Code, f.Reason)
	}
}

// write writes a refusal. All refusals are written here. The owner of the
// answer gets the status of the refusal, which gRPC does not send. With
// policy.ErrorsPass it only sets the headers, and returns the refusal as an error.
func (g *Gate) write(w http.ResponseWriter, r *http.Request, e *policy.Endpoint, f *refusal.Refusal) error {
	vary, form := "", g.Policy.Errors
	if e != nil {
		vary, form = g.vary, e.Errors
	}
	_, read := r.Body.(*request.Buffered)
	a, begun := w.(*answer.Writer)
	if !read && (!begun || a.Passage.Body == nil) { // otherwise the answer does it
		apierror.CloseUnread(w, r)
	}
	if g.Policy.TokenBasic && f.Status == http.StatusUnauthorized && !isBrowser(r.Header) {
		f = f.OfferBasic()
	}
	switch form {
	case policy.ErrorsOpenAI:
		f = f.ForOpenAI()
	case policy.ErrorsPass:
		f.SetHeader(w.Header(), vary)
		g.removeSecrets(r)
		return f
	}
	mark := g.Server.Mark(r)
	if begun {
		a.Begin(f.Status)
	} else {
		mark.requestID = g.Server.RequestID(r, f.IsSame())
	}
	if err := f.Write(w, r, vary, mark.requestID, g.isForm); err != nil {
		g.Logger.Debug("writing a refusal", zap.Int("status", f.Status), zap.Error(err))
	}
	return nil
}

// isBrowser tells whether a browser sent a request. It would open a password
// window, also for the calls of a page, and then send the password with the
// requests of pages of other sites.
func isBrowser(h http.Header) bool {
	return apierror.PrefersHTML(h) || h["Sec-Fetch-Mode"] != nil
}

// isForm reports whether a web form sent a login: outside the guard, a GET
// of the same address shows the form.
func (g *Gate) isForm(r *http.Request) bool {
	to, found := g.Policy.Routes.Match(r.Method, r.URL.Path)
	return found && to.Login && !g.Policy.Guard.Covers(r.URL.Path)
}

// removeSecrets removes from a request what an error route must not pass on: the
// token, the session, and what the client says about the connection.
func (g *Gate) removeSecrets(r *http.Request) {
	g.credentials.Remove(r.Header, nil)
	delete(r.Header, "Connection")
	delete(r.Header, "Upgrade")
	if credential.InQuery(r.URL.RawQuery) {
		g.Server.RemoveQuery(r)
	}
}

// bodyFault returns the refusal of a request whose body was broken or too long
// for the next handler, which ended with err; nil for any other.
func (g *Gate) bodyFault(body *request.Body, err error) *refusal.Refusal {
	if fault := body.Fault(); fault != nil {
		return fault
	}
	if err != nil && g.Server.Status(err) == http.StatusRequestEntityTooLarge {
		return refusal.LongBody
	}
	return nil
}

// shareAnswer returns the writer of an answer if the gate decides which pages
// may read it: below a guard. In mode shadow the service decides, but for the
// gate's own endpoint. It answers a preflight to a path that has a route.
func (g *Gate) shareAnswer(w http.ResponseWriter, r *http.Request, d *decision) (c *answer.CORS, answered bool) {
	e := d.Endpoint
	method, asks := answer.Preflight(r)
	if asks {
		to, _ := g.Policy.Routes.Match(method, d.Path)
		e = to.Endpoint
	}
	if !d.Closed || !g.enforces(e) {
		return nil, false
	}
	c = answer.NewCORS(w, r, g.Policy)
	methods := g.Policy.Routes.Allow(&d.Target)
	if !asks || methods == "" || d.refusal == refusal.BadPath {
		return c, false
	}
	g.Server.Count(nil, outcome.Preflight)
	c.Preflight(r, methods)
	return c, true
}

// A call whose body is broken or too long stays counted: the service may
// have worked for it, and a client could repeat it without limit.
func (c *Call) fail(err error) error {
	if fault := c.gate.bodyFault(c.answer.Passage.Body, err); fault != nil {
		c.settleByEnd(false)
		c.settled = true // also if errors of the service are given back: this is none
		return c.refuse(&c.answer, fault)
	}
	c.unanswered = true // a service behind that handler may have worked
	status := c.gate.Server.Status(err)
	f := refusal.Unanswered(status)
	if c.endpoint.Refund != policy.RefundNever && (f != nil || c.isRefusedBehind(status)) {
		c.refund()
	}
	if f != nil {
		logFailure(c.gate.outages.upstream[c.endpoint.Index], unquoted(err), append(c.logAttrs()[1:], slog.Int("status", status))...)
		if c.endpoint.Errors != policy.ErrorsPass {
			return c.refuse(&c.answer, f)
		}
	}
	c.answer.Begin(status)
	return err
}
