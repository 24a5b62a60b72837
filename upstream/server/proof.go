package server

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
)

var forbidden = apierror.New(http.StatusForbidden, "forbidden",
	"This service answers through its gate only.")

// gatekeeper knows which requests came through the gate: those with
// exactly one valid assertion. A request around the gate would have the
// API without a token, a quota or a login throttle.
type gatekeeper struct {
	assertions *assertion.Verifier
	logger     *slog.Logger
	refused    map[error]*outage.Log // by reason
}

// reasons are those for which a request is refused. Each has a log of its
// own, so that forged requests with one do not hide a mistake of another.
var reasons = []error{
	errAssertions, assertion.ErrMalformed, assertion.ErrKey, assertion.ErrClaims,
	assertion.ErrAudience, assertion.ErrTime, assertion.ErrPurpose,
}

func newGatekeeper(assertions *assertion.Verifier, logger *slog.Logger) *gatekeeper {
	g := &gatekeeper{assertions: assertions, logger: logger, refused: make(map[error]*outage.Log)}
	for _, reason := range reasons {
		g.refused[reason] = outage.New(logger, slog.LevelWarn, "refused a request with headers of the gate that are not proven")
	}
	return g
}

// require lets only requests through that the gate sent for a purpose.
func (g *gatekeeper) require(purpose string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.check(r, purpose); err != nil {
			g.warnUnproven(r, err)
			send(w, forbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var errAssertions = errors.New("it has no " + assertion.Header + ", or several")

func (g *gatekeeper) check(r *http.Request, purpose string) error {
	got := r.Header.Values(assertion.Header)
	if len(got) != 1 {
		return errAssertions
	}
	_, err := g.assertions.Verify(got[0], purpose)
	return err
}

// warnUnproven tells the operator of requests that were refused although
// they have headers of the gate: its secret or address may differ from
// this service's, or someone tries to forge them. Each reason is logged at
// most once a minute.
func (g *gatekeeper) warnUnproven(r *http.Request, err error) {
	for name := range r.Header {
		if !strings.HasPrefix(name, "Tollgate-") {
			continue
		}
		g.refused[reason(err)].Failed(slog.Any("error", err))
		return
	}
}

// reason is err without its details.
func reason(err error) error {
	for _, known := range reasons {
		if errors.Is(err, known) {
			return known
		}
	}
	return errAssertions
}

// warnUnthrottled tells the operator, once, when sign-ups do not come
// through the gate. They open nothing but a free account, so they are let
// through. But no limit holds for them, nor for guessing which e-mail
// addresses have an account.
func (g *gatekeeper) warnUnthrottled(next http.Handler) http.Handler {
	var said sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.check(r, assertion.Login) != nil {
			said.Do(func() {
				g.logger.Warn("sign-ups are not throttled: add the line \"login POST /signup\" to the gate's configuration")
			})
		}
		next.ServeHTTP(w, r)
	})
}
