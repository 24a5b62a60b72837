package examples_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// claims are headers in which a client claims to be another user.
var claims = []string{"Remote-User", "alice", "X-Auth-Request-User", "alice", "X-User", "alice", "Tollgate-Account", "staff.alice", "Tollgate_Account", "staff.alice"}

// TestIdentity runs the example of users of basic_auth.
func TestIdentity(t *testing.T) {
	for name, password := range map[string]string{"ALICE_PASSWORD_HASH": "wonderland", "BOB_PASSWORD_HASH": "builder"} {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		must(t, err)
		t.Setenv(name, string(hash))
	}
	site, gate := run(t, "identity.Caddyfile", mirror(t, "Authorization"))
	token := newKey(t, gate, "acc_1", "team")
	basic := func(user string) []string {
		return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user))}
	}
	wantAccounts(t, site+"/v1/reports", map[string][]string{
		"staff.alice staff": basic("alice:wonderland"),
		"staff.bob staff":   basic("bob:builder"),
		"acc_1 team":        {"Authorization", "Bearer " + token},
	})
	for _, fields := range [][]string{nil, basic("alice:builder"), {"Authorization", "Bearer tgk_wrong"}, {"Authorization", "Bearer wrong"}} {
		wantStatus(t, 401, "GET", site+"/v1/reports", "", append(fields, claims...)...)
	}
	wantStatus(t, 400, "GET", site+"/v1/reports", "", append(basic("alice:wonderland"), "Authorization", "Bearer "+token)...)
	wantStatus(t, 200, "GET", site+"/admin", "", basic("alice:wonderland")...)
	wantLogin(t, site, token, func(response *http.Response) bool {
		return response.StatusCode == 401 && strings.HasPrefix(response.Header.Get("WWW-Authenticate"), "Basic ")
	})
	exhaust(t, gate, "staff.alice", "reports", 2)
	wantStatus(t, 429, "GET", site+"/v1/reports", "", basic("alice:wonderland")...)
	wantStatus(t, 200, "GET", site+"/v1/reports", "", basic("bob:builder")...)
}

// TestIdentityForwardAuth runs the other form of the example, which is in its
// comments. The login server of this test knows a user by a cookie.
func TestIdentityForwardAuth(t *testing.T) {
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("session")
		switch {
		case r.URL.Path != "/api/authz/forward-auth" || r.Header.Get("X-Forwarded-Uri") == "":
			t.Errorf("the login server got %s with %v", r.URL, r.Header)
		case err != nil:
			http.Redirect(w, r, "https://login.example.com/", http.StatusFound)
		case cookie.Value != "nameless":
			w.Header().Set("Remote-User", cookie.Value)
		}
	}))
	t.Cleanup(login.Close)
	t.Setenv("LOGIN_SERVER", login.Listener.Addr().String())
	text := read(t, "identity.Caddyfile")
	_, basic, _ := strings.Cut(text, "\tbasic_auth @people")
	basic, _, _ = strings.Cut(basic, "}\n\t# Or")
	_, forward, _ := strings.Cut(text, "\t#\tforward_auth")
	forward, _, _ = strings.Cut(forward, "\n\t#\n")
	site, gate := run(t, "identity.Caddyfile", mirror(t, "Remote-User"),
		"identity {http.auth.user.id}", "identity {http.reverse_proxy.header.Remote-User}",
		"\tbasic_auth @people"+basic+"}\n", "",
		"\t#\tforward_auth"+forward, strings.ReplaceAll("\t#\tforward_auth"+forward, "\t#\t", "\t"))
	token := newKey(t, gate, "acc_1", "team")
	wantAccounts(t, site+"/v1/reports", map[string][]string{
		"staff.carol staff": {"Cookie", "session=carol"},
		"staff.bob staff":   {"Cookie", "session=bob"},
		"acc_1 team":        {"Authorization", "Bearer " + token},
		"staff.auth0-carol--s3inkvnosmnte24grehyankvjgiwje2q staff": {"Cookie", "session=auth0|carol"}, // of auth0|carol
	})
	wantStatus(t, 401, "GET", site+"/v1/reports", "", append(claims, "Cookie", "session=nameless")...)
	wantStatus(t, 401, "GET", site+"/v1/reports", "", append(claims, "Authorization", "Bearer tgk_wrong")...)
	http.DefaultClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() { http.DefaultClient.CheckRedirect = nil })
	wantStatus(t, 302, "GET", site+"/v1/reports", "", claims...)
	wantStatus(t, 200, "GET", site+"/admin", "", "Cookie", "session=carol")
	wantLogin(t, site, token, func(response *http.Response) bool { return response.StatusCode == 302 })
}

