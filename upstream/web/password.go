package web

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"

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
	// Field is the field that the problem is about; none for all.
	Field string
}

func (s *site) passwordForm(w http.ResponseWriter, r *http.Request, v *visit) error {
	p := v.page("Password", "settings", passwordView{Email: string(v.who.Email)})
	p.Notice = notices[r.URL.Query().Get("done")]
	return s.views.show(w, http.StatusOK, "password", p)
}

func (s *site) showPassword(w http.ResponseWriter, status int, v *visit, view passwordView) error {
	view.Email = string(v.who.Email)
	return s.views.show(w, status, "password", v.page("Password", "settings", view))
}

// tooManyChanges says when the password can be changed again.
func (s *site) tooManyChanges(w http.ResponseWriter, v *visit) error {
	wait := max(1, int(math.Ceil(v.who.ChangeIn(s.Now()).Seconds())))
	w.Header().Set("Retry-After", strconv.Itoa(wait))
	return s.showPassword(w, http.StatusTooManyRequests, v, passwordView{
		Problem: "You changed your password many times within the hour. Wait " + plural((wait+59)/60, "minute") + ", then try again.",
	})
}

// changePassword sets another password, which ends all sessions of the
// account. The browser in which it happens stays signed in, under a new
// token. It works without the gate.
func (s *site) changePassword(w http.ResponseWriter, r *http.Request, v *visit) error {
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	chosen := form.Get("password")
	if account.CheckPassword(chosen) != nil {
		return s.showPassword(w, http.StatusUnprocessableEntity, v, passwordView{Field: "password", Problem: passwordRule})
	}
	// Before the current password is looked at, so that it costs no work
	// and tells nothing of the password.
	if v.who.ChangeIn(s.Now()) > 0 {
		return s.tooManyChanges(w, v)
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
	who, err := s.Accounts.ChangePassword(r.Context(), v.who.ID, form.Get("current"), chosen)
	done, page := "password", "/settings/sessions"
	if errors.Is(err, account.ErrLoginsLive) {
		s.Logger.Warn("changing password", "account", v.who.ID, "error", err)
		done, page, err = "password-alone", passwordPath, nil // a page that needs no gate
	}
	switch {
	case errors.Is(err, account.ErrCredentials):
		return s.showPassword(w, http.StatusUnauthorized, v, passwordView{Field: "current", Problem: "This is not your password."})
	case errors.Is(err, account.ErrOvertaken):
		// Such as the same form sent twice: the cookie of the other answer
		// must not be taken away.
		redirect(w, page, nil)
		return nil
	case errors.Is(err, account.ErrTooManyChanges):
		// The password was right, so this was no guess. After any other
		// error it may have been checked or not: the try stays counted.
		if err := s.Sessions.ForgetTries(r.Context(), v.session.ID); err != nil {
			return err
		}
		v.who = who
		return s.tooManyChanges(w, v)
	case err != nil:
		return err
	}
	// The one session that outlives the old password.
	if err := s.sessions.Open(w, r, who); err != nil {
		return err
	}
	redirect(w, page, url.Values{"done": {done}})
	return nil
}
