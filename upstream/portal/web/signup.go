package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// signUpView is the page with the sign-up form.
type signUpView struct {
	Email, Plan, Problem string
	// Field is the field with the problem; empty for the whole form.
	Field string
	// Offer is set if the plan has no access.
	Offer *offer
}

// signUpForm shows the sign-up, or My usage to a person who is signed in.
func (s *site) signUpForm(w http.ResponseWriter, r *http.Request) error {
	if _, found := s.sessions.Current(r.Context()); found {
		redirect(w, usagePath, nil)
		return nil
	}
	view, err := s.newSignUp(r.Context())
	if err != nil {
		return err
	}
	view.Email = s.draft(r).Get("email")
	return s.showSignUp(w, http.StatusOK, view)
}

// newSignUp returns the empty form. It asks the gate whether the plan of new
// accounts has access: people should know before they sign up.
func (s *site) newSignUp(ctx context.Context) (signUpView, error) {
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	plans, err := s.Gate.Plans(ctx)
	if err != nil {
		return signUpView{}, err
	}
	at := slices.IndexFunc(plans.Plans, func(p api.Plan) bool { return p.Name == s.SignUp })
	if at < 0 {
		return signUpView{}, fmt.Errorf("%w: %q", errSignUpPlan, s.SignUp)
	}
	return signUpView{Plan: s.SignUp, Offer: newOffer(plans, plans.Plans[at])}, nil
}

func (s *site) showSignUp(w http.ResponseWriter, status int, view signUpView) error {
	return s.views.show(w, status, "signup", page{Title: "Sign up", Body: view})
}

// signUp creates an account and signs in to it. A person who
// is signed in gets no redirect: for the gate a 303 means that a password was
// right, and none was checked.
func (s *site) signUp(w http.ResponseWriter, r *http.Request) error {
	view, err := s.newSignUp(r.Context())
	if err != nil {
		s.keepDraft(w, r, loginFields)
		return err
	}
	if _, found := s.sessions.Current(r.Context()); found {
		view.Problem = "You are signed in. Sign out first to create another account."
		return s.showSignUp(w, http.StatusConflict, view)
	}
	view.Email = r.PostForm.Get("email")
	email, err := account.ParseEmail(view.Email)
	var added account.Account
	if err == nil {
		added, err = s.Accounts.SignUp(r.Context(), email, r.PostForm.Get("password"), s.SignUp, s.Brand.Name)
	}
	if err != nil {
		s.keepDraft(w, r, loginFields)
	}
	switch {
	case errors.Is(err, account.ErrEmail):
		view.Field, view.Problem = "email", "This is not an e-mail address."
	case errors.Is(err, account.ErrEmailTaken):
		view.Field, view.Problem = "email", "An account with this e-mail address exists. Sign in instead."
	case errors.Is(err, account.ErrPassword):
		view.Field, view.Problem = "password", passwordAdvice(err)
	case err != nil:
		return err
	}
	if view.Problem != "" {
		return s.showSignUp(w, http.StatusUnprocessableEntity, view)
	}
	who, err := s.Accounts.Identify(r.Context(), added.ID)
	if err != nil {
		return err
	}
	if err := s.sessions.Open(w, r, who, false); err != nil {
		return err
	}
	s.takeDraft(w, r)
	redirect(w, keysPath, url.Values{"done": {"signed-up"}})
	return nil
}
