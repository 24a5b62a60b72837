package gate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// maxLoginBody is the size of the largest login request, in bytes.
const maxLoginBody = 4 << 10

// loggingIn marks a login that was let through.
var loggingIn = new(Call)

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
	client := login.ClientKey(g.Server.Client(r))
	now := g.Now()
	attempt, wait, err := guard.Reserve(r.Context(), now, g.Policy.LoginLimits, client, login.AccountKey(email))
	if err != nil {
		return g.unavailable(w, r, nil, err)
	}
	g.outages.store.Worked()
	if attempt == nil {
		return g.refuse(w, r, nil, throttled(wait))
	}
	r.Header[assertion.Header] = []string{g.Assertions.Login(r.Host, now)}
	g.prove(r.Header)
	g.Server.Mark(r, loggingIn)
	answer := &unmetered{ResponseWriter: w, settle: func(status int) { g.settleLogin(r, attempt, status) }}
	defer answer.end() // the handler wrote nothing, or panicked
	err = next.ServeHTTP(answer, r)
	if err == nil || answer.begun {
		g.outages.login.Worked()
		return err
	}
	status := g.Server.Status(err)
	if status == http.StatusUnauthorized {
		answer.begin(status) // a wrong password, which an error route will word
	}
	if fault := g.fault(nil, err); fault != nil {
		return g.refuse(answer, r, nil, fault)
	}
	if refusal := unanswered(status); refusal != nil {
		failed(g.outages.login, err, slog.Int("status", status))
		if !g.PassErrors {
			return g.refuse(answer, r, nil, refusal)
		}
	}
	return err
}

// settleLogin tells the throttle what the upstream answered: 401 is a
// failure; a 2xx, or the 303 with which a web form sends a person on, is
// a success; anything else says nothing about the password. A login that
// ends as an error can fail, and never succeeds.
func (g *Gate) settleLogin(r *http.Request, attempt *login.Attempt, status int) {
	g.unmark(r)
	var err error
	ctx := context.WithoutCancel(r.Context())
	switch {
	case status == http.StatusUnauthorized:
		attempt.Failed()
	case status >= 200 && status < 300 || status == http.StatusSeeOther:
		err = attempt.Succeeded(ctx, g.Now())
	default:
		err = attempt.Abandoned(ctx)
	}
	if err != nil {
		failed(g.outages.attempts, err)
		return
	}
	g.outages.attempts.Worked()
}

// loginAccount reads the e-mail out of a login request and puts the body
// back. It is as strict as a gate must be that shall never understand
// another account than the upstream does: no member twice, in whatever
// spelling, none in the query, nothing after the end, no encoding that
// hides the text.
func loginAccount(w http.ResponseWriter, r *http.Request) (string, *Refusal) {
	if len(r.Header["Content-Type"]) > 1 || len(r.Header["Content-Encoding"]) > 0 {
		return "", refuseMediaType
	}
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, named := parameters["charset"]
	if err != nil || named && !strings.EqualFold(charset, "utf-8") {
		return "", refuseMediaType
	}
	if query, err := readForm(r.URL.RawQuery); err != nil || query.named() {
		return "", refuseBody
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
	r.Body = readBody{bytes.NewReader(body)}
	r.ContentLength = int64(len(body))
	r.TransferEncoding, r.Trailer = nil, nil
	return email, nil
}

// jsonEmail reads the member email. The decoder refuses duplicate names,
// invalid UTF-8, wrong types and whatever follows the object. It takes
// "EMAIL" for email as well, which upstreams in several languages do: an
// account that is named so must not go unseen.
func jsonEmail(body []byte) (string, bool) {
	var request struct {
		Email    jsonString `json:"email"`
		Password jsonString `json:"password"`
	}
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return "", false // null would decode into anything
	}
	if err := json.Unmarshal(body, &request, json.MatchCaseInsensitiveNames(true)); err != nil {
		return "", false
	}
	return string(request.Email), true
}

// jsonString is a string that null is not taken for.
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
	form, err := readForm(string(body))
	if err != nil || len(form.email) > 1 || len(form.password) > 1 {
		return "", false
	}
	email := strings.Join(form.email, "")
	return email, utf8.ValidString(email)
}

// credentials are what a form says to a login, by any spelling of its
// fields that a server might take for them: in any case, with space around.
type credentials struct{ email, password []string }

func readForm(text string) (f credentials, err error) {
	values, err := url.ParseQuery(text)
	for name, given := range values {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "email":
			f.email = append(f.email, given...)
		case "password":
			f.password = append(f.password, given...)
		}
	}
	return f, err
}

// named tells whether the form says anything.
func (f credentials) named() bool { return len(f.email)+len(f.password) > 0 }
