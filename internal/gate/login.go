package gate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate/answer"
	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// maxLoginBody is the largest body of a login, in bytes.
const maxLoginBody = 4 << 10

// loggingIn marks a login that the gate has passed.
var loggingIn = new(Call)

// IsLogin tells whether the call is a login, which has no account.
func (c *Call) IsLogin() bool { return c == loggingIn }

// login serves a request that checks a password. The limits of attempts
// apply before the service sees it, and the service's answer decides
// whether it counts as a failure.
//
// At a strict login, a success counts for the client like a failure.
func (g *Gate) login(w http.ResponseWriter, r *http.Request, d *decision, next Handler) (err error) {
	defer func() {
		if err != nil { // the password is not for an error route
			g.removeSecrets(r)
			r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
		}
	}()
	attempt, f := g.reserveAttempt(w, r, d)
	if f != nil {
		return g.refuse(w, r, "", nil, f)
	}
	l := &loginAnswer{ResponseWriter: w, gate: g, mark: d.mark, request: r, attempt: attempt}
	return l.pass(d.facts, next)
}

// reserveAttempt reserves a login attempt, or refuses it.
func (g *Gate) reserveAttempt(w http.ResponseWriter, r *http.Request, d *decision) (*login.Attempt, *refusal.Refusal) {
	email, f := loginAccount(w, r)
	if f != nil {
		return nil, f
	}
	limiter, err := g.Limiter()
	if err != nil {
		g.Server.CountLogin(outcome.LoginUnavailable)
		return nil, g.storeFailed(err, false)
	}
	limits := g.Policy.LoginLimits
	limits.Strict = d.Strict
	attempt, wait, err := limiter.Reserve(r.Context(), limits, login.ClientOf(d.mark.Client), login.AccountOf(email))
	switch {
	case err != nil:
		logFailure(g.outages.attempts, err)
		g.Server.CountLogin(outcome.LoginUnavailable)
		return nil, refusal.Unavailable
	case attempt == nil:
		g.Server.CountLogin(outcome.LoginThrottled)
		return nil, refusal.ManyLogins(wait)
	}
	return attempt, nil
}

// loginAnswer owns the answer of a login attempt.
type loginAnswer struct {
	http.ResponseWriter
	gate    *Gate
	mark    *Mark
	request *http.Request
	attempt *login.Attempt
}

// pass passes the attempt on. If the next handler has not answered, the gate
// does: with 400 or 413 if the client broke its body, and with 502, 503 or 504
// after such an error. Other errors go on to the server.
func (l *loginAnswer) pass(facts request.Facts, next Handler) error {
	g, r := l.gate, l.request
	l.mark.requestID = g.Server.RequestID(r, true)
	a := &answer.Writer{ResponseWriter: l.ResponseWriter, Owner: l, AnswersBroken: true}
	a.Passage.Begin(r, facts, request.Connection)
	r.Header[assertion.Header] = []string{g.Assertions.Login(r.Host, g.Now())}
	l.mark.call.Store(loggingIn)
	defer a.End(0) // the handler wrote nothing, or panicked
	err := next.ServeHTTP(a, r)
	a.Passage.End(true)
	if a.ClientGone(r) {
		return nil
	}
	if err == nil && a.Passage.Body.Fault() == nil {
		g.outages.login.Worked()
		return nil
	}
	if a.Status != 0 {
		return err
	}
	status := g.Server.Status(err)
	if status == http.StatusUnauthorized {
		a.Begin(status) // an error route will write the answer to a wrong password
	}
	if fault := g.bodyFault(a.Passage.Body, err); fault != nil {
		return g.refuse(a, r, "", nil, fault)
	}
	f := refusal.Unanswered(status)
	if f == nil {
		return err
	}
	logFailure(g.outages.login, unquoted(err), slog.Int("status", status))
	if g.Policy.Errors == policy.ErrorsPass {
		a.Begin(status) // the attempt ends
		return err
	}
	return g.refuse(a, r, "", nil, f)
}

