package server

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
)

var forbidden = apierror.New(http.StatusForbidden, "forbidden",
	"Send requests through the gate. This service answers no others.")

// gatekeeper refuses requests that did not come through the gate. Such a
// request needs no token, has no quota and meets no login throttle.
type gatekeeper struct {
	check   func(r *http.Request, purpose string) error
	logger  *slog.Logger
	refused map[error]*outage.Log // by reason
}

// reasons are the errors for which a request is refused. Each has a log of
// its own: forged requests of one kind must not hide a wrong configuration.
var reasons = []error{
	errAssertions, ErrNotPassed, assertion.ErrMalformed, assertion.ErrKey, assertion.ErrClaims,
	assertion.ErrAudience, assertion.ErrTime, assertion.ErrPurpose,
}

func newGatekeeper(check func(r *http.Request, purpose string) error, logger *slog.Logger) *gatekeeper {
	g := &gatekeeper{check: check, logger: logger, refused: make(map[error]*outage.Log)}
	for _, reason := range reasons {
		g.refused[reason] = outage.New(logger, slog.LevelWarn, "refused a request with unproven headers of the gate")
	}
	g.refused[ErrNotPassed] = outage.New(logger, slog.LevelWarn, "refused a request")
	return g
}

// require refuses requests that the gate did not send for this purpose.
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

// ErrNotPassed is the error of a check in the gate's own process. It means a
// wrong configuration: clients have no way around the gate.
var ErrNotPassed = errors.New("the request did not pass the directive tollgate")

var errAssertions = errors.New("the request does not have exactly one " + assertion.Header)

// CheckAssertion returns a Check for Config that accepts requests with
// exactly one valid assertion.
func CheckAssertion(verifier *assertion.Verifier) func(r *http.Request, purpose string) error {
	return func(r *http.Request, purpose string) error {
		got := r.Header.Values(assertion.Header)
		if len(got) != 1 {
			return errAssertions
		}
		_, err := verifier.Verify(got[0], purpose)
		return err
	}
}

// warnUnproven logs a refused request that has headers of the gate: the
// gate may have another secret or address, or the headers are forged. In the
// gate's own process it logs each. Each reason is logged at most once a minute.
func (g *gatekeeper) warnUnproven(r *http.Request, err error) {
	ofGate := func(name string) bool { return strings.HasPrefix(name, "Tollgate-") }
	if errors.Is(err, ErrNotPassed) || slices.ContainsFunc(slices.Collect(maps.Keys(r.Header)), ofGate) {
		g.refused[reason(err)].Failed(slog.Any("error", err))
	}
}

// reason returns err without its details.
func reason(err error) error {
	for _, known := range reasons {
		if errors.Is(err, known) {
			return known
		}
	}
	return errAssertions
}

// warnUnthrottled warns the operator once when a sign-up did not come
// through the gate. It only creates a free account, so it is not refused.
// But nothing limits such sign-ups, nor guesses which e-mail addresses have
// an account.
func (g *gatekeeper) warnUnthrottled(next http.Handler) http.Handler {
	var warned sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.check(r, assertion.Login) != nil {
			warned.Do(func() {
				g.logger.Warn("sign-ups are not throttled: add the line \"login POST /signup\" to the gate's configuration")
			})
		}
		next.ServeHTTP(w, r)
	})
}
