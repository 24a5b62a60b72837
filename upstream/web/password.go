package web

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/caddy-tollgate/tollgate/upstream/account"
)

// passwordRule is what package account asks of a password.
const passwordRule = "Choose a password of 8 characters or more, up to 1024 bytes."

// maxTries is how many passwords may be tried from within one session.
// Whoever finds a browser open must not guess the password in it: after
// these the session is over, and the sign-in has the gate's throttle.
const maxTries = 5

// passwordView is the page with the form for another password.
type passwordView struct {
	Email, Problem string
	// Field is the field that the problem is about.
	Field string
}

func (s *site) passwordForm(w http.ResponseWriter, _ *http.Request, v *visit) error {
	return s.showPassword(w, http.StatusOK, v, passwordView{})
}

func (s *site) showPassword(w http.ResponseWriter, status int, v *visit, view passwordView) error {
	view.Email = string(v.who.Email)
	return s.views.show(w, status, "password", v.page("Password", "settings", view))
}

// changePassword sets another password, which ends all sessions of the
// account. The browser in which it happens stays signed in, under a new
// token.
func (s *site) changePassword(w http.ResponseWriter, r *http.Request, v *visit) error {
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	chosen := form.Get("password")
	if account.CheckPassword(chosen) != nil {
		return s.showPassword(w, http.StatusUnprocessableEntity, v, passwordView{Field: "password", Problem: passwordRule})
	}
	// The tries are counted before they are judged, so that parallel ones
	// cannot hide.
	tried, err := s.Sessions.TryPassword(r.Context(), v.session.ID)
	if errors.Is(err, account.ErrNotFound) || err == nil && tried > maxTries {
		return errSignedOut
	}
	if err != nil {
		return err
	}
	who, err := s.Accounts.SignIn(r.Context(), string(v.who.Email), form.Get("current"))
	if errors.Is(err, account.ErrCredentials) {
		return s.showPassword(w, http.StatusUnauthorized, v, passwordView{Field: "current", Problem: "This is not your password."})
	}
	if err != nil {
		return err
	}
	who, err = s.Accounts.SetPassword(r.Context(), who, chosen)
	if errors.Is(err, account.ErrPasswordChanged) {
		// Changed it is, which is what the person must know. Who can look
		// after the rest reads the log.
		s.Logger.Error("changing password", "account", v.who.ID, "error", err)
		err = nil
	}
	if errors.Is(err, account.ErrOvertaken) {
		// Such as the same form sent twice: the cookie of the other answer
		// must not be taken away.
		redirect(w, "/settings/sessions", nil)
		return nil
	}
	if err != nil {
		// Whoever knows the password guesses nothing.
		return errors.Join(err, s.Sessions.ForgetTries(r.Context(), v.session.ID))
	}
	// The one session that outlives the old password.
	if err := s.sessions.Open(w, r, who); err != nil {
		return err
	}
	redirect(w, "/settings/sessions", url.Values{"done": {"password"}})
	return nil
}
