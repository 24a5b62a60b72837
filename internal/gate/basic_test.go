package gate_test

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

const (
	askBearer = `Bearer realm="api"`
	askBoth   = `Basic realm="api", Bearer realm="api"`
	badToken  = `, error="invalid_token"`
)

// password is a header with a user name and a password.
func password(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// encoded is a header of the scheme Basic with any text.
func encoded(text string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(text))
}

// passwords makes a world that takes tokens as passwords.
func passwords(t *testing.T, change func(*policy.Config)) (*world, *received) {
	return fronting(t, func(c *policy.Config) {
		c.TokenBasic = true
		if change != nil {
			change(c)
		}
	})
}

// TestBasic: a token is the password, or the user name if the password is no
// token. The service never gets it. All refusals of a token are the same bytes.
func TestBasic(t *testing.T) {
	t.Parallel()
	w, got := passwords(t, nil)
	own := w.account(t, "acc_1")
	second := w.key(t, store.Key{ID: "key_second", Account: "acc_1", Name: "second"})
	revoked, unknown := w.key(t, store.Key{ID: "key_revoked", Account: "acc_1", Name: "revoked"}), newToken(t).Reveal()
	if err := w.db.RevokeKey(t.Context(), "acc_1", "key_revoked", noon); err != nil {
		t.Fatal(err)
	}
	const foreign, kept = "an-old-token-of-another-gate", "/api/rates/EUR"
	w.foreignKey(t, "acc_1", "key_old", token.Foreign(foreign))
	w.foreignKey(t, "acc_1", "key_colon", token.Foreign("a:token:with:colons:in:it"))
	var refused *httptest.ResponseRecorder // as an invalid token
	for name, c := range map[string]struct {
		target  string
		headers []string
		status  int
		code    string
	}{
		"password":                       {convert, []string{password("git", own)}, 200, ""},
		"password without a user":        {convert, []string{password("", own)}, 200, ""},
		"user without a password":        {convert, []string{password(own, "")}, 200, ""},
		"scheme in another case":         {convert, []string{strings.Replace(password("git", own), "Basic ", "bASIC  ", 1)}, 200, ""},
		"foreign token":                  {convert, []string{password("git", foreign)}, 200, ""},
		"foreign token as the user":      {convert, []string{password(foreign, "")}, 200, ""},
		"form of GitHub":                 {convert, []string{password(own, "x-oauth-basic")}, 200, ""},
		"colons in the password":         {convert, []string{password("git", "a:token:with:colons:in:it")}, 200, ""},
		"Bearer":                         {convert, []string{"Authorization: Bearer " + own}, 200, ""},
		"the service's own, and a token": {kept, []string{password("ann", "secret"), "X-Api-Key: " + own}, 200, ""},
		"malformed, and a token":         {kept, []string{"Authorization: Basic !", "X-Api-Key: " + own}, 200, ""},

		"revoked":                 {convert, []string{password("git", revoked)}, 401, "invalid_token"},
		"revoked as the user":     {convert, []string{password(revoked, "")}, 401, "invalid_token"},
		"unknown":                 {convert, []string{password("git", unknown)}, 401, "invalid_token"},
		"another password":        {convert, []string{password("ann", "secret")}, 401, "invalid_token"},
		"two foreign tokens":      {convert, []string{password(foreign, "another-token-of-another-gate")}, 401, "invalid_token"},
		"space in the password":   {convert, []string{password("git", own+" ")}, 401, "invalid_token"},
		"bad base64":              {convert, []string{"Authorization: Basic " + own}, 401, "invalid_token"},
		"base64 without padding":  {convert, []string{"Authorization: Basic YQ"}, 401, "invalid_token"},
		"no colon":                {convert, []string{encoded(own)}, 401, "invalid_token"},
		"control in the password": {convert, []string{password("git", own+"\x00")}, 401, "invalid_token"},
		"control in the user":     {convert, []string{password("git\n", own)}, 401, "invalid_token"},
		"two in a list":           {convert, []string{password("git", own) + ", Bearer " + own}, 401, "invalid_token"},
		"invalid Bearer":          {convert, []string{"Authorization: Bearer " + unknown}, 401, "invalid_token"},

		"nothing":         {convert, nil, 401, "unauthenticated"},
		"scheme alone":    {convert, []string{"Authorization: Basic"}, 401, "unauthenticated"},
		"nobody":          {convert, []string{password("", "")}, 401, "unauthenticated"},
		"another scheme":  {convert, []string{"Authorization: Digest " + own}, 401, "unauthenticated"},
		"in another form": {convert, []string{"Proxy-" + password("git", own)}, 401, "unauthenticated"},

		"two fields":                     {convert, []string{password("git", own), password("git", own)}, 400, "invalid_request"},
		"two tokens in one field":        {convert, []string{password(own, second)}, 400, "invalid_request"},
		"a token and a revoked one":      {convert, []string{password(own, revoked)}, 400, "invalid_request"},
		"Basic and Bearer":               {convert, []string{password("git", own), "Authorization: Bearer " + own}, 400, "invalid_request"},
		"token header":                   {convert, []string{password("git", own), "X-Api-Key: " + own}, 400, "invalid_request"},
		"two tokens where it keeps them": {kept, []string{password("git", own), "X-Api-Key: " + own}, 400, "invalid_request"},
		"query":                          {convert + "?access_token=x", []string{password("git", own)}, 400, "invalid_request"},
	} {
		got.header = nil
		if err := w.db.ResetCounts(t.Context(), "acc_1", "", w.gate.Policy.Calendar.At(noon).Day); err != nil {
			t.Fatal(err)
		}
		answer := w.send(t, "GET", c.target, "", c.headers...)
		if answer.Code != c.status || c.code != "" && !strings.Contains(answer.Body.String(), `"`+c.code+`"`) {
			t.Errorf("%s: got %d %s, want %d %s", name, answer.Code, answer.Body, c.status, c.code)
		}
		if (got.header != nil) != (c.status == 200) || c.target == convert && got.header.Get("Authorization") != "" || strings.Contains(got.header.Get("Authorization"), own) {
			t.Errorf("%s: the service got %v", name, got.header)
		}
		want := map[string]string{"unauthenticated": askBoth, "invalid_token": askBoth + badToken, "invalid_request": askBearer + `, error="invalid_request"`}[c.code]
		if challenge := strings.Join(answer.Header()["Www-Authenticate"], "|"); challenge != want {
			t.Errorf("%s: got the challenge %q, want %q", name, challenge, want)
		}
		if c.code == "unauthenticated" && len(c.headers) == 0 && !strings.Contains(answer.Body.String(), "or as the password of Basic authentication, or in the header X-Api-Key.") {
			t.Errorf("%s: got %s, which does not say how", name, answer.Body)
		}
		if c.code != "invalid_token" {
			continue
		}
		if refused == nil {
			refused = answer
		}
		if answer.Body.String() != refused.Body.String() || !maps.EqualFunc(answer.Header(), refused.Header(), func(a, b []string) bool { return strings.Join(a, "|") == strings.Join(b, "|") }) {
			t.Errorf("%s: got %v %s, and another time %v %s", name, answer.Header(), answer.Body, refused.Header(), refused.Body)
		}
	}
}

