package e2e_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestSignUpNeedsAPlan signs up with the shipped Caddyfile. The account has no
// key, no login and no call, and its pages say what it needs. Plan starter
// gives all of them at once.
func TestSignUpNeedsAPlan(t *testing.T) { stack.Forms(t, signUp) }

func signUp(t *testing.T, form ...string) {
	s := stack.Start(t, stack.Shipped(t), append(form, "TOLLGATE_SIGNUP=on", "TOLLGATE_CONTACT=help@example.com")...)
	jar, err := cookiejar.New(nil)
	must(t, err)
	browser := &http.Client{Jar: jar}
	shows := func(response *http.Response, err error) string {
		t.Helper()
		must(t, err)
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %d %s, %v", response.Request.URL, response.StatusCode, page, err)
		}
		return string(page)
	}
	const email, password = "ada@example.com", "correct horse battery staple"
	const needs = `With the plan <strong>starter</strong> or higher you can create keys.`
	logIn := func() (int, string) {
		response, text := s.Call("POST", "/api/login", "", strings.NewReader(`{"email":"`+email+`","password":"`+password+`"}`))
		return response.StatusCode, text
	}
	for _, page := range []string{
		shows(browser.Get(s.Address + "/signup")),
		shows(browser.PostForm(s.Address+"/signup", url.Values{"email": {email}, "password": {password}})),
		shows(browser.Get(s.Address + "/settings/keys/new")),
		shows(browser.Get(s.Address + "/usage")),
		shows(browser.Get(s.Address + "/settings/account")),
	} {
		if !strings.Contains(page, "has no access to the API yet") || !strings.Contains(page, needs) || !strings.Contains(page, `href="mailto:help@example.com"`) {
			t.Errorf("a page does not say what the account needs: %s", page)
		}
	}
	if status, text := logIn(); status != http.StatusForbidden || code(t, text) != "plan_required" {
		t.Errorf("the login: got %d %s", status, text)
	}
	s.Upstream("", "account", "set", email, "--plan", "starter")
	status, text := logIn()
	if status != http.StatusOK {
		t.Fatalf("the login on plan starter: got %d %s", status, text)
	}
	if response, text := s.Call("GET", "/api/currencies", decode[struct{ Token string }](t, text).Token, nil); response.StatusCode != http.StatusOK {
		t.Errorf("a call on plan starter: got %d %s", response.StatusCode, text)
	}
	if page := shows(browser.Get(s.Address + "/settings/keys/new")); strings.Contains(page, "no access") {
		t.Errorf("the page of a new key on plan starter: %s", page)
	}
}
