package postgrestest

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// Server is a PostgreSQL server, which a test can stop.
type Server struct {
	directory string
	port      string
	process   *exec.Cmd
	databases sync.Mutex
	made      int
}

var (
	shared   Server // of the test process
	starting sync.Once
	failed   error // to start it
)

// URL returns the address of an empty database on a real server. The server
// starts with the first database. Without PostgreSQL installed the test is
// skipped, in CI it fails.
func URL(t testing.TB) string {
	t.Helper()
	require(t)
	if starting.Do(func() { failed = shared.start(t) }); failed != nil {
		t.Fatal(failed)
	}
	return shared.URL(t)
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	require(t)
	s := &Server{}
	if err := s.start(t); err != nil {
		t.Fatal(errors.Join(err, s.stop()))
	}
	t.Cleanup(func() {
		s.Continue(t) // else it cannot end
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// URL returns the address of an empty database.
func (s *Server) URL(t testing.TB) string {
	t.Helper()
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// CREATE DATABASE needs exclusive use of its template.
	s.databases.Lock()
	defer s.databases.Unlock()
	s.made++
	name := "test" + strconv.Itoa(s.made)
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return s.url(name)
}

// Stop stops all processes of the server: it accepts connections and answers
// nothing.
func (s *Server) Stop(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Continue undoes Stop.
func (s *Server) Continue(t testing.TB) { s.signal(t, syscall.SIGCONT) }

// signal sends a signal to the server, which starts its other processes, and
// then to these.
func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	main := s.process.Process.Pid
	if err := syscall.Kill(main, signal); err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", main, main))
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err == nil {
			err = syscall.Kill(pid, signal)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

// require skips a test without PostgreSQL; in CI it fails.
func require(t testing.TB) {
	t.Helper()
	if _, err := installed(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// Main runs the tests of a package and stops the server. TestMain calls it
// and exits with its result.
func Main(m *testing.M) (code int) {
	code = m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// installed returns the directory of the newest server installed.
func installed() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed: Debian's package postgresql has it")
	}
	return filepath.Dir(slices.Max(found)), nil
}

func (s *Server) start(t testing.TB) error {
	binaries, err := installed()
	if err != nil {
		return err
	}
	// Not t.TempDir: the path of a Unix socket may have 107 bytes.
	if s.directory, err = os.MkdirTemp("", "postgres"); err != nil {
		return err
	}
	owner, err := s.owner()
	if err != nil {
		return err
	}
	data := filepath.Join(s.directory, "data")
	initialise := s.command(owner, filepath.Join(binaries, "initdb"), "--pgdata", data,
		"--username", "tollgate", "--auth", "trust", "--no-sync", "--encoding", "UTF8")
	if out, err := initialise.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	s.port = stack.FreePorts(t, 1)[0]
	var log bytes.Buffer
	s.process = s.command(owner, filepath.Join(binaries, "postgres"), "-D", data, "-F",
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+s.directory, "-p", s.port)
	s.process.Stderr = &log
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("starting postgres: %w", err)
	}
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := db.Ping()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for postgres: %w\n%s", err, log.String())
		}
	}
}

// owner returns who the server runs as: it refuses to be root.
func (s *Server) owner() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(s.directory, int(uid), int(gid))
}

func (s *Server) command(owner *syscall.Credential, name string, args ...string) *exec.Cmd {
	command := exec.Command(name, args...)
	command.Dir = s.directory
	command.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGKILL}
	return command
}

func (s *Server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("tollgate"), Host: net.JoinHostPort("127.0.0.1", s.port),
		Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

func (s *Server) stop() error {
	if s.process != nil {
		if err := s.process.Process.Signal(syscall.SIGINT); err != nil {
			return fmt.Errorf("stopping postgres: %w", err)
		}
		if err := s.process.Wait(); err != nil {
			return fmt.Errorf("stopping postgres: %w", err)
		}
	}
	if s.directory == "" {
		return nil
	}
	return os.RemoveAll(s.directory)
}
