package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/web/session"
)

// gateTimeout bounds what a page waits for the gate, which answers in a
// millisecond when it is well.
const gateTimeout = 5 * time.Second

// backgroundParameter marks a request that a page made by itself: it
// shows the latest, but nobody need be there, so that it does not keep a
// session from going idle.
const backgroundParameter = "background"

// Sessions keeps sessions, and tells which ones an account has. Its
// methods are safe for concurrent use.
type Sessions interface {
	session.Store

	// Sessions returns an account's sessions, those over included.
	Sessions(ctx context.Context, account string) ([]account.Session, error)

	// RemoveOtherSessions ends all sessions of an account but one.
	RemoveOtherSessions(ctx context.Context, account, except string) error

	// TryPassword counts a password tried from within a session, and
	// returns how many were.
	TryPassword(ctx context.Context, id string) (int, error)

	// ForgetTries lets the count of passwords tried start again.
	ForgetTries(ctx context.Context, id string) error
}

// visit is a request of somebody who is signed in.
type visit struct {
	who     account.Identity
	session account.Session
	plans   api.Plans
	plan    api.Plan
	clock   clock
}

// handler answers a request. An error says that nothing was answered yet.
type handler func(w http.ResponseWriter, r *http.Request) error

// open serves a page for everybody.
func (s *site) open(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, s.visitor(r), err)
		}
	}
}

// pageHandler answers a request of a person who is signed in.
type pageHandler func(http.ResponseWriter, *http.Request, *visit) error

// signedIn serves a page for a person who is signed in, and sends others to
// sign in.
func (s *site) signedIn(h pageHandler) http.HandlerFunc { return s.visited(s.begin, h) }

// signedInAlone is signedIn for a page that works while the gate is away.
// All that the visit has from the gate is empty then.
func (s *site) signedInAlone(h pageHandler) http.HandlerFunc {
	return s.visited(func(r *http.Request) (*visit, error) {
		v, err := s.begin(r)
		if v != nil && err != nil && s.classify(err) == gateAway {
			err = nil
		}
		return v, err
	}, h)
}

func (s *site) visited(begin func(*http.Request) (*visit, error), h pageHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := begin(r)
		if err == nil && !r.URL.Query().Has(backgroundParameter) {
			err = s.sessions.Touch(r.Context(), v.session)
		}
		if err == nil {
			err = h(w, r, v)
		}
		if errors.Is(err, errSignedOut) || isRefusedAs(err, "account_disabled") {
			err = s.askToSignIn(w, r)
		}
		if err != nil {
			s.fail(w, r, v, err)
			return
		}
		s.serving.Worked()
	}
}

// errSignedOut says that a request has no session, or had one that is
// over.
var errSignedOut = errors.New("nobody is signed in")

// loadSession finds the session of each request.
func (s *site) loadSession(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		loaded, err := s.sessions.Load(r)
		if err != nil {
			s.fail(w, r, nil, err)
			return
		}
		next.ServeHTTP(w, loaded)
	})
}

// begin finds out who is there. A session ends here, whatever its cookie
// says, when the account is gone or disabled or has another password.
// The visit is there with an error too as far as it is known.
func (s *site) begin(r *http.Request) (*visit, error) {
	current, found := s.sessions.Current(r.Context())
	if !found {
		return nil, errSignedOut
	}
	who, err := s.Accounts.Identify(r.Context(), current.Account)
	if errors.Is(err, account.ErrNotFound) || err == nil && who.Version != current.Version {
		return nil, errSignedOut
	}
	if err != nil {
		return nil, err
	}
	v := &visit{who: who, session: current}
	standing, err := s.ask(r.Context(), v)
	if err != nil {
		return v, err
	}
	if standing.Disabled {
		return nil, errSignedOut
	}
	v.plan = planOf(v.plans, standing.Plan)
	zone, err := time.LoadLocation(v.plans.Timezone)
	if err != nil {
		return v, fmt.Errorf("loading the gate's zone: %w", err)
	}
	v.clock = clock{s.Now(), zone}
	return v, nil
}

// visitor returns who is there as far as that can be found out, for pages
// that have something else to say. What went wrong on the way is told to
// who asks for a page that needs it.
func (s *site) visitor(r *http.Request) *visit {
	v, _ := s.begin(r)
	return v
}

// ask asks the gate what every page needs: its plans, and how the account
// stands. One that it does not know is on the plan free.
func (s *site) ask(ctx context.Context, v *visit) (standing api.Account, err error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		v.plans, err = s.Gate.Plans(ctx)
		return err
	})
	group.Go(func() (err error) {
		standing, err = s.Gate.Account(ctx, v.who.ID)
		if isRefused(err, http.StatusNotFound) {
			standing, err = api.Account{Plan: account.FreePlan}, nil
		}
		return err
	})
	return standing, group.Wait()
}

// planOf returns a plan by its name. One that the gate has no longer
// gives nothing.
func planOf(plans api.Plans, name string) api.Plan {
	for _, plan := range plans.Plans {
		if plan.Name == name {
			return plan
		}
	}
	return api.Plan{Name: name}
}

// askToSignIn sends somebody to the sign-in, and back here after it if
// this is a page. A session that must not go on is ended for good: an
// account that is enabled again has to sign in again.
func (s *site) askToSignIn(w http.ResponseWriter, r *http.Request) error {
	query := url.Values{}
	if r.Method == http.MethodGet {
		query.Set("next", r.URL.Path)
	}
	if s.sessions.Ended(r) {
		query.Set("ended", "1")
	}
	if _, found := s.sessions.Current(r.Context()); found {
		query.Set("ended", "1")
		if err := s.sessions.Close(w, r); err != nil {
			return err
		}
	}
	redirect(w, loginPath, query)
	return nil
}

// redirect sends the browser on to a page of ours with GET.
func redirect(w http.ResponseWriter, path string, query url.Values) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// change calls the gate for something that must not be abandoned half-way
// when the person closes the page.
func change[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gateTimeout)
	defer cancel()
	return call(ctx)
}

// refusal returns the gate's refusal in err, nil if there is none.
func refusal(err error) *apierror.Error {
	var refused *apierror.Error
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}

func isRefused(err error, status int) bool {
	refused := refusal(err)
	return refused != nil && refused.Status == status
}

func isRefusedAs(err error, code string) bool {
	refused := refusal(err)
	return refused != nil && refused.Code == code
}