// TestBasicInBrowsers: a browser that opens a page, or whose page calls the API,
// gets no challenge that opens a password window.
func TestBasicInBrowsers(t *testing.T) {
	t.Parallel()
	w, _ := passwords(t, nil)
	for _, pass := range []bool{false, true} {
		passErrors(w.gate, pass)
		for header, want := range map[string]string{
			"": askBoth, "Accept: */*": askBoth, "Accept: application/json": askBoth, "Content-Type: application/grpc": askBoth,
			browser: askBearer, "Sec-Fetch-Mode: cors": askBearer, "Sec-Fetch-Mode: navigate": askBearer,
		} {
			for field, want := range map[string]string{"X-Other: 1": want, password("a", "b"): want + badToken} {
				lines := []string{field}
				if header != "" {
					lines = append(lines, header)
				}
				answer, err := w.ask("GET", convert, "", lines...)
				if (err != nil) != pass || strings.Join(answer.Header()["Www-Authenticate"], "|") != want {
					t.Errorf("%q, %q, errors pass %t: got %v, %v, want %s", header, field, pass, answer.Header(), err, want)
				}
			}
		}
	}
}

// TestBasicOfAnotherHandler: a password that is no token does not hide the user
// whom another handler has authenticated with it. A token does.
func TestBasicOfAnotherHandler(t *testing.T) {
	t.Parallel()
	w, got := passwords(t, func(c *policy.Config) {
		c.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}", Plan: "small", Prefix: "staff."}
	})
	own := w.account(t, "acc_1")
	for _, c := range []struct {
		identity, target, header, account, kept string
	}{
		{"ann", convert, password("ann", "secret"), "staff.ann", ""},
		{"ann", "/api/rates/EUR", password("ann", "secret"), "staff.ann", password("ann", "secret")},
		{"ann", convert, password("ann", own), "acc_1", ""},
		{"", convert, password("ann", own), "acc_1", ""},
		{"", convert, password("ann", "secret"), "", ""},
		{"ann", convert, password("ann", "tgk_wrong"), "", ""},
		{"ann", convert, password(own, "secret"), "acc_1", ""},
	} {
		w.mu.Lock()
		w.identity = c.identity
		w.mu.Unlock()
		got.header = nil
		answer := w.send(t, "GET", c.target, "", c.header)
		kept := strings.TrimPrefix(c.kept, "Authorization: ")
		if (answer.Code == 200) != (c.account != "") || got.header.Get("Tollgate-Account") != c.account || got.header.Get("Authorization") != kept {
			t.Errorf("%+v: got %d %s, the service got %v", c, answer.Code, answer.Body, got.header)
		}
	}
}

