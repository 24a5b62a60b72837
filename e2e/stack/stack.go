// Package stack starts the built programs for a test as an operator does:
// bin/upstream, and bin/caddy with a Caddyfile; or, in one process, bin/caddy
// alone. Each test has its own ports and directories. Further gates can join a
// stack.
package stack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Secret is the secret of every stack.
const Secret = "an end-to-end secret of 42 characters, yes"

// patience limits every wait for a program. It is long because test machines
// are slow.
const patience = 60 * time.Second

// Stack is a running gate with its upstream.
type Stack struct {
	// Address is the public site: "http://127.0.0.1:<port>", or the first
	// address of the setting TOLLGATE_ADDRESS. A test can change it.
	Address string
	// Data is the data directory.
	Data string
	// Caddyfile is the file that Caddy loads. A test can change it with
	// Configure, and call Reload.
	Caddyfile string

	t          testing.TB
	modules    bool // Caddy is that of e2e/modules
	oneProcess bool
	admin      string
	control    string
	listen     string
	env        []string
	secrets    []string // what the programs must not write; see checkSecrets
	caddy      *process
	upstream   *process // nil in one process
	log        *Output
}

// Build builds the programs once per test process, or not at all if "xcaddy.sh
// test" has built them.
var Build = sync.OnceValue(func() error {
	out, err := exec.Command(filepath.Join(Root(), "xcaddy.sh"), "build").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building: %w\n%s", err, out)
	}
	return nil
})

// buildModules builds the Caddy of e2e/modules once per test process. With the
// settings of xcaddy it finds most packages compiled.
var buildModules = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "nobadger,nomysql,nopgx", "-ldflags", "-w -s",
		"-o", binary(caddyModules), ".")
	cmd.Dir = filepath.Join(Root(), "e2e", "modules")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building e2e/modules: %w\n%s", err, out)
	}
	return nil
})

// Root returns the root of the project.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// ShippedLog is the file of the access log that the shipped Caddyfile imports.
func ShippedLog() string { return filepath.Join(Root(), "log.caddyfile") }

// Shipped returns the shipped Caddyfile, with each old string replaced by the
// new string after it. Every old string must occur. It works in any directory.
func Shipped(t testing.TB, oldnew ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Root(), "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "import log.caddyfile", "import "+ShippedLog())
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("the Caddyfile has no %q", oldnew[i])
		}
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	return text
}

// Start builds the programs, starts them with a Caddyfile, and stops them at
// the end of the test. A setting has the form NAME=value. The setting
// OneProcess replaces the upstream and the proxy by a handler of Caddy.
func Start(t testing.TB, caddyfile string, settings ...string) *Stack {
	t.Helper()
	s := newStack(t, Build, settings)
	s.oneProcess = slices.Contains(settings, OneProcess)
	s.Configure(caddyfile)
	if !s.oneProcess {
		s.StartUpstream()
	}
	s.StartCaddy()
	return s
}

// StartGate is like Start without the upstream: the Caddyfile proxies to
// services of the test. Its endpoint of the usage is GET /api/usage.
func StartGate(t testing.TB, caddyfile string, settings ...string) *Stack {
	t.Helper()
	s := newStack(t, Build, settings)
	s.Configure(caddyfile)
	s.StartCaddy()
	return s
}

// StartModules is like StartGate with the Caddy of e2e/modules, which has
// modules of other projects.
func StartModules(t testing.TB, caddyfile string, settings ...string) *Stack {
	t.Helper()
	s := newStack(t, buildModules, settings)
	s.modules = true
	s.Configure(caddyfile)
	s.StartCaddy()
	return s
}

// newStack builds the programs, and stops them at the end of the test.
func newStack(t testing.TB, build func() error, settings []string) *Stack {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ports := FreePorts(t, 4)
	s := &Stack{
		Address:   "http://127.0.0.1:" + ports[0],
		Data:      filepath.Join(dir, "data"),
		Caddyfile: filepath.Join(dir, "Caddyfile"),
		t:         t,
		admin:     "127.0.0.1:" + ports[1],
		control:   "127.0.0.1:" + ports[2],
		listen:    "127.0.0.1:" + ports[3],
		log:       &Output{},
		secrets:   []string{Secret},
	}
	s.env = append(os.Environ(), "TOLLGATE_UPSTREAM="+s.listen, "TOLLGATE_DATA="+s.Data, "TOLLGATE_SECRET="+Secret,
		"TOLLGATE_RATES=embedded", "TOLLGATE_TIMEZONE="+CalmZone())
	s.env = append(append(s.env, s.own(dir)...), settings...)
	for _, setting := range settings {
		if sites, found := strings.CutPrefix(setting, "TOLLGATE_ADDRESS="); found {
			s.Address, _, _ = strings.Cut(sites, ",")
		}
	}
	t.Cleanup(func() {
		s.checkSecrets()
		s.Stop()
		if t.Failed() {
			t.Logf("the output of the programs:\n%s", s.log)
		}
	})
	return s
}

