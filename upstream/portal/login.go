package portal

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	strict "github.com/go-json-experiment/json"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
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

// NewLogin returns the handler of POST /api/login.
func NewLogin(logins Logins, logger *slog.Logger) http.Handler {
	return &login{logins, outage.New(logger, slog.LevelError, "logging in")}
}

// credentials are the body of a login.
type credentials struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

// token is the answer to it (RFC 6749, section 5.1).
type token struct {
	Token     string `json:"token"`
	TokenType string `json:"token_type"`
	ExpiresIn int64  `json:"expires_in"`
}

func (l *login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, refusal := readLogin(w, r)
	var made account.Token
	if refusal == nil {
		var err error
		if made, err = l.logins.Login(r.Context(), request.Email, request.Password); err != nil {
			refusal = l.refusal(r.Context(), err)
		}
	}
	// If a write fails, the client is gone; ignore the error.
	if refusal != nil {
		_ = refusal.Write(w)
		return
	}
	l.outage.Worked()
	body, err := strict.Marshal(token{made.Secret, "Bearer", int64(made.Lifetime.Seconds())})
	if err != nil {
		panic(err) // impossible: the type is valid JSON
	}
	w.Header().Set("Content-Type", apierror.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
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
func readLogin(w http.ResponseWriter, r *http.Request) (credentials, *apierror.Error) {
	var request credentials
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