// TestBasicInShadow: a password that may be one of the service passes unchanged.
// A token makes the call one of its account, and goes no further.
func TestBasicInShadow(t *testing.T) {
	t.Parallel()
	w, got := passwords(t, func(c *policy.Config) { c.Mode = policy.Shadow })
	own := w.account(t, "acc_1")
	w.account(t, "acc_2")
	revoked := w.key(t, store.Key{ID: "key_revoked", Account: "acc_2", Name: "revoked"})
	if err := w.db.RevokeKey(t.Context(), "acc_2", "key_revoked", noon); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target, header  string
		status          int
		account, passed string
	}{
		{convert, password("ann", "secret"), 200, "", password("ann", "secret")},
		{convert, "Authorization: Basic !", 200, "", "Authorization: Basic !"},
		{convert, password("git", own), 200, "acc_1", ""},
		{convert + "?api_key=1", password("git", own), 200, "acc_1", ""},
		{convert, password("git", revoked), 401, "", ""},
		{convert + "?api_key=1", password(revoked, ""), 401, "", ""},
		{convert, password(own, revoked), 401, "", ""},
		{convert, password(revoked, "x-oauth-basic"), 401, "", ""},
	} {
		got.header = nil
		answer := w.send(t, "GET", c.target, "", c.header)
		if passed := strings.TrimPrefix(c.passed, "Authorization: "); answer.Code != c.status || got.header.Get("Tollgate-Account") != c.account || got.header.Get("Authorization") != passed {
			t.Errorf("%+v: got %d %s, the service got %v", c, answer.Code, answer.Body, got.header)
		}
	}
}

// TestBasicGuesses: passwords that look like foreign tokens are guesses. A
// malformed field is none.
func TestBasicGuesses(t *testing.T) {
	t.Parallel()
	w, _ := passwords(t, nil)
	own := w.account(t, "acc_1")
	ask := func(header string, status int) {
		t.Helper()
		if answer := w.send(t, "GET", convert, "", header); answer.Code != status {
			t.Fatalf("%s: got %d %s, want %d", header, answer.Code, answer.Body, status)
		}
	}
	for range 30 {
		ask("Authorization: Basic a-long-text-that-is-no-base64", http.StatusUnauthorized)
		ask(password("git", "too-short"), http.StatusUnauthorized)
	}
	for range 20 {
		ask(password("git", "a-wrong-guess-of-a-token"), http.StatusUnauthorized)
	}
	ask(password("git", "a-wrong-guess-of-a-token"), http.StatusTooManyRequests)
	ask(password("git", own), http.StatusOK)
}
