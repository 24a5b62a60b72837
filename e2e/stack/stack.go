// Package stack starts the two built programs for a test, the way an
// operator starts them: bin/upstream and bin/caddy with a Caddyfile, on
// free ports of this machine and in directories of the test's own.
package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Secret is the secret of every stack.
const Secret = "an end-to-end secret of 42 characters, yes"

// patience bounds every wait for a program. It is long because test
// machines are slow, and is used up only when something is wrong.
const patience = 60 * time.Second

// Stack is a running gate with its upstream.
type Stack struct {
	// Address is the public site, "http://127.0.0.1:<port>", or the first
	// one of the setting TOLLGATE_ADDRESS. Tests may ask another site.
	Address string
	// Data is the data directory.
	Data string
	// Caddyfile is the file that Caddy runs with. Tests may write to it
	// and Reload.
	Caddyfile string

	t        testing.TB
	admin    string
	control  string
	listen   string
	env      []string
	caddy    *process
	upstream *process
	log      *log
}

// process is a program that was started. Its end is noticed at once.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

// build builds the programs once per test process.
var build = sync.OnceValue(func() error {
	out, err := exec.Command(filepath.Join(Root(), "xcaddy.sh"), "build").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building: %w\n%s", err, out)
	}
	return nil
})

// Root returns the root of the project.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Shipped returns the Caddyfile that the project ships, with old and new
// strings replaced in pairs. Every old string must occur.
func Shipped(t testing.TB, oldnew ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Root(), "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("the Caddyfile has no %q", oldnew[i])
		}
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	return text
}

// Start builds the programs, starts them with a Caddyfile and stops them
// when the test ends. Settings are of the form NAME=value.
func Start(t testing.TB, caddyfile string, settings ...string) *Stack {
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
		log:       &log{},
	}
	s.env = append(os.Environ(),
		"TOLLGATE_ADDRESS="+s.Address, "TOLLGATE_CONTROL="+s.control, "TOLLGATE_UPSTREAM="+s.listen,
		"TOLLGATE_DATA="+s.Data, "TOLLGATE_SECRET="+Secret, "CADDY_ADMIN="+s.admin,
		"HOME="+dir, "XDG_DATA_HOME="+filepath.Join(dir, "share"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"),
		"TOLLGATE_RATES_HISTORY=off", "TOLLGATE_RATES_DAILY=off")
	s.env = append(s.env, settings...)
	for _, setting := range settings {
		if sites, found := strings.CutPrefix(setting, "TOLLGATE_ADDRESS="); found {
			s.Address, _, _ = strings.Cut(sites, ",")
		}
	}
	s.Configure(caddyfile)
	t.Cleanup(func() {
		s.stop(s.caddy)
		s.stop(s.upstream)
		if t.Failed() {
			t.Logf("what the programs wrote:\n%s", s.log)
		}
	})
	s.StartUpstream()
	s.StartCaddy()
	return s
}

// Configure writes the Caddyfile.
func (s *Stack) Configure(caddyfile string) {
	s.t.Helper()
	if err := os.WriteFile(s.Caddyfile, []byte(caddyfile), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// StartCaddy starts Caddy and waits until the gate answers, to clients
// and to the operator: Caddy serves a moment before its admin endpoint
// knows the configuration.
func (s *Stack) StartCaddy() {
	s.t.Helper()
	s.caddy = s.start("caddy", "run", "--config", s.Caddyfile, "--adapter", "caddyfile")
	s.await("the gate", s.Address+"/api/usage", http.StatusUnauthorized, s.caddy)
	s.await("the admin endpoint", "http://"+s.admin+"/tollgate/plans", http.StatusOK, s.caddy)
}

// StartUpstream starts upstream and waits until it answers.
func (s *Stack) StartUpstream() {
	s.t.Helper()
	s.upstream = s.start("upstream", "serve")
	s.await("upstream", "http://"+s.listen+"/healthz", http.StatusOK, s.upstream)
}

// StopUpstream ends upstream and waits for its end.
func (s *Stack) StopUpstream() {
	s.t.Helper()
	s.stop(s.upstream)
}

// StopCaddy ends Caddy as an operator does, waits for its end and returns
// its exit code.
func (s *Stack) StopCaddy() (code int) {
	s.t.Helper()
	s.stop(s.caddy)
	return s.caddy.ProcessState.ExitCode()
}

// KillCaddy ends Caddy as a crash does.
func (s *Stack) KillCaddy() {
	s.t.Helper()
	if err := s.caddy.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-s.caddy.ended
}

// Upstream runs a command of bin/upstream with a standard input and
// returns its standard output.
func (s *Stack) Upstream(stdin string, args ...string) string {
	s.t.Helper()
	out, err := s.Try("upstream", stdin, args...)
	if err != nil {
		s.t.Fatalf("upstream %s: %v", strings.Join(args, " "), err)
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

// Try runs one of the programs and returns its standard output; the error
// carries its standard error.
func (s *Stack) Try(program, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(program), args...)
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

// Call makes a request with a token ("" for none) and returns the answer
// with its body read.
func (s *Stack) Call(method, path, token string, body io.Reader) (*http.Response, string) {
	s.t.Helper()
	response, text, err := s.TryCall(method, path, token, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response, text
}

// TryCall is Call for a gate that may be down.
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

// client follows no redirects: tests look at them. It resolves all names
// to this machine, as RFC 6761, 6.3, wants it of one.localhost: not every
// resolver does.
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

func binary(program string) string { return filepath.Join(Root(), "bin", program) }

func (s *Stack) start(program string, args ...string) *process {
	s.t.Helper()
	p := &process{Cmd: exec.Command(binary(program), args...), ended: make(chan struct{})}
	p.Env, p.Dir = s.env, filepath.Dir(s.Caddyfile)
	p.Stdout, p.Stderr = s.log, s.log
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // how it ended is seen in the log
	}()
	return p
}

// stop ends a program as an operator does, and kills one that does not
// come to its end.
func (s *Stack) stop(p *process) {
	s.t.Helper()
	if p == nil {
		return
	}
	select {
	case <-p.ended:
		return
	default:
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		s.t.Errorf("%s did not end", p.Path)
		_ = p.Process.Kill()
		<-p.ended
	}
}

// await waits until a URL answers with a status.
func (s *Stack) await(name, url string, status int, p *process) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		response, err := client.Get(url)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == status {
				return
			}
		}
		select {
		case <-p.ended:
			s.t.Fatalf("%s ended: %s", name, s.log)
		case <-deadline:
			s.t.Fatalf("%s does not answer with %d: %v", name, status, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// FreePorts returns ports that nobody listens on at the moment.
func FreePorts(t testing.TB, n int) []string {
	t.Helper()
	ports := make([]string, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, ports[i], _ = net.SplitHostPort(listener.Addr().String())
	}
	return ports
}

// log keeps what the programs write.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Log returns what the programs wrote so far.
func (s *Stack) Log() string { return s.log.String() }
