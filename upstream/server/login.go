package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	strict "github.com/go-json-experiment/json"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// maxLogin bounds the body of a login in bytes.
const maxLogin = 4 << 10

// Logins exchanges an e-mail address and a password for a token. Its
// errors are those of account.Service.Login.
type Logins interface {
	Login(ctx context.Context, email, password string) (account.Token, error)
}

// The refusals of a login.
var (
	invalidLogin = apierror.New(http.StatusBadRequest, "invalid_request",
		`The body must be one JSON object with the strings "email" and "password", each given once and not empty.`)
	tooLarge = apierror.New(http.StatusRequestEntityTooLarge, "body_too_large",
		"The body is too long. At most 4096 bytes are allowed.")
	notJSON = apierror.New(http.StatusUnsupportedMediaType, "unsupported_media_type",
		"The body must be JSON in UTF-8 with Content-Type: application/json and without Content-Encoding.")
	invalidCredentials = apierror.New(http.StatusUnauthorized, "invalid_credentials",
		"E-mail or password is wrong.")
	planRequired = apierror.New(http.StatusForbidden, "plan_required",
		"The plan of this account has no access to the API.")
	busy = apierror.New(http.StatusServiceUnavailable, "busy",
		"Too many logins at the moment. Try again in a few seconds.").WithHeader("Retry-After", "2")
	unavailable = apierror.New(http.StatusServiceUnavailable, "unavailable",
		"Login is unavailable at the moment. Try again in a few seconds.").WithHeader("Retry-After", "5")
)

// login answers POST /api/login.
type login struct {
	logins Logins
	outage *outage.Log
}

func (l *login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, refusal := readLogin(w, r)
	if refusal != nil {
		send(w, refusal)
		return
	}
	token, err := l.logins.Login(r.Context(), request.Email, request.Password)
	if err != nil {
		send(w, l.refusal(r.Context(), err))
		return
	}
	l.outage.Worked()
	sendJSON(w, api.LoginAnswer{Token: token.Secret, TokenType: "Bearer", ExpiresIn: int64(token.Lifetime.Seconds())})
}

// refusal returns the refusal for an error. It logs failures of the gate and
// the database; the client only reads that it may try again.
func (l *login) refusal(ctx context.Context, err error) *apierror.Error {
	switch {
	case errors.Is(err, account.ErrCredentials):
		l.outage.Worked()
		return invalidCredentials
	case errors.Is(err, account.ErrPlanRequired):
		return planRequired
	case errors.Is(err, account.ErrBusy):
		return busy
	}
	if ctx.Err() == nil {
		l.outage.Failed(slog.Any("error", err))
	}
	return unavailable
}

// readLogin reads the body of a login. It accepts only what every parser
// reads in the same way. The gate counts attempts by the e-mail address in
// this body: gate and upstream must read the same address.
func readLogin(w http.ResponseWriter, r *http.Request) (api.LoginRequest, *apierror.Error) {
	var request api.LoginRequest
	if !apierror.IsJSON(r.Header) {
		return request, notJSON
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogin))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return request, tooLarge
	}
	if err != nil {
		return request, invalidLogin
	}
	// The parser refuses duplicate names, invalid UTF-8 and trailing data.
	// Its member names are case-sensitive.
	if err := strict.Unmarshal(body, &request); err != nil || request.Email == "" || request.Password == "" {
		return request, invalidLogin
	}
	return request, nil
}
