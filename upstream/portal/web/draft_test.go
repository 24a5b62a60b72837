package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// draftCookie returns the cookie of a draft that an answer sets, "" for none.
func (a answer) draftCookie() string {
	for _, cookie := range a.header.Values("Set-Cookie") {
		if name, _, _ := strings.Cut(cookie, "="); strings.HasSuffix(name, "tollgate-form") {
			return cookie
		}
	}
	return ""
}

// A session ends while a person fills in a form. After the sign-in, also after
// a wrong password, the page of the form has what was typed, once.
func TestFormOutlivesSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "business")
	ada := w.person().signIn("ada@example.com")
	page := w.issue(a.ID, "old")
	form := limitForm("203.0.113.7\n198.51.100.0/24", [3]string{"20", "month", "rates"})
	form.Set("account", a.ID)
	form.Set("name", "shop & co")
	form.Set("life", "date")
	form.Set("until", "2099-12-31")
	for _, target := range []string{"/settings/keys/new", page + "/edit"} {
		w.clock.advance(account.SessionIdle)
		got := ada.do(http.MethodPost, target, form)
		if want := "/login?ended=1&next=" + url.QueryEscape(target); got.status != http.StatusSeeOther || got.location != want {
			t.Fatalf("%s: got %d to %q, want %q", target, got.status, got.location, want)
		}
		cookie := got.draftCookie()
		for _, part := range []string{"; Path=" + target + ";", "; HttpOnly", "; SameSite=Strict", "; Max-Age=1800"} {
			if !strings.Contains(cookie, part) {
				t.Errorf("%s: the cookie %q lacks %q", target, cookie, part)
			}
		}
		ada.get(got.location).has(t, http.StatusOK, "Your session has ended", `name="next" value="`+target+`"`)
		ada.post("/login", "email", "ada@example.com", "password", other, "next", target).has(t, http.StatusUnauthorized, `name="next" value="`+target+`"`)
		if got := ada.post("/login", "email", "ada@example.com", "password", password, "next", target); got.location != target {
			t.Fatalf("after the sign-in: got %d to %q", got.status, got.location)
		}
		ada.get(target).has(t, http.StatusOK, "Nothing was changed yet.", `value="shop &amp; co"`, `value="date" checked`, `value="2099-12-31"`,
			`value="some" checked`, `value="convert" checked`, `value="20"`, `<option value="month" selected>`, `<option selected>rates`,
			"203.0.113.7\n198.51.100.0/24</textarea>")
		if again := ada.get(target).body; strings.Contains(again, "shop &amp; co") {
			t.Errorf("%s: the form is filled in a second time", target)
		}
	}
	if key := w.only(a.ID); key.Name != "old" {
		t.Errorf("the key was changed: %+v", key)
	}
}

// Threat: a browser keeps a secret of a form, or so much that servers refuse
// its requests.
func TestDraftsAreHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) { c.SignUp = "free" })
	w.add("ada@example.com", "starter")
	ada := w.person()
	for target, form := range map[string]url.Values{
		"/settings/password":       {"email": {"ada@example.com"}, "current": {password}, "password": {other}},
		"/settings/account":        {"email": {"ada@example.com"}, "current": {password}},
		"/settings/sessions":       {"session": {"a"}},
		"/settings/keys/a/revoke":  {"token": {"a secret"}},
		"/settings/keys/new":       {"name": {strings.Repeat("x", 4000)}},
		"/settings/keys/new?name=": {"password": {password}},
	} {
		if got := ada.do(http.MethodPost, target, form); got.status != http.StatusSeeOther || got.draftCookie() != "" {
			t.Errorf("%s: got %d and the cookie %q, want none", target, got.status, got.draftCookie())
		}
	}
	for _, target := range []string{"/login", "/signup"} {
		cookie := ada.post(target, "email", "ada@example.com", "password", "short", "csrf", "a secret").draftCookie()
		if !strings.Contains(cookie, "=email=ada%40example.com; Path="+target+"; ") {
			t.Errorf("%s: got the cookie %q", target, cookie)
		}
	}
	if cookie := ada.post("/login", "email", "ada@example.com", "password", password).draftCookie(); !strings.Contains(cookie, "Max-Age=0") {
		t.Errorf("after the sign-in: got the cookie %q", cookie)
	}
}

// Threat: a cookie of another site on this domain that is no draft.
func TestPlantedDraft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for _, planted := range []string{"%zz", "name=%3Cscript%3E&life=90&account=acc_other", "name=a&life=forever", "life=90&limit=1", "name=%22%3E%3Cscript%3E&life=90"} {
		got := ada.do(http.MethodGet, "/settings/keys/new", nil, "Cookie", ada.cookie()+"; tollgate-form="+planted)
		if got.has(t, http.StatusOK, "Create key"); strings.Contains(got.body, "<script>") {
			t.Errorf("%s: got %s", planted, got.body)
		}
	}
	got := w.person().do(http.MethodGet, "/login", nil, "Cookie", "tollgate-form=next=%2F%2Fevil.example&email=%22%3E")
	got.has(t, http.StatusOK, `name="next" value="/usage"`, `value="&#34;&gt;"`)
}

// Threat: another person signs in with the browser in which a form was lost.
func TestDraftOfAnotherPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	w.add("bob@example.com", "starter")
	browser := w.person().signIn("ada@example.com")
	w.clock.advance(account.SessionIdle)
	got := browser.post("/settings/keys/new", "account", a.ID, "name", "secret project", "life", "90", "addresses", "192.0.2.77")
	if got.draftCookie() == "" {
		t.Fatalf("got %d without a draft", got.status)
	}
	if got := browser.post("/login", "email", "bob@example.com", "password", password).location; got != "/usage" {
		t.Fatalf("the sign-in leads to %q", got)
	}
	page := browser.get("/settings/keys/new")
	if page.has(t, http.StatusOK, "Create key"); strings.Contains(page.body, "secret project") || strings.Contains(page.body, "192.0.2.77") {
		t.Errorf("got %s", page.body)
	}
}

// On a site with HTTPS the draft is never sent unencrypted.
func TestDraftIsSecure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) { c.Address = &url.URL{Scheme: "https", Host: "example.com"} })
	cookie := w.person().post("/login", "email", "ada@example.com", "password", password).draftCookie()
	if !strings.HasPrefix(cookie, "__Secure-tollgate-form=") || !strings.Contains(cookie, "; Secure") {
		t.Errorf("got the cookie %q", cookie)
	}
}
