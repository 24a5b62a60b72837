package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// maxForm is the maximum size of a form in bytes.
const maxForm = 16 << 10

// loginView is the page with the sign-in form.
type loginView struct {
	Email, Next, Problem string
	Ended                bool
	SignUp               bool
}

// loginForm shows the sign-in.
func (s *site) loginForm(w http.ResponseWriter, r *http.Request) error {
	query, draft := r.URL.Query(), s.draft(r)
	next := localPath(cmp.Or(query.Get("next"), draft.Get("next")))
	if _, found := s.sessions.Current(r.Context()); found {
		redirect(w, next, nil)
		return nil
	}
	return s.showLogin(w, http.StatusOK, loginView{Email: draft.Get("email"), Next: next, Ended: query.Has("ended")},
		notices[query.Get("done")])
}

func (s *site) showLogin(w http.ResponseWriter, status int, view loginView, notice string) error {
	view.SignUp = s.SignUp != ""
	return s.views.show(w, status, "login", page{Title: "Sign in", Notice: notice, Body: view})
}

// login signs in. The gate throttles the attempts and reads the outcome from
// the status: 401 for a wrong password, 303 for the right one.
func (s *site) login(w http.ResponseWriter, r *http.Request) error {
	view := loginView{Email: r.PostForm.Get("email"), Next: localPath(r.PostForm.Get("next"))}
	who, err := s.Accounts.SignIn(r.Context(), view.Email, r.PostForm.Get("password"))
	if err != nil {
		s.keepDraft(w, r, loginFields)
	}
	if errors.Is(err, account.ErrCredentials) {
		view.Problem = "E-mail or password is wrong."
		return s.showLogin(w, http.StatusUnauthorized, view, "")
	}
	if err != nil {
		return err
	}
	if err := s.sessions.Open(w, r, who, false); err != nil {
		return err
	}
	s.takeDraft(w, r)
	redirect(w, view.Next, nil)
	return nil
}

// logout ends the session.
func (s *site) logout(w http.ResponseWriter, r *http.Request) error {
	if err := s.sessions.Close(w, r); err != nil {
		return err
	}
	redirect(w, loginPath, url.Values{"done": {"signed-out"}})
	return nil
}

// readForm reads a form's body into PostForm. Handlers ignore the query: a link
// must not fill in a form.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() != nil {
		return errForm
	}
	return nil
}

// localPath returns the page to show after a sign-in: next if it is a page of
// ours that needs a session, otherwise the default. A link must not lead to
// another site. Browsers read "//host" and "/\host" as another site and skip
// tabs; our paths have only letters, digits, "-", "_", ".", "@" and single
// slashes. The query keeps what the person chose, but not what a page was told
// about its request.
func localPath(next string) string {
	next, query, _ := strings.Cut(next, "?")
	for _, root := range []string{"/settings", usagePath, operatorPath} {
		if next == root || strings.HasPrefix(next, root+"/") && next == path.Clean(next) && !strings.ContainsFunc(next, isForeign) {
			return next + chosen(query)
		}
	}
	return usagePath
}

// chosen returns a query, with its "?", without what is about one request only.
func chosen(query string) string {
	values, err := url.ParseQuery(query)
	values.Del("done")
	values.Del(backgroundParameter)
	if err != nil || len(values) == 0 || len(query) > maxQuery {
		return ""
	}
	return "?" + values.Encode()
}

// maxQuery bounds the query in the sign-in form, in bytes: the gate refuses a
// login with a body of more than 4096.
const maxQuery = 1000

func isForeign(r rune) bool {
	return !strings.ContainsRune("/_-.@", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

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
