package refusal

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate/header"
)

// form is a refusal as JSON, as a page or for gRPC.
type form struct {
	status int
	fields []field // besides those of the refusal
	body   []byte
	// negotiated says that the client's Accept chose this form.
	negotiated bool
}

func newForm(status int, contentType string, body []byte) form {
	return form{status: status, body: body, fields: []field{
		{"Content-Type", contentType},
		{"Content-Length", strconv.Itoa(len(body))},
	}}
}

// SetHeader sets only the headers of the refusal, for a server that writes the
// body. vary lists the request headers that have tokens, or is "".
func (f *Refusal) SetHeader(h http.Header, vary string) { f.setHeader(h, form{}, vary) }

// with returns JSON with one more member, which begins with a comma.
func (as form) with(member string) form {
	return newForm(as.status, apierror.ContentType, slices.Concat(as.body[:len(as.body)-1], []byte(member+"}")))
}

// IsSame tells whether the refusal has the same bytes for all tokens and e-mails,
// so that it does not have the id of a request.
func (f *Refusal) IsSame() bool {
	return f.json.status == http.StatusUnauthorized || f.Code == codeThrottled
}

// Write writes the refusal in the form that the headers of the client ask for.
// The JSON has the id of the request, unless it is "" or IsSame. isForm tells
// whether a web form sent the request.
func (f *Refusal) Write(w http.ResponseWriter, r *http.Request, vary, id string, isForm func(r *http.Request) bool) error {
	var as form
	switch {
	case isGRPC(r.Header):
		as = f.grpc()
	case apierror.PrefersHTML(r.Header):
		as = f.page(isForm(r))
	case f.IsSame() || id == "":
		as = f.json
	default:
		as = f.json.with(`,"request_id":"` + id + `"`) // which needs no escapes
	}
	f.setHeader(w.Header(), as, vary)
	w.WriteHeader(as.status)
	if r.Method == http.MethodHead || len(as.body) == 0 {
		return nil
	}
	_, err := w.Write(as.body)
	return err
}

// setHeader sets the headers as copies for this answer: servers have handlers
// that change the values of headers in place.
func (f *Refusal) setHeader(h http.Header, as form, vary string) {
	values := make([]string, 0, len(f.fields)+len(as.fields)+1)
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	for _, fields := range [...][]field{f.fields, as.fields} {
		for _, field := range fields {
			set(field.name, field.value)
		}
	}
	if vary != "" && len(h["Vary"]) == 0 {
		set("Vary", vary)
	} else if vary != "" {
		header.VaryBy(h, vary)
	}
	if as.negotiated {
		header.VaryBy(h, "Accept")
	}
}
