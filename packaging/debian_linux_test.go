//go:build long

package packaging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// patience limits every wait for a program.
const patience = 60 * time.Second

// units are the services of the package.
var units = []string{"tollgate.service", "tollgate-upstream.service"}

// TestDebian installs the package into a root of its own, starts its services
// there as systemd does, calls them, and removes the package.
func TestDebian(t *testing.T) {
	t.Parallel()
	need(t, "dpkg", "dpkg-query", "ldd")
	deb, r := packaged(t, "tollgate_*.deb"), newRoot(t)
	before := r.files(t)
	r.dpkg(t, "--install", deb)
	secret := r.read(t, "etc/tollgate/secret")
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(secret) {
		t.Errorf("the secret has %d characters, want 64 hexadecimal digits", len(secret))
	}
	for file, want := range map[string]os.FileMode{
		"etc/tollgate/secret": 0o640, "etc/tollgate/tollgate.env": 0o640, "var/lib/tollgate": 0o750, "var/log/tollgate": 0o750, "var/backups/tollgate": 0o750,
	} {
		if mode, group := r.mode(t, file); mode != want || group != "tollgate" {
			t.Errorf("%s has the mode %o and the group %s, want %o and tollgate", file, mode, group, want)
		}
	}

	address := r.configure(t)
	stop := r.serve(t, address)
	r.callThrough(t, address)
	r.nameOperators(t)
	stop = r.drill(t, address, stop)
	stop()
	if log := r.read(t, "var/log/tollgate/access.log"); !strings.Contains(log, `"call":{"account":"acc_`) {
		t.Errorf("the access log names no account:\n%s", log)
	}

	// An upgrade keeps the secret and what the operator changed.
	configured := r.read(t, "etc/tollgate/tollgate.env")
	r.dpkg(t, "--install", deb)
	if r.read(t, "etc/tollgate/secret") != secret || r.read(t, "etc/tollgate/tollgate.env") != configured {
		t.Error("an upgrade changed the secret or the settings")
	}

	r.dpkg(t, "--remove", "tollgate")
	kept := []string{"/etc/tollgate", "/etc/tollgate/Caddyfile", "/etc/tollgate/log.caddyfile", "/etc/tollgate/secret", "/etc/tollgate/tollgate.env"}
	if remains := r.remains(t, before); !slices.Equal(remains, kept) {
		t.Errorf("beside the data, %q remain after remove, want %q", remains, kept)
	}
	r.dpkg(t, "--purge", "tollgate")
	if remains := r.remains(t, before); len(remains) > 0 {
		t.Errorf("beside the data, %q remain after purge", remains)
	}
	if _, err := os.Stat(r.path("var/lib/tollgate/upstream/accounts.db")); err != nil {
		t.Errorf("purge deleted the accounts: %v", err)
	}
}

