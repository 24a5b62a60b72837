package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// backgroundParameter marks an automatic update of a page. It does not count
// as a visit, so that a session without a person becomes idle.
const backgroundParameter = "background"

// portalReason is in the audit log with the changes of a portal visit: any person
// with the link can be the actor.
const portalReason = "portal visit"

// visit is a request of a person who is signed in.
type visit struct {
	who     account.Identity
	session account.Session
	plans   api.Plans
	plan    api.Plan
	clock   clock
	// notice confirms the action that led to this page.
	notice string
}

// handler answers a request. After an error nothing is written yet.
type handler func(w http.ResponseWriter, r *http.Request) error

// open serves a page that needs no session.
func (s *site) open(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, s.visitor(r), err)
		}
	}
}

// pageHandler answers a request of a person who is signed in.
type pageHandler func(http.ResponseWriter, *http.Request, *visit) error

// signedIn serves a page that needs a session, and redirects to the sign-in
// without one.
func (s *site) signedIn(h pageHandler) http.HandlerFunc { return s.visited(s.begin, h) }

// signedInAlone is signedIn for a page that works without the gate. If the
// gate does not answer, the visit has no data of it.
func (s *site) signedInAlone(h pageHandler) http.HandlerFunc {
	return s.visited(func(r *http.Request) (*visit, error) {
		v, err := s.begin(r)
		if v != nil && err != nil && classify(err) == errGate {
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
			// The audit log of the gate names the person.
			ctx := client.WithActor(r.Context(), v.who.ID)
			if v.session.Portal {
				ctx = client.WithReason(ctx, portalReason)
			}
			r = r.WithContext(ctx)
			err = h(w, r, v)
		}
		if err != nil && r.Method == http.MethodPost && !ofOperators(r.URL.Path) {
			s.keepDraft(w, r, visitFields)
		}
		refused, isRefused := errors.AsType[*apierror.Error](err)
		if errors.Is(err, errSignedOut) || isRefused && refused.Code == "account_disabled" {
			err = s.askToSignIn(w, r)
		}
		if err != nil {
			s.fail(w, r, v, err)
			return
		}
		s.serving.Worked()
	}
}

// errSignedOut means that a request has no valid session.
var errSignedOut = errors.New("not signed in")

// loadSession loads the session of each request, and begins the deadline of the
// page.
func (s *site) loadSession(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		loaded, err := s.sessions.Load(r)
		if err != nil {
			s.fail(w, r, nil, err)
			return
		}
		next.ServeHTTP(w, loaded.WithContext(account.OfPage(loaded.Context())))
	})
}

// begin returns the visit of a request. A session is no longer valid if its
// account is deleted, disabled or has another password. With an error, the
// visit has what is known so far.
func (s *site) begin(r *http.Request) (*visit, error) {
	current, found := s.sessions.Current(r.Context())
	if !found {
		return nil, errSignedOut
	}
	who, err := s.identify(r.Context(), current.AccountID, current.Portal)
	if errors.Is(err, account.ErrNotFound) || err == nil && who.Version != current.Version {
		return nil, errSignedOut
	}
	if err != nil {
		return nil, err
	}
	v := &visit{who: who, session: current}
	if r.Method == http.MethodGet {
		v.notice = notices[r.URL.Query().Get("done")]
	}
	known, err := s.ask(r.Context(), v)
	if known.Disabled || current.Portal && errors.Is(err, api.ErrNotFound) {
		return nil, errSignedOut
	}
	if err != nil {
		return v, err
	}
	if current.Portal && known.Label != "" {
		v.who.Email = account.Email(known.Label)
	}
	v.plan = planOf(v.plans, known.Plan)
	zone, err := time.LoadLocation(v.plans.Timezone)
	if err != nil {
		return v, fmt.Errorf("loading the gate's zone: %w", err)
	}
	v.clock = clock{s.Now(), zone}
	return v, nil
}

// visitor returns the visit as far as it is known, for error pages. It
// ignores errors.
func (s *site) visitor(r *http.Request) *visit {
	v, _ := s.begin(r)
	return v
}

// ask gets the plans and the account from the gate. An account that is
// unknown to the gate has the plan free.
func (s *site) ask(ctx context.Context, v *visit) (known api.Account, err error) {
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		v.plans, err = s.Gate.Plans(ctx)
		return err
	})
	group.Go(func() (err error) {
		known, err = s.Gate.Account(ctx, v.who.ID)
		if errors.Is(err, api.ErrNotFound) && !v.session.Portal {
			known, err = api.Account{Plan: account.FreePlan}, nil
		}
		return err
	})
	return known, group.Wait()
}

// planOf returns a plan by its name. A plan that is no longer configured has
// no access.
func planOf(plans api.Plans, name string) api.Plan {
	for _, plan := range plans.Plans {
		if plan.Name == name {
			return plan
		}
	}
	return api.Plan{Name: name}
}

// askToSignIn redirects to the sign-in, which redirects back to this page, or
// to the page of this form. It deletes the session: after an account is enabled
// again, people have to sign in again.
func (s *site) askToSignIn(w http.ResponseWriter, r *http.Request) error {
	query := url.Values{"next": {localPath(r.URL.RequestURI())}}
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

// redirect sends the browser to another page with GET.
func redirect(w http.ResponseWriter, path string, query url.Values) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// untilDone calls the gate for a change. Closing the page does not cancel it.
func untilDone[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := account.OfCall(context.WithoutCancel(ctx))
	defer cancel()
	return call(ctx)
}
