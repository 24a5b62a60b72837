package e2e_test

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// exampleWithLog returns an example with the shipped access log.
func exampleWithLog(t *testing.T, name string) string {
	t.Helper()
	return strings.ReplaceAll(read(t, filepath.Join(stack.Root(), "examples", name)), "\n\ttollgate\n", "\n\timport "+stack.ShippedLog()+"\n\ttollgate\n")
}

// TestGit runs the example of git repositories with git itself: clone and push
// with a key as the password, over HTTP and HTTPS. The counts are those of the
// access log.
func TestGit(t *testing.T) {
	t.Parallel()
	caddyfile := strings.Replace(exampleWithLog(t, "git.Caddyfile"), "\n{\n", "\n{\n\tdebug\n\tskip_install_trust\n\tauto_https disable_redirects\n", 1)
	needPrograms(t, "git", "fcgiwrap", "curl")
	ports, root := stack.FreePorts(t, 2), t.TempDir()
	sites := []string{"http://127.0.0.1:" + ports[0], "https://localhost:" + ports[1]}
	s := stack.StartGate(t, caddyfile, "TOLLGATE_ADDRESS="+strings.Join(sites, ", "), "GIT_SERVICE="+startFastCGI(t, "fcgiwrap"), "GIT_ROOT="+root,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	s.Tollgate("account", "set", "acme", "--plan", "team")
	all, gone := newKey(t, s, "acme", "all"), newKey(t, s, "acme", "gone")
	reader := decode[issued](t, s.Tollgate("key", "create", "acme", "--name", "reader", "--ability", "read", "--json"))
	s.Tollgate("key", "revoke", "acme", gone.ID)
	s.Run(`
git config --global user.name Ada
git config --global user.email ada@example.com
git config --global init.defaultBranch main
git config --global credential.helper '!f() { test "$1" != get || { echo username=any; echo "password=$KEY"; }; }; f'
`)
	awaitCertificate(t, s, sites[1])
	for i, site := range sites {
		scheme, host, _ := strings.Cut(site, "://")
		// as prints the URL of the repository with a user name and a password.
		prelude := fmt.Sprintf(`
REPO=git/team/tools%d.git
URL=%s/$REPO
as() { echo "%s://$1@%s/$REPO"; }
export CURL_CA_BUNDLE="$XDG_DATA_HOME/caddy/pki/authorities/local/root.crt"
export GIT_SSL_CAINFO="$CURL_CA_BUNDLE"
rm -rf work
`, i, site, scheme, host)
		for _, c := range []struct{ name, key, commands, fails string }{
			{"a push with the key in the URL", all.Token, `
git init -q --bare "$GIT_ROOT/$REPO"
printf '#!/bin/sh\nenv >"$GIT_DIR/env"\n' >"$GIT_ROOT/$REPO/hooks/post-receive"
chmod +x "$GIT_ROOT/$REPO/hooks/post-receive"
git -c credential.helper= clone -q "$(as "any:$KEY")" work
cd work
head -c 3000000 /dev/urandom >large
git add large
git commit -qm "More than git sends with a length"
git -c credential.helper= push -q origin main
test "$(git rev-parse main)" = "$(git -C "$GIT_ROOT/$REPO" rev-parse main)"
`, ""},
			{"clone and push with a credential helper", all.Token, `
git clone -q "$URL" work
cd work
git commit -q --allow-empty -m Second
git push -q origin main
test "$(git rev-parse main)" = "$(git -C "$GIT_ROOT/$REPO" rev-parse main)"
`, ""},
			{"a clone with the key as the user name", all.Token, `git -c credential.helper= clone -q "$(as "$KEY:")" work; test -s work/large`, ""},
			{"a clone in the form of GitHub", all.Token, `git -c credential.helper= clone -q "$(as "$KEY:x-oauth-basic")" work; test -s work/large`, ""},
			{"a fetch with a key that may read", reader.Token, `git clone -q "$URL" work; git -C work fetch -q`, ""},
			{"curl", reader.Token, `
refs="$URL/info/refs?service=git-upload-pack"
curl -fsS -u "any:$KEY" "$refs" >refs
curl -fsS --anyauth -u "any:$KEY" "$refs" | cmp - refs
`, ""},

			{"a push with a key that may read", reader.Token, `
git clone -q "$URL" work
cd work
git commit -q --allow-empty -m Third
git push -q origin main
`, "403"},
			{"a revoked key", gone.Token, `git clone -q "$URL" work`, "Authentication failed"},
			{"no key", "", `git -c credential.helper= clone -q "$URL" work`, "could not read Username"},
			{"another path", all.Token, `git clone -q "$URL/sub.git" work`, "not found"},
		} {
			if out, err := s.Shell("export KEY=" + c.key + prelude + c.commands); (err != nil) != (c.fails != "") || !strings.Contains(out, c.fails) {
				t.Errorf("%s: %s: got %v, %s, want %q", site, c.name, err, out, c.fails)
			}
		}
	}
	for _, repository := range []string{"tools0.git", "tools1.git"} {
		env := strings.Split(read(t, filepath.Join(root, "git", "team", repository, "env")), "\n")
		for line, want := range map[string]bool{"REMOTE_USER=acme": true, "HTTP_TOLLGATE_ACCOUNT=acme": true, "HTTP_TOLLGATE_ABILITIES=push read usage": true} {
			if slices.Contains(env, line) != want {
				t.Errorf("%s: the environment of the hook has no %s: %q", repository, line, env)
			}
		}
		if slices.ContainsFunc(env, func(line string) bool {
			return strings.Contains(line, "AUTHORIZATION") || strings.Contains(line, all.Token)
		}) {
			t.Errorf("%s: the service got a key: %q", repository, env)
		}
	}

	counts := map[string]int64{}
	for _, endpoint := range []string{"refs", "fetch", "push"} {
		counts[endpoint] = used(t, s, "acme", endpoint)
	}
	s.StopCaddy()
	logged, log := map[string]int64{}, read(t, s.AccessLog())+s.Log()
	for _, line := range accessLog(t, s) {
		logged[line.Call.Endpoint] += line.Call.Cost
		if line.UserID != "acme" || (line.Status == 200) != (line.Call.Cost == 1) {
			t.Errorf("logged %+v", line)
		}
	}
	for endpoint, want := range counts {
		if want == 0 || logged[endpoint] != want {
			t.Errorf("%s: the gate counted %d, the access log has %d", endpoint, want, logged[endpoint])
		}
	}
	encoded := base64.StdEncoding.EncodeToString([]byte("any:" + all.Token[:20]))
	if !strings.Contains(log, `"status":401`) || !strings.Contains(log, `"level":"debug"`) || strings.Contains(log, encoded) || strings.Contains(log, all.Token) {
		t.Errorf("no 401, or a password, is in the logs: %s", log)
	}
}

// startFastCGI starts a FastCGI program with the listener of the test as its
// standard input. It returns the address.
func startFastCGI(t *testing.T, program string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	inherited, err := listener.(*net.TCPListener).File()
	must(t, err)
	defer inherited.Close()
	command := exec.Command(program)
	command.Stdin, command.Stderr = inherited, os.Stderr
	must(t, command.Start())
	t.Cleanup(func() {
		if err := command.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = command.Wait() // it was killed
	})
	return listener.Addr().String()
}
