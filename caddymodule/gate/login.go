package gate

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/throttle"
)

// maxLoginBody is the size of the largest login request, in bytes.
const maxLoginBody = 4 << 10

// login is the way of a request that checks a password: throttled before
// the upstream sees it, and settled by what the upstream answers.
func (g *Gate) login(w http.ResponseWriter, r *http.Request, next Handler) error {
	email, refusal := loginAccount(w, r)
	if refusal != nil {
		return g.refuse(w, r, nil, refusal)
	}
	guard, err := g.Throttle()
	if err != nil {
		return g.unavailable(w, r, nil, err)
	}
	client := throttle.ClientKey(g.Server.Client(r))
	attempt, wait, err := guard.Reserve(r.Context(), g.Now(), g.Policy.LoginLimits, client, throttle.AccountKey(email))
	if err != nil {
		return g.unavailable(w, r, nil, err)
	}
	if attempt == nil {
		return g.refuse(w, r, nil, throttled(wait))
	}
	r.Header["Tollgate-Proof"] = g.proof
	answer := &loginAnswer{ResponseWriter: w}
	// Also when the handler panics: an attempt that is never settled
	// stands as a failure.
	defer func() { g.settleLogin(r, attempt, answer.status) }()
	return next(answer, r)
}

// settleLogin tells the throttle what the upstream answered: 401 is a
// failure; a 2xx, or the 303 with which a web form sends a person on, is
// a success; anything else says nothing about the password.
func (g *Gate) settleLogin(r *http.Request, attempt *throttle.Attempt, status int) {
	var err error
	switch {
	case status == http.StatusUnauthorized:
		attempt.Failed()
	case status >= 200 && status < 300 || status == http.StatusSeeOther:
		err = attempt.Succeeded(r.Context(), g.Now())
	default:
		err = attempt.Abandoned(r.Context())
	}
	if err != nil {
		g.Logger.Error("settling a login attempt", zap.Error(err))
	}
}

// loginAccount reads the e-mail out of a login request and puts the body
// back. It is as strict as a gate must be that shall never understand
// another account than the upstream does: no member twice, nothing after
// the end, no encoding that hides the text.
func loginAccount(w http.ResponseWriter, r *http.Request) (string, *Refusal) {
	if len(r.Header["Content-Type"]) > 1 || r.Header.Get("Content-Encoding") != "" {
		return "", refuseMediaType
	}
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !isUTF8(parameters["charset"]) {
		return "", refuseMediaType
	}
	read := formEmail
	switch media {
	case "application/json":
		read = jsonEmail
	case "application/x-www-form-urlencoded":
	default:
		return "", refuseMediaType
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
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.TransferEncoding, r.Trailer = nil, nil
	return email, nil
}

func isUTF8(charset string) bool {
	switch charset {
	case "", "utf-8", "UTF-8", "utf8":
		return true
	}
	return false
}

// jsonEmail reads the member email. The decoder refuses duplicate names,
// invalid UTF-8, wrong types and whatever follows the object.
func jsonEmail(body []byte) (string, bool) {
	var request struct {
		Email    string `json:"email"`
		Password string `json:"password"`
	}
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return "", false // null would decode into anything
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return "", false
	}
	return request.Email, true
}

// formEmail reads the field email.
func formEmail(body []byte) (string, bool) {
	form, err := url.ParseQuery(string(body))
	if err != nil || len(form["email"]) > 1 || len(form["password"]) > 1 {
		return "", false
	}
	email := form.Get("email")
	return email, utf8.ValidString(email)
}

// loginAnswer is the ResponseWriter of a login: it sees the status.
type loginAnswer struct {
	http.ResponseWriter
	status int
}

// Unwrap gives http.ResponseController the writer below.
func (a *loginAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader notes the status of the final answer.
func (a *loginAnswer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write answers 200 if nothing was answered yet.
func (a *loginAnswer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}
