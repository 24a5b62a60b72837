package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestTokenPrefix changes the word of tokens twice, as a seller does: new keys and
// login tokens have the word of the time and of the plan, and all older ones go on
// to work. Imported tokens can begin with the word. No log has a token of any word.
func TestTokenPrefix(t *testing.T) {
	t.Parallel()
	configure := func(word string) string {
		return stack.Shipped(t, "\t\tdocs /docs\n", "\t\tdocs /docs\n\t\tforeign_keys on\n"+word, "plan business {\n", "plan business {\n\t\t\ttoken_prefix acme_test\n")
	}
	s := stack.Start(t, stack.Shipped(t))
	reload := func(word string) {
		t.Helper()
		s.Configure(configure(word))
		must(t, s.Reload())
	}
	login := func(email string) string {
		t.Helper()
		response, body := s.Call("POST", "/api/login", "", strings.NewReader(fmt.Sprintf(`{"email":%q,"password":"correct horse battery staple"}`, email)))
		if response.StatusCode != http.StatusOK {
			t.Fatalf("the login of %s: got %d %s", email, response.StatusCode, body)
		}
		return decode[issued](t, body).Token
	}
	ada, bob := newAccount(t, s, "ada@example.com", "starter"), newAccount(t, s, "bob@example.com", "business")
	made := map[string]issued{"tgk_": newKey(t, s, ada, "first"), "tgl_": {Token: login("ada@example.com")}}
	reload("\t\ttoken_prefix acme_live\n")
	made["acme_live_"], made["acme_live_login_"] = newKey(t, s, ada, "live"), issued{Token: login("ada@example.com")}
	made["acme_test_"], made["acme_test_login_"] = newKey(t, s, bob, "test"), issued{Token: login("bob@example.com")}
	reload("\t\ttoken_prefix acme_2027\n")
	made["acme_2027_"] = decode[issued](t, s.Tollgate("key", "rotate", ada, newKey(t, s, ada, "rotated").ID, "--json"))
	s.Tollgate("account", "set", bob, "--plan", "starter") // his tokens keep the word of the plan before

	similar := []string{"acme_live_of_the_gateway_before", "acme_2027_" + strings.Repeat("a1", 24) + "b", "other_live_" + strings.Repeat("Z9", 24) + "0"}
	var lines string
	for i, text := range similar {
		lines += fmt.Sprintf(`{"account":%q,"name":"imported %d","token":%q}`+"\n", ada, i, text)
	}
	if _, err := s.Try("caddy", lines, "tollgate", "key", "import", "-"); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Try("caddy", fmt.Sprintf(`{"account":%q,"token":%q}`, ada, made["acme_live_"].Token), "tollgate", "key", "import", "-"); err == nil || !strings.Contains(out, "the token is one of a gate") {
		t.Errorf("import of a token of the gate: got %s, %v", out, err)
	}
	for _, word := range []string{"\t\ttoken_prefix acme_2027\n", ""} {
		reload(word)
		for prefix, key := range made {
			digits, found := strings.CutPrefix(key.Token, prefix)
			if !found || len(digits) != 49 {
				t.Errorf("a token that begins with %s has %d more characters", prefix, len(digits))
			}
			checkCall(t, s, prefix, key.Token, http.StatusOK)
			if word == "" {
				continue // after 20 unknown foreign tokens, others get 429
			}
			changed := "a" + digits[1:]
			if changed == digits {
				changed = "b" + digits[1:]
			}
			checkCall(t, s, prefix+" and a wrong checksum", prefix+changed, http.StatusUnauthorized)
			checkCall(t, s, prefix+" instead of another word", "acme_other_"+digits, http.StatusUnauthorized)
		}
		for _, text := range similar {
			checkCall(t, s, "an imported token", text, http.StatusOK)
		}
	}
	var secrets []string
	for prefix, key := range made {
		found, err := s.Try("caddy", key.Token+"\n", "tollgate", "key", "find")
		if hint := prefix + "…" + key.Token[len(key.Token)-4:]; err != nil || !strings.Contains(found, hint) {
			t.Errorf("key find: got %s, %v, want %s", found, err, hint)
		}
		secrets = append(secrets, key.Token)
	}
	for _, text := range append(secrets, similar[1:]...) {
		for _, path := range []string{
			"/" + text, "/api/rates/" + text, "/api/rates/EUR?api_key=" + text, "/x/" + strings.ReplaceAll(text, "_", "%5F"),
			"/x/" + strings.ReplaceAll(text, "e", "%2565") + "/y", "/" + strings.Repeat("x", 440) + "/" + text,
		} {
			s.Call("GET", path, text, nil)
		}
	}
	s.StopCaddy()
	for name, log := range map[string]string{"access log": read(t, s.AccessLog()), "log": s.Log()} {
		for _, text := range append(secrets, similar[1:]...) {
			if digits := text[len(text)-49:]; strings.Contains(log, digits[:34]) || strings.Contains(log, digits[15:]) {
				t.Errorf("the %s has the token that begins with %s", name, strings.TrimSuffix(text, digits))
			}
		}
	}
	if log := read(t, s.AccessLog()); strings.Count(log, `/x/REDACTED"`) < len(made) {
		t.Error("the access log has not the paths up to their tokens")
	}
}

// checkCall makes a call with a token.
func checkCall(t *testing.T, s *stack.Stack, what, token string, status int) {
	t.Helper()
	if response, body := s.Call("GET", "/api/rates/EUR", token, nil); response.StatusCode != status {
		t.Errorf("%s: got %d %s, want %d", what, response.StatusCode, body, status)
	}
}
