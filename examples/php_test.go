package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// application is what the PHP application of the test is: each answer has what
// it got, and counts the calls of a session in the session.
const application = `<?php
session_start();
$_SESSION['calls'] = ($_SESSION['calls'] ?? 0) + 1;
header('Content-Type: application/json');
echo json_encode([
	'path' => $_SERVER['REQUEST_URI'],
	'account' => $_SERVER['HTTP_TOLLGATE_ACCOUNT'] ?? '',
	'authorization' => $_SERVER['HTTP_AUTHORIZATION'] ?? '',
	'key' => $_SERVER['HTTP_X_API_KEY'] ?? '',
	'session' => session_id(),
	'calls' => $_SESSION['calls'],
]);
`

// seen is an answer of the application.
type seen struct {
	Path, Account, Authorization, Key, Session string
	Calls                                      int
}

// TestPHP runs the example of a PHP application with real PHP.
func TestPHP(t *testing.T) {
	php := phpCGI(t)
	root := t.TempDir()
	for file, text := range map[string]string{"index.php": application, "logo.svg": "<svg/>"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	service := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	program(t, service, exec.Command(php, "-n", "-d", "session.save_path="+t.TempDir(), "-b", service))
	t.Setenv("PHP_ROOT", root)
	site, gate := run(t, "php.Caddyfile", service)
	token := newKey(t, gate, "acc_1", "starter")
	get := func(path string, fields ...string) seen {
		t.Helper()
		return decode[seen](t, wantStatus(t, 200, "GET", site+path, "", fields...))
	}

	first := get("/v1/cart", "X-Api-Key", token)
	if first.Account != "acc_1" || first.Key != "" || first.Session == "" || first.Calls != 1 {
		t.Errorf("the first call: the application got %+v", first)
	}
	key := []string{"X-Api-Key", token, "Authorization", "Bearer of-the-application", "Cookie", "PHPSESSID=" + first.Session}
	for path, want := range map[string]struct {
		session       bool
		authorization string
	}{
		"/v1/cart":     {true, ""},
		"/v1/profile":  {true, "Bearer of-the-application"},
		"/v1/products": {false, ""},
	} {
		fields := key
		if want.authorization == "" {
			fields = slices.Delete(slices.Clone(key), 2, 4)
		}
		got := get(path, fields...)
		if got.Path != path || got.Account != "acc_1" || got.Key != "" || got.Authorization != want.authorization || (got.Session == first.Session) != want.session || (got.Calls > 1) != want.session {
			t.Errorf("%s: the application got %+v, want the session: %t", path, got, want.session)
		}
	}
	if got := get("/v1/profile", "Authorization", "Bearer "+token); got.Authorization != "Bearer "+token {
		t.Errorf("a key in Authorization: the application got %q", got.Authorization)
	}

	// Pages and files need no key. A client cannot set the account.
	if got := get("/about", "Tollgate_Account", "acc_1", "Tollgate-Account", "acc_1"); got.Account != "" || got.Path != "/about" {
		t.Errorf("a page: the application got %+v", got)
	}
	if got := wantStatus(t, 200, "GET", site+"/logo.svg", ""); got != "<svg/>" {
		t.Errorf("a file: got %q", got)
	}
	for _, path := range []string{"/index.php", "/index.php/v1/cart", "/INDEX.php/v1/cart", "/v1/index.php", "/V1/cart", "/v1/other"} {
		wantStatus(t, 404, "GET", site+path, "", "X-Api-Key", token)
	}
	wantStatus(t, 401, "GET", site+"/v1/cart", "", "Cookie", "PHPSESSID="+first.Session)
	exhaust(t, gate, "acc_1", "cart", 2)
	if got := wantStatus(t, 429, "GET", site+"/v1/cart", "", key[:2]...); !strings.Contains(got, "quota_exceeded") {
		t.Errorf("without room: got %s", got)
	}
}

// phpCGI returns the FastCGI program of PHP. A test without it is skipped, in
// CI it fails.
func phpCGI(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("php-cgi")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "true" {
		t.Skip("php-cgi is not installed")
	}
	t.Fatalf("the test needs php-cgi: %v", err)
	return ""
}
