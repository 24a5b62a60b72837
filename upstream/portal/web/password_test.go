package web_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// Threat: with a bad new password one guesses at the present one, without
// a limit. Nothing is said of it, and no work done.
func TestGuessingWithBadPasswords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for range 12 {
		ada.post("/settings/password", "current", "a wrong guess", "password", "short").
			has(t, http.StatusUnprocessableEntity, "Use at least 15 characters")
	}
	if !ada.signedIn() {
		t.Error("the session is over")
	}
}

// Threat: guesses go on beyond the limit because a failure in between, such
// as of a damaged hash, lets the count start again.
func TestFailuresForgetNoGuesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	c, err := w.store.ByID(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(hash string) {
		t.Helper()
		if err := w.store.Rehash(t.Context(), a.ID, c.Version, hash); err != nil {
			t.Fatal(err)
		}
	}
	guess := func(status int) {
		t.Helper()
		ada.post("/settings/password", "current", "a wrong guess", "password", other).has(t, status)
	}
	for range 4 {
		guess(http.StatusUnauthorized)
	}
	hash("damaged")
	guess(http.StatusInternalServerError)
	hash(c.Hash)
	guess(http.StatusSeeOther) // to the sign-in
	if ada.signedIn() {
		t.Error("the session goes on after more than five tries")
	}
}

// Threat: an attacker changes a password over and over, to keep the gate and
// the database busy. The page says when the next change is possible.
func TestPasswordChangesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	now := password
	for n := range 10 {
		next := fmt.Sprintf("trombone velvet acorn %d", n)
		if got := ada.post("/settings/password", "current", now, "password", next); got.location != "/settings/sessions?done=password" {
			t.Fatalf("change %d: got %d to %q", n, got.status, got.location)
		}
		now = next
	}
	for range 12 { // which is no guessing
		got := ada.post("/settings/password", "current", now, "password", other)
		got.has(t, http.StatusTooManyRequests, "You changed your password too often", "Try again in 6 minutes")
		if wait, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || wait < 1 || wait > 360 {
			t.Errorf("Retry-After is %q, want up to 360 seconds", got.header.Get("Retry-After"))
		}
	}
	if err := w.accounts.SetPassword(t.Context(), a.ID, other); err != nil {
		t.Errorf("the operator: %v", err)
	}
}

// resetPath makes a reset link and returns its path.
func (w *world) resetPath(id string) string {
	w.t.Helper()
	token, err := w.accounts.NewReset(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return "/reset/" + token
}

func TestResetLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	if _, err := w.accounts.Login(t.Context(), "ada@example.com", password); err != nil {
		t.Fatal(err)
	}
	phone, ada := w.person().signIn("ada@example.com"), w.person().signIn("ada@example.com")
	link := w.resetPath(a.ID)
	for _, method := range []string{http.MethodHead, http.MethodGet, http.MethodGet} { // a mail scanner opens links
		got := ada.do(method, link, nil)
		if got.status != http.StatusOK || got.header.Get("Referrer-Policy") != "no-referrer" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: got %d %v", method, got.status, got.header)
		}
	}
	ada.get(link).has(t, http.StatusOK, "New password", "ada@example.com", `minlength="15"`)
	ada.post(link, "password", "short").has(t, http.StatusUnprocessableEntity, "Use at least 15 characters", "aria-invalid")
	ada.post(link, "password", "passwordpassword1").has(t, http.StatusUnprocessableEntity, "easy to guess")

	got := ada.post(link, "password", other)
	if got.location != "/login?done=reset" || strings.Contains(got.header.Get("Location")+got.body, link) {
		t.Fatalf("got %d to %q: %s", got.status, got.location, got.body)
	}
	ada.get(got.location).has(t, http.StatusOK, "Your password is changed. Sign in with the new password.")
	if ada.signedIn() || phone.signedIn() || w.logins(a.ID) != 0 {
		t.Error("a session or a login token of the old password still works")
	}
	if got := w.person().post("/login", "email", "ada@example.com", "password", other); got.status != http.StatusSeeOther {
		t.Errorf("the new password: got %d", got.status)
	}
	w.wantDead(link)
}

// wantDead fails the test if a reset link works. All dead links have the same
// answer.
func (w *world) wantDead(link string) {
	w.t.Helper()
	unknown := w.person().get("/reset/unknown")
	unknown.has(w.t, http.StatusGone, "This link does not work", "Ask for another link")
	for _, got := range []answer{w.person().get(link), w.person().post(link, "password", "a fresh phrase of words")} {
		if got.status != http.StatusGone || got.body != unknown.body || got.header.Get("Referrer-Policy") != "no-referrer" {
			w.t.Errorf("a dead link: got %d %s", got.status, got.body)
		}
	}
}

// Threat: the token of a link is in a log or leads on to another page. The gate
// is away, so that a failure is logged.
func TestResetTokenIsNotLogged(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	a := w.add("ada@example.com", "starter")
	broken := w.resetPath(a.ID)
	c, err := w.store.ByID(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
	got := w.person().post(broken, "password", other)
	if got.location != "/login?done=reset-alone" {
		t.Errorf("got %d to %q", got.status, got.location)
	}
	w.person().get(got.location).has(t, http.StatusOK, "Your password is changed", "end as soon as it does")
	w.gate.Fail(nil)
	link := w.resetPath(a.ID)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.person().get(link).has(t, http.StatusServiceUnavailable, "Accounts are unavailable at the moment")
	w.person().post(link, "password", other).has(t, http.StatusServiceUnavailable)
	text := log.text()
	if !strings.Contains(text, "/reset/{token}") || !strings.Contains(text, a.ID) {
		t.Errorf("the failures are not logged: %q", text)
	}
	for _, secret := range []string{strings.TrimPrefix(link, "/reset/"), strings.TrimPrefix(broken, "/reset/"), other, c.Hash, "ada@"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log has %q: %s", secret, text)
		}
	}
}

// Threat: a page of another site sends the form. Browsers send "Origin: null"
// from our own form, because of its referrer policy.
func TestResetFromAnotherSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := w.resetPath(w.add("ada@example.com", "starter").ID)
	form := map[string][]string{"password": {other}}
	for _, site := range []string{"cross-site", "same-site"} {
		w.person().do(http.MethodPost, link, form, "Sec-Fetch-Site", site, "Origin", "null").has(t, http.StatusForbidden, "another site")
	}
	if got := w.person().do(http.MethodPost, link, form, "Origin", "null"); got.location != "/login?done=reset" {
		t.Errorf("our own form over plain HTTP: got %d %s", got.status, got.body)
	}
}

// The page asks for the rules of the product too.
func TestPasswordWithTheProductsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) { c.SignUp, c.Brand.Name = "free", "Weather & Tides" })
	w.person().post("/signup", "email", "ada@example.com", "password", "weather & tides").
		has(t, http.StatusUnprocessableEntity, "easy to guess: it contains your e-mail address or the name of this site")
	w.person().post("/signup", "email", "ada.lovelace@example.com", "password", "Ada.Lovelace@example.com").
		has(t, http.StatusUnprocessableEntity, "The password must not be your e-mail address.")
	grace := w.add("grace@example.com", "starter")
	w.person().post(w.resetPath(grace.ID), "password", "weather & tides").
		has(t, http.StatusUnprocessableEntity, "easy to guess: it contains your e-mail address or the name of this site")
}
