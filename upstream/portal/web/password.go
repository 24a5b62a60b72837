package web

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// wrongPassword is the problem with a wrong current password.
const wrongPassword = "This is not your current password."

// maxTries is how many passwords can be tried in one session. It stops a
// stranger at an open browser from guessing the password: then the session
// ends, and the gate throttles the sign-in.
const maxTries = 5

// passwordView is a page that changes the password, also of a reset link.
type passwordView struct {
	Email, Problem string
	// Field is the field with the problem; empty for the whole form.
	Field string
}

func (s *site) passwordForm(w http.ResponseWriter, _ *http.Request, v *visit) error {
	return s.showPassword(w, http.StatusOK, v, passwordView{})
}

func (s *site) showPassword(w http.ResponseWriter, status int, v *visit, view passwordView) error {
	view.Email = string(v.who.Email)
	return s.views.show(w, status, "password", v.page("Password", "settings", view))
}

// tooManyChanges shows when the password can be changed again. It rounds up,
// so that a person who waits that long can change it.
func (s *site) tooManyChanges(w http.ResponseWriter, v *visit) error {
	wait := max(1, int(math.Ceil(v.who.ChangeIn(s.Now()).Seconds())))
	w.Header().Set("Retry-After", strconv.Itoa(wait))
	return s.showPassword(w, http.StatusTooManyRequests, v, passwordView{
		Problem: "You changed your password too often. Try again " + inWords(time.Duration((wait+59)/60)*time.Minute) + ".",
	})
}

// changePassword changes the password and ends all sessions of the account.
// This browser gets a new session. It works without the gate.
func (s *site) changePassword(w http.ResponseWriter, r *http.Request, v *visit) error {
	chosen := r.PostForm.Get("password")
	if advice := passwordAdvice(account.CheckPassword(chosen, v.who.Email, s.Brand.Name)); advice != "" {
		return s.showPassword(w, http.StatusUnprocessableEntity, v, passwordView{Field: "password", Problem: advice})
	}
	// Before the current password is checked, so that the refusal costs no
	// work and reveals nothing.
	if v.who.ChangeIn(s.Now()) > 0 {
		return s.tooManyChanges(w, v)
	}
	if err := s.countTry(r, v); err != nil {
		return err
	}
	who, err := s.Accounts.ChangePassword(r.Context(), v.who.ID, r.PostForm.Get("current"), chosen)
	done, page := "password", "/settings/sessions"
	if errors.Is(err, account.ErrLoginsLive) {
		s.Logger.Warn("changing password", "account", v.who.ID, "error", err)
		done, page, err = "password-alone", passwordPath, nil // this page works without the gate
	}
	switch {
	case errors.Is(err, account.ErrCredentials):
		return s.showPassword(w, http.StatusUnauthorized, v, passwordView{Field: "current", Problem: wrongPassword})
	case errors.Is(err, account.ErrOvertaken):
		// For instance a form that was sent twice: keep the cookie of the
		// other answer.
		redirect(w, page, nil)
		return nil
	case errors.Is(err, account.ErrTooManyChanges):
		// The password was right, so this is not a guess. After any other
		// error the try stays counted.
		if err := s.Sessions.ForgetTries(r.Context(), v.session.ID); err != nil {
			return err
		}
		v.who = who
		return s.tooManyChanges(w, v)
	case err != nil:
		return err
	}
	// All other sessions are no longer valid.
	if err := s.sessions.Open(w, r, who, false); err != nil {
		return err
	}
	redirect(w, page, url.Values{"done": {done}})
	return nil
}

// countTry counts a try of the current password before it is checked, so that
// parallel tries cannot exceed the limit. It returns errSignedOut after too
// many.
func (s *site) countTry(r *http.Request, v *visit) error {
	tried, err := s.Sessions.TryPassword(r.Context(), v.session.ID)
	if errors.Is(err, account.ErrNotFound) || err == nil && tried > maxTries {
		return errSignedOut
	}
	return err
}

// resetForm shows the form of a reset link. It does not spend the link: mail
// scanners open links.
func (s *site) resetForm(w http.ResponseWriter, r *http.Request) error {
	hideReferrer(w)
	found, err := s.Accounts.FindReset(r.Context(), r.PathValue("token"))
	if err != nil {
		return err
	}
	return s.showReset(w, http.StatusOK, passwordView{Email: string(found.Email)})
}

func (s *site) showReset(w http.ResponseWriter, status int, view passwordView) error {
	return s.views.show(w, status, "reset", page{Title: "Choose a password", Body: view})
}

// resetPassword spends a reset link and sets the password. It does not sign in:
// a person who was made to send another person's link would not see whose
// account it is.
func (s *site) resetPassword(w http.ResponseWriter, r *http.Request) error {
	hideReferrer(w)
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return errCrossOrigin
	}
	found, err := s.Accounts.ResetPassword(r.Context(), r.PathValue("token"), r.PostForm.Get("password"), s.Brand.Name)
	done := "reset"
	if errors.Is(err, account.ErrLoginsLive) {
		s.Logger.Warn("resetting password", slog.String("account", found.ID), slog.Any("error", err))
		done, err = "reset-alone", nil
	}
	if advice := passwordAdvice(err); advice != "" {
		return s.showReset(w, http.StatusUnprocessableEntity, passwordView{Email: string(found.Email), Field: "password", Problem: advice})
	}
	if err != nil {
		return err
	}
	// A session in this browser would hide the sign-in.
	if err := s.sessions.Close(w, r); err != nil {
		return err
	}
	redirect(w, loginPath, url.Values{"done": {done}})
	return nil
}

// hideReferrer keeps the token out of the Referer header. Browsers then send
// "Origin: null" from the form: see allowReset.
func hideReferrer(w http.ResponseWriter) { w.Header().Set("Referrer-Policy", "no-referrer") }

// allowReset exempts reset links from the comparison of origins. Another site
// cannot know the token in the address, and a person who knows it needs no
// other person's browser.
func allowReset(csrf *http.CrossOriginProtection) {
	csrf.AddInsecureBypassPattern("POST " + resetPath)
}

// passwordAdvice says why a new password is not allowed. It is empty for
// another error.
func passwordAdvice(err error) string {
	var refused *account.PasswordError
	if errors.As(err, &refused) {
		return refused.Advice
	}
	return ""
}
