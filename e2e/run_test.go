package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
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
)

// TestRun starts everything as the README says, in both forms.
func TestRun(t *testing.T) {
	t.Parallel()
	// Nothing listens at the address of the rates.
	const noNetwork = "http://127.0.0.1:1/"
	t.Run("two processes", func(t *testing.T) { run(t, "caddy upstream", noNetwork, noRates) })
	t.Run("one process", func(t *testing.T) { run(t, "caddy", "embedded", ratesOf, "--verbose", "--one-process") })
	t.Run("a program that does not start", func(t *testing.T) {
		cmd := exec.Command(filepath.Join(stack.Root(), "xcaddy.sh"), "run")
		cmd.Env, _ = runEnvironment(t, "TOLLGATE_SECRET=short")
		if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("the secret has less than 32 characters")) || !bytes.Contains(out, []byte("a program did not start")) {
			t.Errorf("got %v, %s", err, out)
		}
	})
}

// What the greeting says about the rates.
const (
	noRates = `ECB rates of 20\d\d-\d\d-\d\d: no newer ones could be fetched, maybe because there is no network\n`
	ratesOf = `ECB rates of 20\d\d-\d\d-\d\d\n`
)

// runEnvironment returns the environment of "xcaddy.sh run" with free ports,
// and the ports of the site and the control listener.
func runEnvironment(t *testing.T, settings ...string) (env, ports []string) {
	t.Helper()
	dir := t.TempDir()
	ports = stack.FreePorts(t, 4)
	return append(append(os.Environ(),
		"TOLLGATE_ADDRESS=http://127.0.0.1:"+ports[0], "TOLLGATE_CONTROL=127.0.0.1:"+ports[1],
		"TOLLGATE_UPSTREAM=127.0.0.1:"+ports[2], "CADDY_ADMIN=127.0.0.1:"+ports[3],
		"TOLLGATE_DATA="+filepath.Join(dir, "data"), "TOLLGATE_SIGNUP=on", "TOLLGATE_TIMEZONE="+stack.CalmZone(),
		"XDG_DATA_HOME="+filepath.Join(dir, "share"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config")), settings...), ports
}

// run runs the printed lines, and stops everything as Ctrl-C does. No process
// remains.
func run(t *testing.T, programs, rates, greeting string, flags ...string) {
	cmd := exec.Command(filepath.Join(stack.Root(), "xcaddy.sh"), append([]string{"run"}, flags...)...)
	var ports []string
	cmd.Env, ports = runEnvironment(t, "TOLLGATE_RATES="+rates)
	// Ctrl-C sends the signal to the whole process group of a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out stack.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)

	lines := awaitLines(t, &out, ended)
	answer, err := exec.Command("sh", "-c", strings.Join(lines, "\n")).CombinedOutput()
	for _, want := range []string{"200 OK", `"from":"EUR","to":"USD","amount":100`, `"source":"ECB"`, `"endpoint":"convert"`, `"used":1,"remaining":999`} {
		if err != nil || !bytes.Contains(answer, []byte(want)) {
			t.Errorf("the printed lines answer %s (%v), want %q", answer, err, want)
		}
	}
	again := exec.Command(cmd.Path, cmd.Args[1:]...)
	again.Env = cmd.Env
	said, err := again.CombinedOutput()
	if err == nil || !bytes.Contains(said, []byte("http://127.0.0.1:"+ports[0]+" is in use")) || !bytes.Contains(said, []byte("set TOLLGATE_CONTROL to an address with another port")) {
		t.Errorf("a second run: got %v, %s", err, said)
	}
	checkPrinted(t, out.String(), greeting, len(flags) > 0)
	walk(t, "http://127.0.0.1:"+ports[0], lines[0])
	otherHost(t, "http://127.0.0.1:"+ports[1]+"/tollgate/health/live")
	if len(flags) == 0 {
		asInTheReadme(t, out.String(), string(answer))
		boundLog(t, regexp.MustCompile(`  logs      (.*/run.log)\n`).FindStringSubmatch(out.String())[1])
	}
	if got := running(t, cmd.Process.Pid); got != programs {
		t.Errorf("the programs are %q, want %q", got, programs)
	}
	must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatalf("xcaddy.sh run does not stop:\n%s", &out)
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); err == nil {
		t.Errorf("processes remain:\n%s", &out)
	}
}

// asInTheReadme compares what run prints, and what the printed lines answer,
// with "The demo" of the README. Addresses, passwords, days, seconds and rates
// differ; run prints more lines with other settings.
func asInTheReadme(t *testing.T, printed, answer string) {
	t.Helper()
	_, section, _ := strings.Cut(read(t, filepath.Join(stack.Root(), "README.md")), "\n## The demo\n")
	section, _, _ = strings.Cut(section, "\n## ")
	compared := 0
	for _, block := range blocks.FindAllStringSubmatch(section, -1) {
		if block[1] != "" {
			continue
		}
		rest := regexp.MustCompile(`(?m)^ +`).ReplaceAllString(printed, "")
		for line := range strings.Lines(strings.TrimSpace(block[2])) {
			compared++
			found := patternOf(line, ofOneRun).FindStringIndex(rest)
			if found == nil {
				t.Fatalf("run prints\n%s\nwant the line of the README\n%s", printed, line)
			}
			rest = rest[found[1]:]
		}
	}
	for _, span := range regexp.MustCompile("`((?:Ratelimit: |{\")[^`]+)`").FindAllStringSubmatch(section, -1) {
		compared++
		if !patternOf(span[1], ofOneRun).MatchString(answer) {
			t.Errorf("the printed lines answer\n%s\nwant, as in the README\n%s", answer, span[1])
		}
	}
	if compared < 12 {
		t.Errorf("compared %d lines with the README; the test no longer understands the page", compared)
	}
}

// ofOneRun differs from run to run in what the README shows.
var ofOneRun = []form{
	{on: regexp.MustCompile(`http://[\w.:]+`)}, {on: regexp.MustCompile(`[0-9a-f]{20}`)}, {on: regexp.MustCompile(`\S+/run\.log`)},
	{on: regexp.MustCompile(`20\d\d-\d\d-\d\d`)}, {on: regexp.MustCompile(`\bt=\d+`)}, {on: regexp.MustCompile(`\d+\.\d+`)},
}

// boundLog checks that run.log does not grow without a bound.
func boundLog(t *testing.T, path string) {
	t.Helper()
	log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = log.Write(bytes.Repeat([]byte("a line\n"), 3_000_000))
	must(t, errors.Join(err, log.Close()))
	eventually(t, "an empty log", func() error {
		if info, err := os.Stat(path); err != nil || info.Size() > 16<<20 {
			return fmt.Errorf("run.log has %d bytes, %w", info.Size(), err)
		}
		return nil
	})
	if info, err := os.Stat(path + ".old"); err != nil || info.Size() < 16<<20 {
		t.Errorf("the log before is %v, %v", info, err)
	}
}

// checkPrinted checks that run prints no log unless it is verbose, never the
// secret, and of which day the rates are.
func checkPrinted(t *testing.T, printed, greeting string, verbose bool) {
	t.Helper()
	logs := printed
	if file := regexp.MustCompile(`  logs      (.*/run.log)\n`).FindStringSubmatch(printed); (file == nil) != verbose {
		t.Errorf("want the file of the logs: %t\n%s", !verbose, printed)
	} else if !verbose {
		logs = read(t, file[1])
	}
	if !strings.Contains(logs, `"gate started","store":"badger"`) || strings.Contains(printed, `"level"`) != verbose {
		t.Errorf("want the logs printed: %t\n%s\nthe logs are\n%s", verbose, printed, logs)
	}
	for _, want := range []string{"^Building ", greeting, "on plan free \\(TOLLGATE_SIGNUP\\)", "\"indicative\" rates are market values, not for bills"} {
		if !regexp.MustCompile(want).MatchString(printed) {
			t.Errorf("the printed lines have nothing like %q:\n%s", want, printed)
		}
	}
	if found := regexp.MustCompile(`[0-9a-f]{64}`).FindString(printed); found != "" {
		t.Errorf("run prints the secret:\n%s", printed)
	}
}

// otherHost calls the control listener by another name: it answers for all.
func otherHost(t *testing.T, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	r.Host = "gate.example"
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), `"status":"live"`) {
		t.Errorf("for another host name: got %s %s, %v", response.Status, text, err)
	}
}