// TestIdentityHandle runs the form of oauth2-proxy, which is in the comments of
// the example. The login server answers as oauth2-proxy 7.15 with
// --set-xauthrequest. A gate in front of the handle refuses each user.
func TestIdentityHandle(t *testing.T) {
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("_oauth2_proxy")
		switch {
		case r.URL.Path == "/oauth2/sign_in":
			_, err = io.WriteString(w, "sign in")
			must(t, err)
		case r.URL.Path != "/oauth2/auth" || r.Header.Get("X-Real-IP") == "" || r.Header.Get("X-Forwarded-Uri") == "":
			t.Errorf("the login server got %s with %v", r.URL, r.Header)
		case err != nil:
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
		default:
			w.Header().Set("X-Auth-Request-User", cookie.Value)
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(login.Close)
	t.Setenv("LOGIN_SERVER", login.Listener.Addr().String())
	t.Setenv("ALICE_PASSWORD_HASH", "-")
	_, handle, _ := strings.Cut(read(t, "identity.Caddyfile"), "\t#\thandle /oauth2/*")
	handle, rest, _ := strings.Cut(handle, "\n\ttollgate\n")
	handle = "\thandle /oauth2/*" + strings.ReplaceAll(handle, "\n\t#\t", "\n\t") + "\n"
	start := func(site, handle string) (string, *client.Client) {
		text := read(t, "identity.Caddyfile")
		_, basic, _ := strings.Cut(text, "\tbasic_auth @people")
		return run(t, "identity.Caddyfile", mirror(t, "X-Auth-Request-User"),
			"identity {http.auth.user.id}", "identity {http.reverse_proxy.header.X-Auth-Request-User}",
			"\tbasic_auth @people"+basic, site+handle+strings.TrimPrefix(rest, "\treverse_proxy {$TOLLGATE_UPSTREAM:127.0.0.1:9000}\n"))
	}
	http.DefaultClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() { http.DefaultClient.CheckRedirect = nil })
	carol := []string{"Cookie", "_oauth2_proxy=carol"}

	site, _ := start("\ttollgate\n", strings.Replace(handle, "\t\ttollgate\n", "", 1))
	wantStatus(t, 401, "GET", site+"/v1/reports", "", carol...)

	site, gate := start("", handle)
	token := newKey(t, gate, "acc_1", "team")
	wantAccounts(t, site+"/v1/reports", map[string][]string{
		"staff.carol staff": carol,
		"acc_1 team":        {"Authorization", "Bearer " + token},
	})
	response, _ := ask(t, "GET", site+"/v1/reports", "", claims...)
	if to := response.Header.Get("Location"); response.StatusCode != 302 || !strings.HasPrefix(to, "/oauth2/sign_in?rd=http://") {
		t.Errorf("without a session: got %s to %s", response.Status, to)
	}
	wantStatus(t, 200, "GET", site+"/oauth2/sign_in?rd=/", "")
	wantStatus(t, 200, "GET", site+"/admin", "", carol...)
	wantLogin(t, site, token, func(response *http.Response) bool { return response.StatusCode == 302 })
}

// wantAccounts calls an endpoint with the headers of users, also with headers
// that claim another one. The keys of the map are the accounts and plans that
// the service must get.
func wantAccounts(t *testing.T, url string, users map[string][]string) {
	t.Helper()
	for want, fields := range users {
		for _, fields := range [][]string{fields, append(fields, claims...)} {
			if got := wantStatus(t, 200, "GET", url, "", fields...); got != want {
				t.Errorf("with %q the service got %q, want %q", fields, got, want)
			}
		}
	}
}

// wantLogin calls paths with a key and no login: the gate refuses what is
// below its guard, and all other paths need the login.
func wantLogin(t *testing.T, site, token string, asksForLogin func(*http.Response) bool) {
	t.Helper()
	const login = 0
	for path, want := range map[string]int{
		"/": login, "/admin": login, "/v1": login, "/v10/admin": login, "/v1;x/admin": login, "/v1/../admin": login, "/v1/%2e%2e/admin": login,
		"/v1/admin": 404, "/V1/admin": 404, "/%76%31/admin": 404,
		"//v1/admin": 400, "/admin/../v1/reports": 400, "/v1%2fadmin": 400, "/v1/..;/admin": 400,
	} {
		for _, token := range []string{token, "tgk_", "tgk_wrong"} {
			response, answer := ask(t, "GET", site+path, "", "Authorization", "Bearer "+token)
			if asksForLogin(response) != (want == login) || want != login && response.StatusCode != want {
				t.Errorf("%s: got %s %.200s, want %d (%d: the login)", path, response.Status, answer, want, login)
			}
		}
	}
	for _, wrong := range []string{"tgk_", "tgk_wrong", token + "x"} {
		response, answer := ask(t, "GET", site+"/v1/reports", "", "Authorization", "Bearer "+wrong)
		if response.StatusCode != 401 || !strings.HasPrefix(response.Header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("a wrong key: got %s %.200s, want 401 of the gate", response.Status, answer)
		}
	}
}
