package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// problem is the content of an error page. As an error it is one that a person
// can mend, or the operator.
type problem struct {
	Status        int
	Title, Advice string
	// Retry is a Retry-After in seconds, or empty.
	Retry string
	// Home links to the front page instead of this address.
	Home bool
}

func (p problem) Error() string { return p.Title }

var (
	// errNotFound means that there is no such page, or no such item of this
	// account.
	errNotFound = problem{Status: http.StatusNotFound, Title: "Page not found",
		Advice: "Check the address. The page may have been removed.", Home: true}
	errMethod = problem{Status: http.StatusMethodNotAllowed, Title: "This page does not allow that",
		Advice: "Nothing was changed. Open the page and use its buttons.", Home: true}
	errCrossOrigin = problem{Status: http.StatusForbidden, Title: "This form came from another site",
		Advice: "Nothing was changed. If you want this change, open the page here and try again.", Home: true}
	errForm = problem{Status: http.StatusBadRequest, Title: "The form is invalid",
		Advice: "Nothing was changed. Go back, reload the page and try again."}
	errDeclared = problem{Status: http.StatusConflict, Title: "This is declared in the configuration file",
		Advice: "Nothing was changed. Ask the operator to change it in the file.", Home: true}
	errGate = problem{Status: http.StatusServiceUnavailable, Title: "The gate does not answer",
		Advice: "Keys and usage are unavailable at the moment. Try again in a few seconds.", Retry: "5"}
	errReset = problem{Status: http.StatusGone, Title: "This link does not work",
		Advice: "It works once, for a limited time. Ask for another link.", Home: true}
	errPortal = problem{Status: http.StatusGone, Title: "This link does not work",
		Advice: "It works once, for a few minutes. Go back to the page that has it, and open it again.", Home: true}
	// errSignUpPlan means that the gate does not know the plan of new accounts.
	errSignUpPlan = problem{Status: http.StatusServiceUnavailable, Title: "You cannot sign up at the moment",
		Advice: "No account was created. The site is not set up correctly."}
	errBusy = problem{Status: http.StatusServiceUnavailable, Title: "Too many people sign in at the moment",
		Advice: "Try again in a few seconds.", Retry: "2"}
	errDatabase = problem{Status: http.StatusServiceUnavailable, Title: "Accounts are unavailable at the moment",
		Advice: "Try again in a few seconds.", Retry: "5"}
	errBroken = problem{Status: http.StatusInternalServerError, Title: "Something went wrong on our side",
		Advice: "The error is logged. Try again."}
)

// fail answers a failed request with an error page, and logs errors of the
// server.
func (s *site) fail(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	shown := classify(err)
	if shown.Status >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
		s.serving.Failed(slog.String("pattern", r.Pattern), slog.Any("error", err))
	}
	s.showProblem(w, r, v, shown)
}

// showProblem answers with an error page. It links to the front page if this
// address has no page to reload: it only receives a form.
func (s *site) showProblem(w http.ResponseWriter, r *http.Request, v *visit, shown problem) {
	shown.Home = shown.Home || !slices.Contains(s.methods(r), http.MethodGet)
	if shown.Retry != "" {
		w.Header().Set("Retry-After", shown.Retry)
	}
	p := v.page(shown.Title, "", shown)
	p.Notice = ""
	if err := s.views.show(w, shown.Status, "problem", p); err != nil {
		panic(err) // impossible: the page has no input
	}
}

// classify chooses the page for an error.
func classify(err error) problem {
	shown, found := errors.AsType[problem](err)
	refused, isRefused := errors.AsType[*apierror.Error](err)
	switch {
	case found:
		return shown
	case errors.Is(err, account.ErrReset):
		return errReset
	case errors.Is(err, account.ErrBusy):
		return errBusy
	case errors.Is(err, account.ErrDatabase):
		return errDatabase
	case errors.Is(err, account.ErrGate), errors.Is(err, client.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return errGate
	case !isRefused:
		return errBroken
	case refused.Code == "declared":
		return errDeclared
	case refused.Status == http.StatusNotFound:
		return errNotFound
	case refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusUnauthorized:
		return errGate
	}
	return errForm // the gate refuses a value that our forms cannot send
}
