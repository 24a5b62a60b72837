package web

import (
	"net/http"
	"net/url"
	"time"
)

const (
	// draftFor is how long a browser keeps a draft. The gate throttles a
	// sign-in for at most 15 minutes.
	draftFor = 30 * time.Minute

	// maxDraft is the maximum size of a draft in bytes. Browsers refuse
	// cookies of more than 4096 bytes.
	maxDraft = 3600
)

// The fields of a draft, for pages of a person who is signed in and for the
// sign-in. None is a secret. The account is whose draft it is: another person
// can sign in with the same browser, and other sites of the domain can set
// cookies, but do not know the id.
var (
	visitFields = []string{"account", "name", "scope", "ability", "life", "until", "limit", "limit_period", "limit_endpoint", "addresses", "overlap"}
	loginFields = []string{"email", "next"}
)

// keepDraft keeps what a person typed into a form that was not accepted, so
// that the page of the form can show it again: after another sign-in, an
// error, or the gate's own page for too many sign-ins, which this site does
// not see. It is a cookie, because an address must not fill in a form. The
// browser sends it to the page of the form only. Operators' forms have none:
// they are about other people.
func (s *site) keepDraft(w http.ResponseWriter, r *http.Request, fields []string) {
	draft := url.Values{}
	for _, field := range fields {
		if values := r.PostForm[field]; len(values) > 0 {
			draft[field] = values
		}
	}
	if text := draft.Encode(); text != "" && len(text) <= maxDraft {
		s.setDraft(w, r, text, int(draftFor/time.Second))
	}
}

func (s *site) setDraft(w http.ResponseWriter, r *http.Request, text string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.draftName(), Value: text, Path: r.URL.Path, MaxAge: seconds,
		HttpOnly: true, Secure: s.isSecure(), SameSite: http.SameSiteStrictMode,
	})
}

// draft returns the draft of the form at this address, nil without one.
func (s *site) draft(r *http.Request) url.Values {
	cookie, err := r.Cookie(s.draftName())
	if err != nil {
		return nil
	}
	draft, err := url.ParseQuery(cookie.Value)
	if err != nil {
		return nil
	}
	return draft
}

// takeDraft is draft, and deletes it.
func (s *site) takeDraft(w http.ResponseWriter, r *http.Request) url.Values {
	draft := s.draft(r)
	if draft != nil {
		s.setDraft(w, r, "", -1)
	}
	return draft
}

// takeDraftOf is takeDraft, if the draft is that of an account.
func (s *site) takeDraftOf(account string, w http.ResponseWriter, r *http.Request) url.Values {
	draft := s.takeDraft(w, r)
	if draft.Get("account") != account {
		return nil
	}
	return draft
}

func (s *site) isSecure() bool { return s.Address.Scheme == "https" }

func (s *site) draftName() string {
	if s.isSecure() {
		return "__Secure-tollgate-form"
	}
	return "tollgate-form"
}
