package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Threat: a page of another site sends a form here, and the browser
// adds the session.
func TestCrossSitePost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	id := ada.makeKey("ci")
	forms := map[string]url.Values{
		"/login":                           {"email": {"ada@example.com"}, "password": {password}},
		"/logout":                          {},
		"/settings/keys/new":               {"name": {"planted"}, "ability": {"convert"}, "life": {"0"}},
		"/settings/keys/" + id + "/revoke": {},
		"/settings/keys/" + id + "/rotate": {"overlap": {"0"}},
		"/settings/password":               {"current": {password}, "password": {other}},
		"/settings/sessions":               {},
	}
	attacks := map[string][]string{
		"cross-site":           {"Sec-Fetch-Site", "cross-site"},
		"another subdomain":    {"Sec-Fetch-Site", "same-site"},
		"old browser":          {"Origin", "https://evil.example"},
		"sandboxed frame":      {"Origin", "null"},
		"another port of ours": {"Origin", "http://127.0.0.1:1"},
	}
	before := ada.cookie()
	for target, form := range forms {
		for name, header := range attacks {
			got := ada.do(http.MethodPost, target, form, header...)
			got.has(t, http.StatusForbidden, "from another site")
			if got.header.Get("Set-Cookie") != "" {
				t.Errorf("%s, %s: got a cookie", target, name)
			}
		}
	}
	if got := w.keys(a.ID); !slices.Equal(got, []string{"ci"}) || ada.cookie() != before || !ada.signedIn() {
		t.Errorf("keys are %v, want only ci, and the session unchanged", got)
	}
	if got := ada.do(http.MethodPost, "/logout", url.Values{}, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusSeeOther {
		t.Errorf("our own form: got %d, want 303", got.status)
	}
}

// Threat: a page of another site shows one of ours in a frame, and
// lets the person click on what they do not see; or a mistake in a
// template runs what a user entered.
func TestPageHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for _, target := range []string{"/", "/login", "/usage", "/settings/keys", "/settings/keys/new",
		"/settings/plan", "/settings/password", "/settings/sessions", "/nothing"} {
		h := ada.get(target).header
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %q", target, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", target, policy)
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
		if !strings.Contains(h.Get("Permissions-Policy"), "camera=()") {
			t.Errorf("%s: permissions are %q", target, h.Get("Permissions-Policy"))
		}
	}
}

// Threat: a stranger's key id in the address.
func TestAnotherAccountsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	w.add("eve@example.com", "starter")
	id := w.person().signIn("ada@example.com").makeKey("ci")
	eve := w.person().signIn("eve@example.com")
	for _, target := range []string{"/settings/keys/" + id, "/settings/keys/" + id + "/rotate", "/settings/keys/" + id + "/revoke"} {
		got := eve.get(target)
		got.has(t, http.StatusNotFound)
		if strings.Contains(got.body, ">ci<") {
			t.Errorf("%s shows the name", target)
		}
	}
	eve.get("/settings/keys/"+id+"/edit").has(t, http.StatusNotFound)
	eve.do(http.MethodPost, "/settings/keys/"+id+"/edit", limitForm("203.0.113.7")).has(t, http.StatusNotFound)
	eve.post("/settings/keys/"+id+"/revoke").has(t, http.StatusNotFound)
	eve.post("/settings/keys/"+id+"/rotate", "overlap", "0").has(t, http.StatusNotFound)
	if got := w.keys(a.ID); !slices.Equal(got, []string{"ci"}) {
		t.Errorf("keys are %v, want ci", got)
	}
}

// Threat: a name that is markup.
func TestScriptAsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	const name = `<script>alert(1)</script>"'><img src=x>`
	made := ada.post("/settings/keys/new", "name", name, "ability", "convert", "life", "0")
	id := ada.makeKey("second")
	refused := ada.post("/settings/keys/new", "name", name, "ability", "convert", "life", "0")
	refused.has(t, http.StatusUnprocessableEntity)
	list := ada.get("/settings/keys")
	ids := strings.Split(list.body, "/settings/keys/")
	for _, got := range []answer{
		made, refused, list, ada.get("/settings/keys/" + id),
		ada.get("/settings/keys/" + strings.SplitN(ids[len(ids)-1], `"`, 2)[0]),
		ada.get("/login?next=" + url.QueryEscape(name)),
		ada.post("/login", "email", name, "password", "x"),
	} {
		if strings.Contains(got.body, "<script>alert") || strings.Contains(got.body, "<img src=x") {
			t.Errorf("the name is markup in %s", got.body)
		}
	}
	made.has(t, http.StatusOK, "&lt;script&gt;alert(1)")
	list.has(t, http.StatusOK, "&lt;script&gt;alert(1)")
}

// Threat: a link to our sign-in that redirects to another site.
func TestOpenRedirect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	for next, want := range map[string]string{
		"/settings/keys":               "/settings/keys",
		"":                             "/usage",
		"https://evil.example":         "/usage",
		"//evil.example":               "/usage",
		`/\evil.example`:               "/usage",
		"/usage//evil.example":         "/usage",
		"/usage/..//evil.example":      "/usage",
		"/\t/evil.example":             "/usage",
		"javascript:alert(1)":          "/usage",
		"/usage\r\nSet-Cookie: a=b":    "/usage",
		"/settings/keys?done=revoked":  "/settings/keys",
		"/usage?a=\r\nSet-Cookie: a=b": "/usage?a=%0D%0ASet-Cookie%3A+a%3Db",
		"/usage?//evil.example":        "/usage?%2F%2Fevil.example=",
		"/settings/keys%2f..%2f..%2fx": "/usage",
	} {
		ada := w.person()
		if got := ada.post("/login", "email", "ada@example.com", "password", password, "next", next); got.location != want {
			t.Errorf("next=%q: sent to %q, want %q", next, got.location, want)
		}
		if got := ada.get("/login?next=" + url.QueryEscape(next)); got.location != want {
			t.Errorf("signed in, next=%q: sent to %q, want %q", next, got.location, want)
		}
	}
}
