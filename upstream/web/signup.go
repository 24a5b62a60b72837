package web

import (
	"errors"
	"net/http"

	"github.com/caddy-tollgate/tollgate/upstream/account"
)

// signUpView is the page with the sign-up form.
type signUpView struct {
	Email, Problem string
	// Field is the field that the problem is about; none for all.
	Field string
}

// signUpForm shows the sign-up. Who is signed in has an account.
func (s *site) signUpForm(w http.ResponseWriter, r *http.Request) error {
	if _, found := s.sessions.Current(r.Context()); found {
		redirect(w, usagePath, nil)
		return nil
	}
	return s.showSignUp(w, http.StatusOK, signUpView{})
}

func (s *site) showSignUp(w http.ResponseWriter, status int, view signUpView) error {
	return s.views.show(w, status, "signup", page{Title: "Sign up", Body: view})
}

// signUp makes an account on the plan free and signs in to it. Who is
// signed in already stays so, and is not sent on: to the gate a 303 says
// that the password was right, and nobody has looked at it.
func (s *site) signUp(w http.ResponseWriter, r *http.Request) error {
	if _, found := s.sessions.Current(r.Context()); found {
		return s.showSignUp(w, http.StatusConflict, signUpView{Problem: "You are signed in. Sign out first to make another account."})
	}
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	view := signUpView{Email: form.Get("email")}
	email, err := account.ParseEmail(view.Email)
	var added account.Account
	if err == nil {
		added, err = s.Accounts.Add(r.Context(), email, form.Get("password"), account.FreePlan)
	}
	switch {
	case errors.Is(err, account.ErrEmail):
		view.Field, view.Problem = "email", "This is no e-mail address."
	case errors.Is(err, account.ErrEmailTaken):
		view.Field, view.Problem = "email", "There is an account with this e-mail address. Sign in instead."
	case errors.Is(err, account.ErrPassword):
		view.Field, view.Problem = "password", passwordRule
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
	redirect(w, keysPath, nil)
	return nil
}
