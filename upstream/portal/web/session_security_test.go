package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// The same, while a page is under way: it must not bring the session
// back.
func TestSignOutDuringPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	for range 2 {
		ada := w.person().signIn("ada@example.com")
		stolen := ada.cookie()
		w.clock.advance(2 * time.Minute) // every page touches its session
		var pages sync.WaitGroup
		for range 8 {
			pages.Go(func() { w.thief(stolen) })
		}
		ada.post("/logout")
		pages.Wait()
		if w.thief(stolen) {
			t.Fatal("the session is back")
		}
	}
}

// Threat: a token that an attacker planted in the browser before the sign-in
// is as good as the person's own after it.
func TestSessionFixation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	w.add("eve@example.com", "starter")
	planted := w.person().signIn("eve@example.com").cookie()
	for _, cookie := range []string{planted, "tollgate=chosen-by-eve"} {
		got := w.person().do(http.MethodPost, "/login",
			url.Values{"email": {"ada@example.com"}, "password": {password}}, "Cookie", cookie)
		if fresh := got.header.Get("Set-Cookie"); got.status != http.StatusSeeOther || strings.HasPrefix(fresh, cookie+";") {
			t.Errorf("got %d and the cookie %q after %q", got.status, fresh, cookie)
		}
		if w.thief(cookie) {
			t.Errorf("%q opens a session", cookie)
		}
	}
}

// Threat: who knew the old password, or has a copy of a cookie, stays
// after the password was changed.
func TestPasswordEndsSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada, phone := w.person().signIn("ada@example.com"), w.person().signIn("ada@example.com")
	stolen := ada.cookie()
	got := ada.post("/settings/password", "current", password, "password", other)
	if got.status != http.StatusSeeOther || !ada.signedIn() {
		t.Errorf("got %d; the browser of the change must stay signed in", got.status)
	}
	if phone.signedIn() || w.thief(stolen) {
		t.Error("a session of the old password lives on")
	}
	if got := w.person().post("/login", "email", "ada@example.com", "password", password); got.status != http.StatusUnauthorized {
		t.Errorf("the old password: got %d, want 401", got.status)
	}
	// An operator's change ends them all.
	if err := w.accounts.SetPassword(t.Context(), a.ID, password); err != nil {
		t.Fatal(err)
	}
	if ada.signedIn() {
		t.Error("a session outlives the operator's change of the password")
	}
}

// Threat: who finds a browser open guesses the password, to keep the
// account.
func TestGuessingInASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	var guesses sync.WaitGroup
	var mu sync.Mutex
	verified := 0
	for range 20 {
		guesses.Go(func() {
			got := ada.post("/settings/password", "current", "a wrong guess", "password", other)
			mu.Lock()
			defer mu.Unlock()
			if got.status == http.StatusUnauthorized {
				verified++
			}
		})
	}
	guesses.Wait()
	if verified != 5 || ada.signedIn() {
		t.Errorf("%d guesses were checked, and signed in is %v; want 5, and the session over", verified, ada.signedIn())
	}
	if got := w.person().post("/login", "email", "ada@example.com", "password", password); got.status != http.StatusSeeOther {
		t.Errorf("the person: got %d, want 303", got.status)
	}
}

// Threat: an attacker who knows the password of one account makes more and more
// sessions with it, and work with bad new passwords.
func TestChangesInASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for range 20 {
		ada.post("/settings/password", "current", password, "password", "short").has(t, 422, "Use at least 15 characters")
	}
	var changes sync.WaitGroup
	for i := range 5 {
		changes.Go(func() {
			ada.post("/settings/password", "current", password, "password", fmt.Sprintf("trombone velvet acorn %d", i))
		})
	}
	changes.Wait()
	sessions, err := w.store.Sessions(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	who, err := w.accounts.Identify(t.Context(), a.ID)
	if err != nil || who.Version != 2 || len(sessions) != 1 || sessions[0].Version != 2 {
		t.Errorf("%d sessions and version %d, %v; want one change and its session", len(sessions), who.Version, err)
	}
}