// own returns the settings that each gate has for itself.
func (s *Stack) own(dir string) []string {
	return []string{
		"TOLLGATE_ADDRESS=" + s.Address, "TOLLGATE_CONTROL=" + s.control, "CADDY_ADMIN=" + s.admin,
		"HOME=" + dir, "XDG_DATA_HOME=" + filepath.Join(dir, "share"), "XDG_CONFIG_HOME=" + filepath.Join(dir, "config"),
	}
}

// Configure writes the Caddyfile. In one process, it replaces the proxy.
func (s *Stack) Configure(caddyfile string) {
	s.t.Helper()
	if s.oneProcess {
		caddyfile = withoutProxy(s.t, caddyfile)
	}
	if err := os.WriteFile(s.Caddyfile, []byte(caddyfile), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Set changes a setting of the programs that start from now on.
func (s *Stack) Set(name, value string) {
	s.env = append(s.env, name+"="+value)
	if name == "TOLLGATE_SECRET" {
		s.secrets = append(s.secrets, value)
	}
}

// AccessLog is the file of the access log.
func (s *Stack) AccessLog() string { return filepath.Join(s.Data, "log", "access.log") }

// IsOneProcess tells whether upstream is a handler of Caddy.
func (s *Stack) IsOneProcess() bool { return s.oneProcess }

// StartCaddy starts Caddy and waits until the site and the admin endpoint
// answer. The admin endpoint knows the configuration a moment later than
// the site.
func (s *Stack) StartCaddy() {
	s.t.Helper()
	s.caddy = s.start("caddy", "run", "--config", s.Caddyfile, "--adapter", "caddyfile")
	s.await("the gate", s.Address+"/api/usage", http.StatusUnauthorized, s.caddy)
	s.await("the admin endpoint", "http://"+s.admin+"/tollgate/plans", http.StatusOK, s.caddy)
	if s.oneProcess {
		// Its database opens after that of the gate.
		s.await("tollgate_upstream", s.Address+"/healthz", http.StatusOK, s.caddy)
	}
}

// StartUpstream starts upstream and waits until it answers.
func (s *Stack) StartUpstream() {
	s.t.Helper()
	s.upstream = s.start("upstream", "serve")
	s.await("upstream", "http://"+s.listen+"/healthz", http.StatusOK, s.upstream)
}

// StopUpstream stops upstream and waits until it ended.
func (s *Stack) StopUpstream() {
	s.t.Helper()
	s.stop(s.upstream)
}

// StopCaddy stops Caddy as an operator does, and returns its exit code.
func (s *Stack) StopCaddy() (code int) {
	s.t.Helper()
	s.stop(s.caddy)
	return s.caddy.ProcessState.ExitCode()
}

// Stop stops all programs.
func (s *Stack) Stop() {
	s.t.Helper()
	s.stop(s.caddy)
	s.stop(s.upstream)
}

// KillCaddy kills Caddy, like a crash.
func (s *Stack) KillCaddy() {
	s.t.Helper()
	if err := s.caddy.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-s.caddy.ended
}

// Upstream runs a command of bin/upstream, or in one process of "caddy
// upstream", with a standard input. It returns the standard output.
func (s *Stack) Upstream(stdin string, args ...string) string {
	s.t.Helper()
	if password := strings.TrimSpace(stdin); password != "" {
		s.secrets = append(s.secrets, password)
	}
	program := "upstream"
	if s.oneProcess {
		program, args = "caddy", append([]string{"upstream"}, args...)
	}
	out, err := s.Try(program, stdin, args...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return out
}

// Tollgate runs a command of "caddy tollgate" and returns its standard
// output.
func (s *Stack) Tollgate(args ...string) string {
	s.t.Helper()
	out, err := s.Try("caddy", "", append([]string{"tollgate"}, args...)...)
	if err != nil {
		s.t.Fatalf("caddy tollgate %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// Try runs one of the programs and returns its standard output. The error
// contains its standard error.
func (s *Stack) Try(program, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary(program), args...)
	cmd.Env, cmd.Dir = s.env, filepath.Dir(s.Caddyfile)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), nil
}

// Reload loads the Caddyfile into the running Caddy.
func (s *Stack) Reload() error {
	_, err := s.Try("caddy", "", "reload", "--config", s.Caddyfile, "--adapter", "caddyfile", "--force")
	return err
}

// Call makes a request with a token ("" for none). It returns the response
// and its body.
func (s *Stack) Call(method, path, token string, body io.Reader) (*http.Response, string) {
	s.t.Helper()
	response, text, err := s.TryCall(method, path, token, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response, text
}

// TryCall is like Call, and returns an error if there is no response.
func (s *Stack) TryCall(method, path, token string, body io.Reader) (*http.Response, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.Address+path, body)
	if err != nil {
		return nil, "", err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response, string(text), err
}

// client does not follow redirects, because tests check them. It resolves
// all names to this machine. RFC 6761, 6.3, requires this for one.localhost,
// but not every resolver does it.
var client = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DialContext: dialLocal},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func dialLocal(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
}

func (s *Stack) binary(program string) string {
	if s.modules && program == "caddy" {
		program = caddyModules
	}
	return binary(program)
}

// caddyModules is the Caddy of e2e/modules.
const caddyModules = "caddy-modules"

func binary(program string) string { return filepath.Join(Root(), "bin", program) }
