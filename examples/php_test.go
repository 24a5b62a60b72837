package examples_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
		must(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
	}
	service := startPHP(t, php)
	t.Setenv("PHP_ROOT", root)
	site, gate := run(t, "php.Caddyfile", service)
	token := newKey(t, gate, "acc_1", "starter")
	get := func(path string, fields ...string) seen {
		t.Helper()
		return decode[seen](t, wantStatus(t, 200, "GET", site+path, "", fields...))
	}

	first := get("/v1/cart", "X-Api-Key", token)
	own := []string{"X-Api-Key", token, "Cookie", "PHPSESSID=" + first.Session, "Authorization", "Bearer of-the-application"}
	for name, c := range map[string]struct{ got, want seen }{
		"without a session":      {first, seen{"/v1/cart", "acc_1", "", "", first.Session, 1}},
		"with a session":         {get("/v1/cart", own[:4]...), seen{"/v1/cart", "acc_1", "", "", first.Session, 2}},
		"with both":              {get("/v1/profile", own...), seen{"/v1/profile", "acc_1", own[5], "", first.Session, 3}},
		"a key in Authorization": {get("/v1/profile", "Authorization", "Bearer "+token, "Cookie", own[3]), seen{"/v1/profile", "acc_1", "Bearer " + token, "", first.Session, 4}},
	} {
		if c.got != c.want {
			t.Errorf("%s: the application got %+v, want %+v", name, c.got, c.want)
		}
	}
	if got := get("/v1/products", own[:4]...); got.Session == first.Session || got.Calls != 1 {
		t.Errorf("an endpoint without keep: the application got %+v", got)
	}

	// Pages and files need no key. A client cannot set the account.
	if got := get("/about", "Tollgate_Account", "acc_1", "Tollgate-Account", "acc_1"); got.Account != "" || got.Path != "/about" {
		t.Errorf("a page: the application got %+v", got)
	}
	if got := wantStatus(t, 200, "GET", site+"/logo.svg", ""); got != "<svg/>" {
		t.Errorf("a file: got %q", got)
	}
	for _, path := range []string{"/index.php", "/index.php/v1/cart", "/INDEX.php/v1/cart", "/v1/index.php", "/V1/cart"} {
		wantStatus(t, 404, "GET", site+path, "", "X-Api-Key", token)
	}
	wantStatus(t, 401, "GET", site+"/v1/cart", "", "Cookie", "PHPSESSID="+first.Session)
	exhaust(t, gate, "acc_1", "cart", 2)
	if got := wantStatus(t, 429, "GET", site+"/v1/cart", "", own[:2]...); !strings.Contains(got, "quota_exceeded") {
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

// startPHP starts PHP with the listener of the test as its standard input, so
// that no other program can take the port. It returns the address.
func startPHP(t *testing.T, php string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	inherited, err := listener.(*net.TCPListener).File()
	must(t, err)
	defer inherited.Close()
	var out bytes.Buffer
	command := exec.Command(php, "-n", "-d", "session.save_path="+t.TempDir())
	command.Stdin, command.Stdout, command.Stderr = inherited, &out, &out
	must(t, command.Start())
	t.Cleanup(func() {
		if err := command.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = command.Wait() // it was killed
		if t.Failed() {
			t.Logf("PHP wrote:\n%s", &out)
		}
	})
	return listener.Addr().String()
}