// drill makes a backup as the timer does, restores it into an empty Badger and
// an empty Redis, and checks that the exports are equal and that logins work.
func (r root) drill(t *testing.T, address string, stop func()) func() {
	t.Helper()
	const unit, backups = "tollgate-backup.service", "var/backups/tollgate"
	zone, err := time.LoadLocation(stack.CalmZone())
	must(t, err)
	export := "/usr/bin/tollgate-caddy tollgate usage export --format json --month " + time.Now().In(zone).Format("2006-01")
	want := output(t, r.command(t, "root", export))
	if !strings.Contains(want, `"endpoint":"convert"`) {
		t.Errorf("the export has no calls:\n%s", want)
	}
	r.failAccounts(t)
	// These files are not of the script.
	r.write(t, backups+"/notes.txt", "")
	r.write(t, backups+"/other-accounts-2020-01-01T000000Z.db", "")
	out := output(t, r.command(t, r.setting(t, unit, "User"), r.setting(t, unit, "ExecStart")))
	if !strings.Contains(out, "Backed up the state of") || !strings.Contains(out, "Mount another disk there") {
		t.Errorf("the backup does not say what it did, and that its disk is that of the data:\n%s", out)
	}
	files, err := filepath.Glob(r.path(backups, "*"))
	must(t, err)
	if len(files) != 4 || strings.TrimSuffix(filepath.Base(files[0]), ".db")[len("accounts"):] != strings.TrimSuffix(filepath.Base(files[1]), ".backup")[len("gate"):] {
		t.Fatalf("the backups are %q, want one of the accounts and one of the gate, and the other files", files)
	}
	server := redistest.Start(t)
	inRedis := strings.Replace(r.read(t, "etc/tollgate/Caddyfile"), `store badger "{$TOLLGATE_DATA:./data}/gate"`, "store redis "+server.URL(), 1)
	for _, caddyfile := range []string{r.read(t, "etc/tollgate/Caddyfile"), inRedis} {
		stop()
		must(t, os.RemoveAll(r.path("var/lib/tollgate")))
		r.write(t, "etc/tollgate/Caddyfile", caddyfile)
		for _, line := range []string{
			"/usr/bin/install -d -o tollgate -g tollgate -m 0750 /var/lib/tollgate /var/lib/tollgate/upstream",
			"/usr/bin/install -o tollgate -g tollgate -m 0600 " + strings.TrimPrefix(files[0], string(r)) + " /var/lib/tollgate/upstream/accounts.db",
			"/usr/bin/tollgate-caddy tollgate restore " + strings.TrimPrefix(files[1], string(r)) + " --config /etc/tollgate/Caddyfile --adapter caddyfile",
		} {
			output(t, r.command(t, "root", line))
		}
		stop = r.serve(t, address)
		if got := output(t, r.command(t, "root", export)); got != want {
			t.Errorf("after a restore, the export has\n%swant\n%s", got, want)
		}
		logInAndCall(t, address, "a@example.com", "a password of a test")
	}
	return stop
}

// failAccounts checks that the gate gets its backup if the accounts are in
// PostgreSQL, that the command for them is printed, and that the unit fails.
// The copy of the accounts remains.
func (r root) failAccounts(t *testing.T) {
	t.Helper()
	const dir = "var/backups/tollgate/other"
	output(t, r.command(t, "root", "/usr/bin/install -d -o tollgate -g tollgate /"+dir))
	r.write(t, dir+"/gate-2020-01-01T000000Z.backup", "")
	r.write(t, dir+"/accounts-2020-01-01T000000Z.db", "")
	out, err := r.command(t, "tollgate", "/usr/bin/tollgate-backup /"+dir, "TOLLGATE_DATABASE=postgres://tollgate@127.0.0.1/tollgate").CombinedOutput()
	gates, _ := filepath.Glob(r.path(dir, "gate-*.backup"))
	accounts, _ := filepath.Glob(r.path(dir, "accounts-*.db"))
	if err == nil || !strings.Contains(string(out), "pg_dump ") || len(gates) != 2 || len(accounts) != 1 {
		t.Errorf("with PostgreSQL, the backup ends with %v, and %q and %q are there:\n%s", err, gates, accounts, out)
	}
	must(t, os.RemoveAll(r.path(dir)))
}

// TestDebianCallsSystemd: the operator starts the services, an upgrade
// restarts them, and a removal stops them. An upgrade succeeds if a service
// does not start, and restarts none if the new version refuses the
// configuration.
func TestDebianCallsSystemd(t *testing.T) {
	t.Parallel()
	need(t, "dpkg", "dpkg-query", "ldd")
	deb, r := packaged(t, "tollgate_*.deb"), newRoot(t)
	// systemd cannot run here.
	must(t, os.MkdirAll(r.path("run/systemd/system"), 0o755))
	r.write(t, "usr/bin/systemctl", "#!/bin/sh\necho \"$@\" >>/tmp/calls\n[ \"$1\" != try-restart ]\n")
	must(t, os.Chmod(r.path("usr/bin/systemctl"), 0o755))
	r.dpkg(t, "--install", deb)
	if out := r.dpkg(t, "--install", deb); !strings.Contains(out, "a service did not restart") {
		t.Errorf("an upgrade does not say that a service did not restart:\n%s", out)
	}
	caddyfile := r.read(t, "etc/tollgate/Caddyfile")
	r.write(t, "etc/tollgate/Caddyfile", strings.Replace(caddyfile, "plan starter {", "plan starter {\nnothing 1", 1))
	if out := r.dpkg(t, "--install", deb); !strings.Contains(out, "run the old version") || strings.Count(out, `there is no endpoint "nothing"`) != 1 || strings.Contains(out, `{"level"`) {
		t.Errorf("an upgrade does not say why it restarts nothing:\n%s", out)
	}
	r.dpkg(t, "--purge", "tollgate")
	const both = " tollgate.service tollgate-upstream.service"
	want := "daemon-reload\n" + "daemon-reload\ntry-restart" + both + "\n" + "daemon-reload\n" +
		"disable --now" + both + " tollgate-backup.timer\ndaemon-reload\n"
	if got := r.read(t, "tmp/calls"); got != want {
		t.Errorf("the scripts call systemctl with\n%swant\n%s", got, want)
	}
}

