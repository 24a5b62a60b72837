package gate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// maxLoginBody is the largest body of a login, in bytes.
const maxLoginBody = 4 << 10

// loggingIn marks a login that the gate has passed.
var loggingIn = new(Call)

// IsLogin tells whether the call is a login, which has no account.
func (c *Call) IsLogin() bool { return c == loggingIn }

// loginAnswer owns the answer of a login attempt.
type loginAnswer struct {
	http.ResponseWriter
	gate    *Gate
	request *http.Request // for the service
	attempt login.Attempt
}

// login serves a request that checks a password. The limits of attempts
// apply before the upstream sees it, and the upstream's answer decides
// whether it counts as a failure.
//
// At a strict login, a success counts for the client like a failure.
func (g *Gate) login(w http.ResponseWriter, r *http.Request, strict bool, held headers, next Handler) (err error) {
	defer func() {
		if err != nil { // the password is not for an error route
			g.removeSecrets(r)
			r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
		}
	}()
	email, refusal := loginAccount(w, r)
	if refusal != nil {
		return g.refuse(w, r, "", nil, refusal)
	}
	limiter, err := g.Limiter()
	if err != nil {
		g.Server.CountLogin(LoginUnavailable)
		return g.refuse(w, r, "", nil, g.storeFailed(err))
	}
	client := login.ClientOf(g.Server.Client(r))
	now := g.Now()
	limits := g.Policy.LoginLimits
	limits.Strict = strict
	attempt, wait, err := limiter.Reserve(r.Context(), now, limits, client, login.AccountOf(email))
	if err != nil {
		failed(g.outages.attempts, err)
		g.Server.CountLogin(LoginUnavailable)
		return g.refuse(w, r, "", nil, refuseUnavailable)
	}
	if attempt == nil {
		g.Server.CountLogin(LoginThrottled)
		return g.refuse(w, r, "", nil, manyAttempts("Too many login attempts. Try again later.", Throttled, wait))
	}
	f := held.forwarded(r)
	f.Header[assertion.Header] = []string{g.Assertions.Login(r.Host, now)}
	g.Server.Mark(r, loggingIn)
	a := new(answer)
	a.start(w, &loginAnswer{w, g, f, attempt}, nil)
	defer a.end(0) // the handler wrote nothing, or panicked
	err = next.ServeHTTP(a, f)
	if err == nil || a.status != 0 {
		g.outages.login.Worked()
		return err
	}
	status := g.Server.Status(err)
	if status == http.StatusUnauthorized {
		a.begin(status) // an error route will write the answer to a wrong password
	}
	if fault := g.fault(nil, err); fault != nil {
		return g.refuse(a, r, "", nil, fault)
	}
	if refusal := unanswered(status); refusal != nil {
		failed(g.outages.login, unquoted(err), slog.Int("status", status))
		if !g.PassErrors {
			return g.refuse(a, r, "", nil, refusal)
		}
	}
	return err
}

// begun implements owner. 401 is a failed attempt; 2xx, or the 303 after a
// web form, is a successful one; any other status says nothing about the
// password. A login that ends with an error never succeeds.
func (l *loginAnswer) begun(status int) {
	l.gate.unmark(l.request)
	strip(l.Header())
	var err error
	ctx := context.WithoutCancel(l.request.Context())
	switch {
	case status == http.StatusUnauthorized:
		l.attempt.Failed()
		l.gate.Server.CountLogin(LoginFailed)
	case status >= 200 && status < 300 || status == http.StatusSeeOther:
		err = l.attempt.Succeeded(ctx, l.gate.Now())
		l.gate.Server.CountLogin(LoginSucceeded)
	default:
		err = l.attempt.Abandoned(ctx)
		l.gate.Server.CountLogin(LoginAbandoned)
	}
	if err != nil {
		failed(l.gate.outages.attempts, err)
		return
	}
	l.gate.outages.attempts.Worked()
}

// loginAccount reads the e-mail of a login request and restores the body.
// It is strict, so that gate and upstream always read the same account: no
// duplicate member in any spelling, none in the query, no data after the
// end, no content coding. The coding identity is none (RFC 9110, 8.4.1).
func loginAccount(w http.ResponseWriter, r *http.Request) (string, *Refusal) {
	const formType = "application/x-www-form-urlencoded"
	if !apierror.IsText(r.Header, "application/json", formType) {
		return "", refuseMediaType
	}
	if emails, passwords, err := readForm(r.URL.RawQuery); err != nil || len(emails)+len(passwords) > 0 {
		return "", refuseBody
	}
	read := formEmail
	if apierror.IsJSON(r.Header) {
		read = jsonEmail
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLoginBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return "", refuseBodySize
	}
	if err != nil {
		return "", refuseBody
	}
	email, ok := read(body)
	if !ok {
		return "", refuseBody
	}
	r.Body = newReadBody(body)
	return email, nil
}

// jsonEmail reads the member email. The decoder refuses duplicate names,
// invalid UTF-8, wrong types and data after the object. It reads "EMAIL" as
// email, because upstreams in several languages do.
func jsonEmail(body []byte) (string, bool) {
	var request struct {
		Email    jsonString `json:"email"`
		Password jsonString `json:"password"`
	}
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return "", false // null decodes into any type
	}
	if err := json.Unmarshal(body, &request, json.MatchCaseInsensitiveNames(true)); err != nil {
		return "", false
	}
	return string(request.Email), true
}

// jsonString is a string that cannot be null.
type jsonString string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *jsonString) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	t, err := d.ReadToken()
	if err != nil {
		return err
	}
	if t.Kind() != '"' {
		return errNotString
	}
	*s = jsonString(t.String())
	return nil
}

var errNotString = errors.New("not a string")

// formEmail reads the field email.
func formEmail(body []byte) (string, bool) {
	emails, passwords, err := readForm(string(body))
	if err != nil || len(emails) > 1 || len(passwords) > 1 {
		return "", false
	}
	email := strings.Join(emails, "")
	return email, utf8.ValidString(email)
}

// readForm returns the fields of a login form in any spelling that some server
// reads: in any case, with space around.
func readForm(text string) (emails, passwords []string, err error) {
	values, err := url.ParseQuery(text)
	for name, fields := range values {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "email":
			emails = append(emails, fields...)
		case "password":
			passwords = append(passwords, fields...)
		}
	}
	return emails, passwords, err
}
