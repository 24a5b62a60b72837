package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/account"
)

// errNotFound means that there is no such page, or no such item of this
// account.
var errNotFound = errors.New("no such page")

// errMethod means that the page has no such method.
var errMethod = errors.New("no such page for this method")

// errCrossOrigin means that a page of another site sent the request.
var errCrossOrigin = errors.New("asked from another site")

// errSignUpPlan means that the gate does not know the plan of new accounts.
var errSignUpPlan = errors.New("the plan of new accounts is not in the configuration of the gate")

// problem is the content of an error page.
type problem struct {
	Status        int
	Title, Advice string
	// Retry is a Retry-After in seconds, or empty.
	Retry string
	// Home links to the front page instead of this address.
	Home bool
}

var (
	notFound = problem{Status: http.StatusNotFound, Title: "Page not found",
		Advice: "Check the address. The page may have been removed.", Home: true}
	wrongMethod = problem{Status: http.StatusMethodNotAllowed, Title: "This page does not allow that",
		Advice: "Nothing was changed. Open the page and use its buttons.", Home: true}
	crossOrigin = problem{Status: http.StatusForbidden, Title: "This form came from another site",
		Advice: "Nothing was changed. If you want this change, open the page here and try again.", Home: true}
	badForm = problem{Status: http.StatusBadRequest, Title: "The form is invalid",
		Advice: "Nothing was changed. Go back, reload the page and try again."}
	gateAway = problem{Status: http.StatusServiceUnavailable, Title: "The gate does not answer",
		Advice: "Keys and usage are unavailable at the moment. Try again in a few seconds.", Retry: "5"}
	deadReset = problem{Status: http.StatusGone, Title: "This link does not work",
		Advice: "A reset link works once, for 30 minutes. Ask for another link.", Home: true}
	noSignUp = problem{Status: http.StatusServiceUnavailable, Title: "You cannot sign up at the moment",
		Advice: "No account was created. The site is not set up correctly."}
	busy = problem{Status: http.StatusServiceUnavailable, Title: "Too many people sign in at the moment",
		Advice: "Try again in a few seconds.", Retry: "2"}
	broken = problem{Status: http.StatusInternalServerError, Title: "Something went wrong on our side",
		Advice: "The error is logged. Try again."}
)

// fail answers a failed request with an error page, and logs errors of the
// server.
func (s *site) fail(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	shown := s.leadOn(r, s.classify(err))
	if shown.Status >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
		s.serving.Failed(slog.String("pattern", r.Pattern), slog.Any("error", err))
	}
	p := page{Title: shown.Title, Body: shown}
	if v != nil {
		p = v.page(shown.Title, "", shown)
	}
	s.views.showProblem(w, p, shown)
}

// leadOn links to the front page if this address has no page to reload: it
// only receives a form.
func (s *site) leadOn(r *http.Request, shown problem) problem {
	shown.Home = shown.Home || !slices.Contains(s.methods(r), http.MethodGet)
	return shown
}

// classify chooses the page for an error.
func (s *site) classify(err error) problem {
	var tooLong *http.MaxBytesError
	refused := refusal(err)
	switch {
	case errors.Is(err, errNotFound):
		return notFound
	case errors.Is(err, errMethod):
		return wrongMethod
	case errors.Is(err, errCrossOrigin):
		return crossOrigin
	case errors.Is(err, errForm), errors.As(err, &tooLong):
		return badForm
	case errors.Is(err, account.ErrReset):
		return deadReset
	case errors.Is(err, errSignUpPlan):
		return noSignUp
	case errors.Is(err, account.ErrBusy):
		return busy
	case errors.Is(err, account.ErrGate), errors.Is(err, client.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return gateAway
	case refused != nil && refused.Status == http.StatusNotFound:
		return notFound
	case refused != nil && (refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusUnauthorized):
		return gateAway
	case refused != nil:
		// The gate refuses a value that our forms cannot send.
		return badForm
	}
	return broken
}