// remains returns the files that are new since before, except the data and
// what systemd deletes when the services stop.
func (r root) remains(t *testing.T, before []string) (remains []string) {
	t.Helper()
	for _, file := range r.files(t) {
		if !slices.Contains(before, file) && !data.MatchString(file) {
			remains = append(remains, file)
		}
	}
	return remains
}

// data matches what a removal keeps, or systemd deletes.
var data = regexp.MustCompile(`^(/var/lib/tollgate|/var/log|/var/backups|/run/tollgate)`)

// configure gives free ports to the services as an operator does, and returns
// the address of the site.
func (r root) configure(t *testing.T) (address string) {
	t.Helper()
	ports := stack.FreePorts(t, 3)
	address = "http://127.0.0.1:" + ports[0]
	text := r.read(t, "etc/tollgate/tollgate.env")
	for name, value := range map[string]string{
		"ADDRESS": address, "CONTROL": ":" + ports[1], "UPSTREAM": "127.0.0.1:" + ports[2], "TIMEZONE": stack.CalmZone(),
	} {
		text = regexp.MustCompile(`(?m)^TOLLGATE_`+name+`=.*`).ReplaceAllString(text, "TOLLGATE_"+name+"="+value)
	}
	r.write(t, "etc/tollgate/tollgate.env", text+"TOLLGATE_RATES=embedded\n")
	return address
}

// serve starts the commands of the units as their user, and waits until the
// site answers. It returns what stops them.
func (r root) serve(t *testing.T, address string) (stop func()) {
	t.Helper()
	// systemd makes it: RuntimeDirectory.
	must(t, os.MkdirAll(r.path("run/tollgate"), 0o750))
	entry := r.path("var/lib/tollgate")
	info, err := os.Stat(entry)
	must(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	must(t, os.Chown(r.path("run/tollgate"), int(owner.Uid), int(owner.Gid)))
	var commands []*exec.Cmd
	for _, unit := range units {
		cmd := r.command(t, r.setting(t, unit, "User"), r.setting(t, unit, "ExecStart"))
		run(t, cmd)
		commands = append(commands, cmd)
	}
	await(t, address+"/healthz")
	control := regexp.MustCompile(`(?m)^TOLLGATE_CONTROL=(.*)`).FindStringSubmatch(r.read(t, "etc/tollgate/tollgate.env"))[1]
	await(t, "http://127.0.0.1"+control+"/tollgate/health/ready")
	return func() {
		t.Helper()
		for _, cmd := range commands {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v", cmd, err)
			}
		}
	}
}

// setting returns a setting of an installed unit.
func (r root) setting(t *testing.T, unit, name string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindStringSubmatch(r.read(t, "usr/lib/systemd/system/"+unit))
	if match == nil {
		t.Fatalf("%s has no %s", unit, name)
	}
	return match[1]
}

// callThrough makes an account as root, logs in, calls, and reloads.
func (r root) callThrough(t *testing.T, address string) {
	t.Helper()
	add := r.command(t, "root", "/usr/bin/tollgate-upstream account add --email a@example.com --plan starter")
	add.Stdin = strings.NewReader("a password of a test\n")
	output(t, add)
	logInAndCall(t, address, "a@example.com", "a password of a test")
	output(t, r.command(t, "root", "/usr/bin/tollgate-caddy tollgate health"))
	output(t, r.command(t, r.setting(t, "tollgate.service", "User"), r.setting(t, "tollgate.service", "ExecReload")))
	logInAndCall(t, address, "a@example.com", "a password of a test")
}