// Answered implements answer.Owner. 401 is a failed attempt; 2xx, or the 303
// after a web form, is a successful one; any other status says nothing about
// the password. A login that ends with an error never succeeds. If the client
// has left, the attempt stays a failure: the service may check the password.
func (l *loginAnswer) Answered(status int) {
	l.mark.call.Store(nil)
	header.Strip(l.Header())
	ctx := context.WithoutCancel(l.request.Context())
	result := outcome.LoginAbandoned
	switch {
	case status == http.StatusUnauthorized:
		result = outcome.LoginFailed
		l.attempt.Failed()
		l.settled(nil)
	case status >= 200 && status < 300 || status == http.StatusSeeOther:
		result = outcome.LoginSucceeded
		l.settled(l.attempt.Succeeded(ctx))
	case l.request.Context().Err() != nil:
		l.attempt.Failed()
		l.settled(nil)
	default:
		if status >= http.StatusInternalServerError {
			result = outcome.LoginUnavailable
		}
		l.gate.settle(true, func(tried func()) {
			l.settled(l.attempt.Abandoned(ctx))
			tried()
		})
	}
	l.gate.Server.CountLogin(result)
}

// settled logs whether the outcome of the attempt is saved.
func (l *loginAnswer) settled(err error) {
	if err != nil {
		logFailure(l.gate.outages.attempts, err)
		return
	}
	l.gate.outages.attempts.Worked()
}

// loginAccount reads the e-mail of a login request and restores the body.
// It is strict, so that gate and upstream always read the same account: no
// duplicate member in any spelling, none in the query, no data after the
// end, no content coding. The coding identity is none (RFC 9110, 8.4.1).
func loginAccount(w http.ResponseWriter, r *http.Request) (string, *refusal.Refusal) {
	const formType = "application/x-www-form-urlencoded"
	if !apierror.IsText(r.Header, "application/json", formType) {
		return "", refusal.LoginType
	}
	if emails, passwords, err := readForm(r.URL.RawQuery); err != nil || len(emails)+len(passwords) > 0 {
		return "", refusal.LoginBody
	}
	read := formEmail
	if apierror.IsJSON(r.Header) {
		read = jsonEmail
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLoginBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return "", refusal.LoginBodySize
	}
	if err != nil {
		return "", refusal.LoginBody
	}
	email, ok := read(body)
	if !ok {
		return "", refusal.LoginBody
	}
	request.SetBody(r, body)
	return email, nil
}

// jsonEmail reads the member email. The decoder refuses duplicate names,
// invalid UTF-8, wrong types and data after the object. It reads "EMAIL" as
// email, because upstreams in several languages do.
func jsonEmail(body []byte) (string, bool) {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return "", false // null decodes into any type
	}
	var values struct {
		Email    jsontext.Value `json:"email"`
		Password jsontext.Value `json:"password"`
	}
	if err := json.Unmarshal(body, &values, json.MatchCaseInsensitiveNames(true)); err != nil {
		return "", false
	}
	for _, value := range []jsontext.Value{values.Email, values.Password} {
		if len(value) > 0 && value.Kind() != '"' {
			return "", false
		}
	}
	if len(values.Email) == 0 {
		return "", true
	}
	email, err := jsontext.AppendUnquote(nil, values.Email)
	return string(email), err == nil
}

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

// isLoginAlias tells whether a server could serve one of the readings of a path
// as a login, that is no route: for a lenient server, or before a rewrite. It
// would bypass the limits of login attempts.
func (g *Gate) isLoginAlias(r *http.Request, d *decision) bool {
	alias := func(path string) bool { return g.Policy.IsLoginAlias(request.Method(r), path) }
	return alias(r.URL.Path) || d.Written != "" && alias(d.Written) || slices.ContainsFunc(d.Names, alias)
}
