package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/caddy-tollgate/tollgate/upstream/account"
)

// signUpView is the page with the sign-up form.
type signUpView struct {
	Email, Plan, Problem string
	// Field is the field with the problem; empty for the whole form.
	Field string
}

// signUpForm shows the sign-up, or My usage to a person who is signed in.
func (s *site) signUpForm(w http.ResponseWriter, r *http.Request) error {
	if _, found := s.sessions.Current(r.Context()); found {
		redirect(w, usagePath, nil)
		return nil
	}
	return s.showSignUp(w, http.StatusOK, signUpView{Email: s.draft(r).Get("email")})
}

func (s *site) showSignUp(w http.ResponseWriter, status int, view signUpView) error {
	view.Plan = s.SignUpPlan
	return s.views.show(w, status, "signup", page{Title: "Sign up", Body: view})
}

// signUp creates an account and signs in to it. A person who
// is signed in gets no redirect: for the gate a 303 means that a password was
// right, and none was checked.
func (s *site) signUp(w http.ResponseWriter, r *http.Request) error {
	if _, found := s.sessions.Current(r.Context()); found {
		return s.showSignUp(w, http.StatusConflict, signUpView{Problem: "You are signed in. Sign out first to create another account."})
	}
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	view := signUpView{Email: form.Get("email")}
	email, err := account.ParseEmail(view.Email)
	if err == nil {
		err = s.checkPassword(form.Get("password"), email)
	}
	var added account.Account
	if err == nil {
		added, err = s.Accounts.SignUp(r.Context(), email, form.Get("password"), s.SignUpPlan)
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
	case isRefusedAs(err, "unknown_plan"):
		return fmt.Errorf("%w: %q", errSignUpPlan, s.SignUpPlan)
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
	if err := s.sessions.Open(w, r, who); err != nil {
		return err
	}
	s.takeDraft(w, r)
	redirect(w, keysPath, url.Values{"done": {"signed-up"}})
	return nil
}
