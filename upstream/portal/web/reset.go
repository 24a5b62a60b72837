package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// resetView is the page of a reset link.
type resetView struct {
	Email, Problem string
	// Field is the field with the problem.
	Field string
}

// resetForm shows the form of a reset link. It does not spend the link: mail
// scanners open links.
func (s *site) resetForm(w http.ResponseWriter, r *http.Request) error {
	hideReferrer(w)
	found, err := s.Accounts.FindReset(r.Context(), r.PathValue("token"))
	if err != nil {
		return err
	}
	return s.showReset(w, http.StatusOK, resetView{Email: string(found.Email)})
}

func (s *site) showReset(w http.ResponseWriter, status int, view resetView) error {
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
		return s.showReset(w, http.StatusUnprocessableEntity, resetView{Email: string(found.Email), Field: "password", Problem: advice})
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