// nameOperators checks that the audit log names who called a command, and not
// the user of the services.
func (r root) nameOperators(t *testing.T) {
	t.Helper()
	var want []string
	for _, test := range []struct{ user, env, actor string }{
		{"root", "", "root"},
		{"root", "SUDO_USER=ada", "ada"},
		{"tollgate", "SUDO_USER=bob", "bob"},
		{"root", "TOLLGATE_ACTOR=deploy", "deploy"},
	} {
		line := "/usr/bin/tollgate-caddy tollgate account set operated --plan starter --label " + test.actor
		output(t, r.command(t, test.user, line, test.env))
		want = append(want, test.actor)
	}
	var page struct {
		Audit []struct{ Actor struct{ ID string } }
	}
	must(t, json.Unmarshal([]byte(output(t, r.command(t, "root", "/usr/bin/tollgate-caddy tollgate audit --account operated --json"))), &page))
	var got []string
	for _, entry := range page.Audit {
		got = append(got, entry.Actor.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit log names %q, want %q", got, want)
	}
}

// logInAndCall checks that the gate admits a call with a token of a login, and
// refuses a call without.
func logInAndCall(t *testing.T, address, email, password string) {
	t.Helper()
	status, body := call(t, http.MethodPost, address+"/api/login", "", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password))
	token := regexp.MustCompile(`"token":"([^"]+)"`).FindStringSubmatch(body)
	if status != http.StatusOK || token == nil {
		t.Fatalf("the login answers %d %s, want 200 and a token", status, body)
	}
	if status, body := call(t, http.MethodGet, address+"/api/convert/USD/100/EUR", token[1], ""); status != http.StatusOK || !strings.Contains(body, `"amount":100`) {
		t.Errorf("a call answers %d %s, want 200 and the amount", status, body)
	}
	if status, body := call(t, http.MethodGet, address+"/api/convert/USD/100/EUR", "", ""); status != http.StatusUnauthorized {
		t.Errorf("a call without a token answers %d %s, want 401", status, body)
	}
}

func call(t *testing.T, method, url, token, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(data)
}

// run starts a command, and kills it at the end of a test that did not stop
// it. The output is logged if the test fails.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("%s:\n%s", cmd, &out)
		}
	})
}

// output runs a command, and returns its output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// await waits until a URL answers with 200.
func await(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s does not answer with 200: %v", url, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// exposure is the highest exposure that systemd may find in a unit, in
// tenths: from 0 to 100.
var exposure = map[string]string{"tollgate.service": "20", "tollgate-upstream.service": "15", "tollgate-backup.service": "15"}

// TestUnits checks the units with systemd, the package with lintian, and that it
// has the help of the commands.
func TestUnits(t *testing.T) {
	t.Parallel()
	need(t, "dpkg", "dpkg-query", "ldd", "lintian", "systemd-analyze")
	deb, r := packaged(t, "tollgate_*.deb"), newRoot(t)
	do(t, "lintian", "--fail-on", "error", deb)
	r.dpkg(t, "--install", deb)
	for page, text := range map[string]string{
		"tollgate-caddy-tollgate-backup": "Only complete backups are deleted", "tollgate-upstream-account-add": "tollgate-upstream account add <email>",
	} {
		page := r.path("usr/share/man/man8", page+".8.gz")
		if got := strings.ReplaceAll(do(t, "gzip", "-dc", page), `\-`, "-"); !strings.Contains(got, text) {
			t.Errorf("%s has no %q:\n%s", page, text, got)
		}
	}
	for _, unit := range append([]string{"tollgate-backup.service", "tollgate-backup.timer"}, units...) {
		file := r.path("usr/lib/systemd/system", unit)
		if out := do(t, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "--root="+string(r), "/usr/lib/systemd/system/"+unit); out != "" {
			t.Errorf("systemd says about %s:\n%s", unit, out)
		}
		if exposure[unit] != "" {
			do(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+exposure[unit], file)
		}
	}
}