// walk does what a stranger does next: sign in, make a key and use it by the
// printed command until the first 429.
func walk(t *testing.T, address, logIn string) {
	t.Helper()
	credentials := regexp.MustCompile(`"email":"([^"]+)","password":"([^"]+)"`).FindStringSubmatch(logIn)
	jar, err := cookiejar.New(nil)
	if err != nil || credentials == nil {
		t.Fatalf("no credentials in %s (%v)", logIn, err)
	}
	browser := &http.Client{Jar: jar}
	post := func(path string, form url.Values) string {
		t.Helper()
		response, err := browser.PostForm(address+path, form)
		must(t, err)
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("POST %s: got %d %s (%v)", path, response.StatusCode, page, err)
		}
		return html.UnescapeString(string(page))
	}
	post("/login", url.Values{"email": {credentials[1]}, "password": {credentials[2]}})
	page := post("/settings/keys/new", url.Values{"name": {"walk"}, "ability": {"convert", "currencies", "history", "rates", "usage"}, "life": {"90"}})
	token := regexp.MustCompile(`tgk_[0-9A-Za-z]{49}`).FindString(page)
	if token == "" {
		t.Fatalf("no token on the page: %s", page)
	}
	call := "curl -s -H 'Authorization: Bearer " + token + "' " + address + "/api/currencies"
	for n := 1; ; n++ {
		answer, err := exec.Command("sh", "-c", call).CombinedOutput()
		if err != nil || n > 101 {
			t.Fatalf("call %d: %v, %s", n, err, answer)
		}
		if bytes.Contains(answer, []byte(`"quota_exceeded"`)) {
			if n != 101 {
				t.Errorf("the first 429 is the answer to call %d, want 101", n)
			}
			return
		}
		if !bytes.Contains(answer, []byte(`"currencies":[`)) {
			t.Fatalf("call %d: %s", n, answer)
		}
	}
}

