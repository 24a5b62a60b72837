package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

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
