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

// errNotFound says that there is no such page, or nothing on it that
// belongs to who asks.
var errNotFound = errors.New("no such page")

// errMethod says that there is such a page, but not for this method.
var errMethod = errors.New("no such page for this method")

// errCrossOrigin says that another site's page asked for a change.
var errCrossOrigin = errors.New("asked from another site")

// problem is a page that says what went wrong and what to do.
type problem struct {
	Status        int
	Title, Advice string
	// Retry is a Retry-After in seconds, or empty.
	Retry string
	// Home says that going to another page helps.
	Home bool
}

var (
	notFound = problem{Status: http.StatusNotFound, Title: "There is nothing here",
		Advice: "The address may be mistyped, or what was here is gone.", Home: true}
	wrongMethod = problem{Status: http.StatusMethodNotAllowed, Title: "This cannot be done here",
		Advice: "Nothing was changed. Go to the page itself and use what is on it.", Home: true}
	crossOrigin = problem{Status: http.StatusForbidden, Title: "This form came from another site",
		Advice: "Nothing was changed. If you meant to do this, open the page here and try again.", Home: true}
	badForm = problem{Status: http.StatusBadRequest, Title: "This form cannot be read",
		Advice: "Nothing was changed. Go back, reload the page and try again."}
	gateAway = problem{Status: http.StatusServiceUnavailable, Title: "The gate does not answer",
		Advice: "Keys and usage cannot be shown or changed at this moment. Calls to the API are counted as ever. Try again shortly.", Retry: "5"}
	busy = problem{Status: http.StatusServiceUnavailable, Title: "Many people sign in at this moment",
		Advice: "Try again in a few seconds.", Retry: "2"}
	broken = problem{Status: http.StatusInternalServerError, Title: "Something went wrong on our side",
		Advice: "It was noted. Try again; if it stays, tell who runs this site."}
)

// fail answers a request that could not be served. What is our fault is
// logged here, and the person learns only what to do.
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

// leadOn sends the person to the start where the address has no page to
// try again at: a form was sent there that stands on other pages.
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
	case errors.Is(err, account.ErrBusy):
		return busy
	case errors.Is(err, account.ErrGate), errors.Is(err, client.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return gateAway
	case refused != nil && refused.Status == http.StatusNotFound:
		return notFound
	case refused != nil && (refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusUnauthorized):
		return gateAway
	case refused != nil:
		// A request that the gate refuses for what is in it, after our
		// forms have judged it: none of them sent it.
		return badForm
	}
	return broken
}
