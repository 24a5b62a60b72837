package gate

import (
	"bytes"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
)

// form is a refusal as JSON, as a page or for gRPC.
type form struct {
	status int
	header []field // beside the refusal's own
	body   []byte
	// negotiated says that the client's Accept chose this form.
	negotiated bool
}

func newForm(status int, contentType string, body []byte) form {
	return form{status: status, body: body, header: []field{
		{"Content-Type", contentType},
		{"Content-Length", strconv.Itoa(len(body))},
	}}
}

// refuse reports and writes a refusal. The account is empty if it is not known.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, account string, e *policy.Endpoint, f *Refusal) error {
	g.report(account, e, f)
	return g.write(w, r, e, f)
}

// report counts a refusal. An answer for an upstream that has failed is no
// refusal of the request.
func (g *Gate) report(account string, e *policy.Endpoint, f *Refusal) {
	g.Server.Count(e, f.outcome)
	if f.outcome != Failed {
		g.Reporter.Refused(account, e, f.Code)
	}
}

// write writes a refusal. All refusals are written here.
func (g *Gate) write(w http.ResponseWriter, r *http.Request, e *policy.Endpoint, f *Refusal) error {
	if f == refuseNotFound {
		f = g.notFound
	}
	as, vary := g.formOf(r, f), ""
	if e != nil {
		vary = g.vary
	}
	f.setHeader(w.Header(), as, vary)
	_, read := r.Body.(readBody)
	if a, ok := w.(*answer); !read && (!ok || a.body == nil) { // otherwise the answer does it
		apierror.CloseUnread(w, r)
	}
	if g.PassErrors {
		g.removeSecrets(r)
		return f
	}
	// The owner gets the status of the refusal, which gRPC does not send.
	if a, ok := w.(*answer); ok {
		a.begin(f.Status)
	}
	w.WriteHeader(as.status)
	if r.Method == http.MethodHead || len(as.body) == 0 {
		return nil
	}
	if _, err := w.Write(as.body); err != nil {
		g.Logger.Debug("writing a refusal", zap.Int("status", f.Status), zap.Error(err))
	}
	return nil
}

// formOf chooses the form of a refusal by the client's headers.
func (g *Gate) formOf(r *http.Request, f *Refusal) form {
	switch {
	case g.PassErrors:
		return form{} // handle_errors writes the body
	case isGRPC(r.Header):
		return f.grpc()
	case apierror.PrefersHTML(r.Header):
		return g.page(r, f)
	}
	return f.json
}

// setHeader sets the headers of a refusal, as copies for this answer:
// servers have handlers that change the values of headers in place.
func (f *Refusal) setHeader(h http.Header, as form, vary string) {
	values := make([]string, 0, len(f.header)+len(as.header)+1)
	for _, lines := range [...][]field{f.header, as.header} {
		for _, line := range lines {
			values = append(values, line.value)
			h[line.name] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	switch {
	case vary == "":
	case len(h["Vary"]) == 0:
		values = append(values, vary)
		h["Vary"] = values[len(values)-1 : len(values) : len(values)]
	default:
		varyBy(h, vary)
	}
	if as.negotiated {
		varyBy(h, "Accept")
	}
}

// readBody is the body of a request that the gate has read to its end.
type readBody struct {
	*bytes.Reader
	text []byte
}

func newReadBody(text []byte) readBody { return readBody{bytes.NewReader(text), text} }

// Close does nothing.
func (readBody) Close() error { return nil }
