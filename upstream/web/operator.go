package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/account"
)

const (
	operatorSection = "operator"
	operatorPath    = "/" + operatorSection
	accountsPath    = operatorPath + "/accounts"

	// operatorFor is how long after a sign-in a session opens the operator's
	// pages.
	operatorFor = time.Hour

	// operatorRows is the number of rows on a page of a list.
	operatorRows = 50
)

// routeOperator adds the pages of operators: see operatorsOnly.
func (s *site) routeOperator(mux *http.ServeMux) {
	const one = accountsPath + "/{account}"
	mux.HandleFunc("GET "+one, s.signedIn(s.operatorAccount))
	mux.HandleFunc("GET "+one+"/{action}", s.signedIn(s.actionForm))
	mux.HandleFunc("POST "+one+"/{action}", s.signedIn(s.act))
}

// operatorsOnly guards all addresses below /operator. For a person who is no
// operator, they are as unknown as any other address, also for a form, which is
// not read. An operator has to sign in anew after an hour. Each request asks the
// database, so a person who is no longer an operator is refused at once.
func (s *site) operatorsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		current, found := s.sessions.Current(r.Context())
		if !found || r.URL.Path != operatorPath && !strings.HasPrefix(r.URL.Path, operatorPath+"/") {
			next.ServeHTTP(w, r)
			return
		}
		who, err := s.Accounts.Identify(r.Context(), current.AccountID)
		switch {
		case errors.Is(err, account.ErrNotFound) || err == nil && who.Version != current.Version:
			next.ServeHTTP(w, r) // begin ends the session
			return
		case err == nil && !who.Operator:
			err = errNotFound
		case err == nil && s.Now().Sub(current.CreatedAt) >= operatorFor:
			if err = s.sessions.Close(w, r); err == nil {
				redirect(w, loginPath, url.Values{"next": {localPath(r.URL.RequestURI())}, "done": {"operator"}})
				return
			}
		case err == nil:
			next.ServeHTTP(w, r)
			return
		}
		s.fail(w, r, s.visitor(r), err)
	})
}

// subject is the account that an operator looks at.
type subject struct {
	api.Account
	// Email is empty for an account without a password here.
	Email   account.Email
	Created moment
	State   state
	// visit is for reading what the account's own person can read.
	visit *visit
}

// Name is the label, or the id of an account without one.
func (of *subject) Name() string {
	if of.Label != "" {
		return of.Label
	}
	return of.Account.Account
}

// Path is the address of the account's page.
func (of *subject) Path() string { return accountsPath + "/" + of.Account.Account }

// subject returns the account in the path.
func (s *site) subject(r *http.Request, v *visit) (*subject, error) {
	ctx, cancel := account.OfCall(r.Context())
	defer cancel()
	known, err := s.Gate.Account(ctx, r.PathValue("account"))
	if errors.Is(err, api.ErrInvalidAccount) {
		err = errNotFound
	}
	if err != nil {
		return nil, err
	}
	who, err := s.Accounts.Identify(ctx, known.Account)
	if errors.Is(err, account.ErrNotFound) {
		err = nil
	}
	of := v.subject(known)
	of.Email = who.Email
	return of, err
}

func (v *visit) subject(known api.Account) *subject {
	of := &subject{Account: known, Created: v.clock.moment(known.CreatedAt), State: state{"ok", "Active"}, visit: new(*v)}
	of.visit.who.ID, of.visit.plan = known.Account, planOf(v.plans, known.Plan)
	if known.Disabled {
		of.State = state{"over", "Disabled"}
	}
	return of
}

// selection is a field with options, and the one that is chosen.
type selection struct {
	Name, Value string
	Choices     []choice
}

func planChoices(plans api.Plans) (choices []choice) {
	for _, p := range plans.Plans {
		choices = append(choices, choice{p.Name, p.Name})
	}
	return choices
}