// running returns the built programs that run in a process group, sorted.
func running(t *testing.T, group int) string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	var programs []string
	for _, process := range processes {
		text, err := os.ReadFile(process)
		if err != nil {
			continue // it has ended
		}
		var name, state string
		var pid, parent, of int
		// A name with a space is not one of the programs; ignore the error.
		_, _ = fmt.Sscan(string(text), &pid, &name, &state, &parent, &of)
		if of == group && (name == "(caddy)" || name == "(upstream)") {
			programs = append(programs, strings.Trim(name, "()"))
		}
	}
	slices.Sort(programs)
	return strings.Join(programs, " ")
}

var curl = regexp.MustCompile(`(?m)^  ((?:TOKEN=|curl ).*)$`)

// awaitLines waits for the printed lines.
func awaitLines(t *testing.T, out *stack.Output, ended <-chan error) []string {
	t.Helper()
	deadline := time.After(10 * time.Minute) // it builds first
	for {
		if found := curl.FindAllStringSubmatch(out.String(), -1); len(found) == 3 {
			return []string{found[0][1], found[1][1], found[2][1]}
		}
		select {
		case err := <-ended:
			t.Fatalf("xcaddy.sh run ended (%v):\n%s", err, out)
		case <-deadline:
			t.Fatalf("xcaddy.sh run prints no lines to try:\n%s", out)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