// Threat: a disabled or deleted account goes on in the browser where it
// is signed in, or comes back with it when it is enabled again.
func TestDisableEndsSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	stolen := ada.cookie()
	if err := w.accounts.Set(t.Context(), a.ID, api.AccountChange{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	if ada.signedIn() {
		t.Error("a disabled account is signed in")
	}
	if got := w.person().post("/login", "email", "ada@example.com", "password", password); got.status != http.StatusUnauthorized {
		t.Errorf("signing in: got %d, want 401", got.status)
	}
	if err := w.accounts.Set(t.Context(), a.ID, api.AccountChange{Disabled: new(false)}); err != nil {
		t.Fatal(err)
	}
	if w.thief(stolen) {
		t.Error("the session is back")
	}
	ada.signIn("ada@example.com")
	if err := w.accounts.Delete(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if ada.signedIn() {
		t.Error("a deleted account is signed in")
	}
}

// A session ends after the idle time and after its lifetime. Updates that a
// page sends by itself are not visits.
func TestSessionExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for range int(account.SessionLifetime/account.SessionIdle) * 2 {
		w.clock.advance(account.SessionIdle/2 - time.Minute)
		ada.get("/usage").has(t, http.StatusOK)
	}
	w.clock.advance(account.SessionIdle / 2)
	if ada.signedIn() {
		t.Error("the session outlives its lifetime")
	}
	ada.signIn("ada@example.com")
	for range 3 {
		w.clock.advance(account.SessionIdle/3 - time.Minute)
		ada.get("/usage?background=1").has(t, http.StatusOK)
	}
	w.clock.advance(4 * time.Minute)
	got := ada.get("/usage")
	if got.status != http.StatusSeeOther || !strings.Contains(got.location, "ended=1") || !strings.Contains(got.location, "next=%2Fusage") {
		t.Errorf("idle: got %d to %q, want the sign-in", got.status, got.location)
	}
	ada.get(got.location).has(t, http.StatusOK, "Your session has ended")
}

// Threat: a cookie that another host, a script or a plain connection gets.
func TestCookie(t *testing.T) {
	t.Parallel()
	for scheme, want := range map[string][]string{
		"http":  {"tollgate=", "HttpOnly", "SameSite=Lax", "Path=/"},
		"https": {"__Host-tollgate=", "HttpOnly", "SameSite=Lax", "Path=/", "Secure"},
	} {
		w := newWorld(t, func(c *web.Config) { c.Address = &url.URL{Scheme: scheme, Host: "example.com"} })
		w.add("ada@example.com", "starter")
		cookie := w.person().post("/login", "email", "ada@example.com", "password", password).header.Get("Set-Cookie")
		for _, part := range want {
			if !strings.Contains("; "+cookie, "; "+part) {
				t.Errorf("%s: the cookie %q lacks %q", scheme, cookie, part)
			}
		}
		if strings.Contains(cookie, "Domain") {
			t.Errorf("%s: the cookie %q goes to other hosts", scheme, cookie)
		}
	}
}

// Threat: who reads the database can sign in as anybody.
func TestTokensAreNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	sessions, err := w.store.Sessions(context.Background(), a.ID)
	if err != nil || len(sessions) != 1 {
		t.Fatalf("got %v, %v; want one session", sessions, err)
	}
	if strings.Contains(ada.cookie(), sessions[0].ID) || w.thief("tollgate="+sessions[0].ID) {
		t.Error("the database holds the token")
	}
}

// One session ends, this one too. Threat: a person ends the session of another
// account.
func TestSignOutOneSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	w.add("bob@example.com", "starter")
	ada, phone, laptop, bob := w.person().signIn("ada@example.com"), w.person().signIn("ada@example.com"), w.person().signIn("ada@example.com"), w.person().signIn("bob@example.com")
	ids := func(p *person) (ids []string) {
		for _, found := range regexp.MustCompile(`name="session" value="([^"]+)"`).FindAllStringSubmatch(p.get("/settings/sessions").body, -1) {
			ids = append(ids, found[1])
		}
		return ids
	}
	all := ids(ada)
	if len(all) != 3 || len(ids(bob)) != 1 {
		t.Fatalf("the pages have the buttons of %q and %q", all, ids(bob))
	}
	for _, id := range []string{ids(bob)[0], "nothing", ""} {
		if got := ada.post("/settings/sessions", "session", id); got.location != "/settings/sessions?done=unchanged" {
			t.Errorf("%q: got %d to %q", id, got.status, got.location)
		}
	}
	if !ada.signedIn() || !phone.signedIn() || !laptop.signedIn() || !bob.signedIn() {
		t.Fatal("a session ended that is none of the account")
	}
	own := regexp.MustCompile(`This browser</span> <button name="session" value="([^"]+)"`).FindStringSubmatch(ada.get("/settings/sessions").body)[1]
	others := slices.DeleteFunc(all, func(id string) bool { return id == own })
	ada.post("/settings/sessions", "session", others[0])
	if phone.signedIn() == laptop.signedIn() || !ada.signedIn() {
		t.Errorf("signed in: here %v, elsewhere %v and %v, want all but one elsewhere", ada.signedIn(), phone.signedIn(), laptop.signedIn())
	}
	got := ada.do(http.MethodPost, "/settings/sessions", url.Values{"session": {own}}, "Sec-Fetch-Site", "cross-site")
	if got.status != http.StatusForbidden || !ada.signedIn() {
		t.Errorf("a form of another site: got %d", got.status)
	}
	if got := ada.post("/settings/sessions", "session", own); got.location != "/login?done=signed-out" || ada.signedIn() {
		t.Errorf("this browser: got %d to %q", got.status, got.location)
	}
}
