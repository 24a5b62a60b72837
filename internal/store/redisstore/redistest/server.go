package redistest

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// administrator is the ACL user that Do and the servers among themselves use. So
// they work whatever config says about other users.
const administrator = "redistest"

// errPortTaken means that another process took the port of a server.
var errPortTaken = errors.New("port in use")

// Server is a redis-server. Its methods are safe for concurrent use.
type Server struct {
	setup
	address  string // for clients
	port     string // host and port for Do
	password string // of the default user
	locks    []*port

	mu      sync.Mutex
	process *process // nil while the server is down
}

// setup says what to launch.
type setup struct {
	dir       string
	secret    string // of the administrator
	scheme    string
	tls       *tls.Config // for Do
	arguments []string
	// lines returns the configuration of a server that listens on a port.
	lines func(*port) ([]string, error)
}

// dataLines returns the configuration of a server that stores data.
func dataLines(config []string) []string {
	return append([]string{
		`save ""`,
		"appendonly no",
		"shutdown-timeout 1",
		// Replicas of tests start at once, not after five seconds.
		"repl-diskless-sync-delay 0",
	}, config...)
}

// newSecret returns a random password for an administrator. If another process
// has taken the port, it refuses this password.
func newSecret() string { return rand.Text() }

// launch starts a server on a free port. Another process can take the port
// before the server does; then it is started on another.
func launch(what setup) (*Server, error) {
	if err := os.MkdirAll(what.dir, 0o700); err != nil {
		return nil, err
	}
	const tries = 10
	var failed error
	for range tries {
		own, err := freePort()
		if err != nil {
			return nil, err
		}
		config, err := what.lines(own)
		if err != nil {
			return nil, err
		}
		server := &Server{setup: what, address: own.Address(), port: own.Address(), password: passwordIn(config), locks: []*port{own}}
		if err := server.configure(own.Number, config); err != nil {
			return nil, err
		}
		if failed = server.start(); !errors.Is(failed, errPortTaken) {
			return server, failed
		}
	}
	return nil, failed
}

// passwordIn returns the password of the default user.
func passwordIn(config []string) string {
	password := ""
	for _, line := range config {
		if fields := strings.Fields(line); len(fields) == 2 && strings.EqualFold(fields[0], "requirepass") {
			password = strings.Trim(fields[1], `"`)
		}
	}
	return password
}

func (s *Server) configure(port int, further []string) error {
	text := append([]string{
		"bind 127.0.0.1",
		fmt.Sprintf("port %d", port),
		"daemonize no",
		"dir .",
		`logfile ""`,
		"user " + administrator + " on >" + s.secret + " ~* &* +@all",
	}, further...)
	return os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(strings.Join(text, "\n")+"\n"), 0o600)
}

// start runs the server and waits until it answers.
func (s *Server) start() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the server has its own
	before, err := log.Stat()
	if err != nil {
		return err
	}
	command := exec.Command("redis-server", append([]string{"redis.conf"}, s.arguments...)...)
	command.Dir = s.dir
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = attributes()
	process, err := run(command)
	if err != nil {
		return fmt.Errorf("starting redis-server: %w", err)
	}
	ended := false
	err = await("redis-server at "+s.port, func() error {
		if ended = process.running() != nil; ended {
			return nil
		}
		return s.ping()
	})
	if ended {
		err = process.running()
	}
	if err == nil {
		s.process = process
		return nil
	}
	tail := s.logTail(before.Size())
	if ended && bytes.Contains(tail, []byte("Address already in use")) {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	if !ended {
		err = errors.Join(err, process.kill())
	}
	return fmt.Errorf("%w\n%s", err, tail)
}

func (s *Server) ping() error {
	// Not longer: another server that took the port may never answer.
	reply, err := s.doWithin(500*time.Millisecond, "PING")
	if err == nil && reply != "PONG" {
		err = fmt.Errorf("PING answered %v", reply)
	}
	return err
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

// logTail returns the last lines of the log that lie behind an offset.
func (s *Server) logTail(offset int64) []byte {
	const size = 4 << 10
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	text = text[min(offset, int64(len(text))):]
	if len(text) > size {
		text = text[len(text)-size:]
	}
	return text
}

// Addr returns what a client dials: host and port, or the path of the Unix
// socket.
func (s *Server) Addr() string { return s.address }

// URL returns the address of the server as a URL, with the password that
// requirepass set.
func (s *Server) URL() string {
	if s.scheme == "unix" {
		return (&url.URL{Scheme: s.scheme, User: s.userinfo(), Path: s.address}).String()
	}
	return (&url.URL{Scheme: s.scheme, User: s.userinfo(), Host: s.address}).String()
}

func (s *Server) userinfo() *url.Userinfo {
	if s.password == "" {
		return nil
	}
	return url.UserPassword("", s.password)
}

// PID returns the process of the server, which must run.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.command.Process.Pid
}

// Pause stops the server with SIGSTOP: it keeps its connections and answers
// nothing.
func (s *Server) Pause() error { return s.signal((*process).pause) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.signal((*process).resume) }

func (s *Server) signal(send func(*process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return fmt.Errorf("the server at %s is down", s.address)
	}
	return send(s.process)
}

// Kill ends the server with SIGKILL and waits for its end. It does nothing if
// the server is down, and returns an error if the server ended by itself.
func (s *Server) Kill() error { return s.down((*process).kill) }

// Stop ends the server with SIGTERM, otherwise like Kill.
func (s *Server) Stop() error { return s.down((*process).stop) }

func (s *Server) down(end func(*process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	if err := end(s.process); err != nil {
		return fmt.Errorf("the server at %s: %w", s.address, err)
	}
	s.process = nil
	return nil
}

// Restart starts the server again with the same port, directory and
// configuration. A server that runs is stopped before.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}
