package cli

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// offlineProgram names the directory of the program to the test in the
// namespace.
const offlineProgram = "TOLLGATE_TEST_OFFLINE"

// TestOffline runs itself in a network namespace that has a loopback device and
// nothing else: the program has all rates in it.
func TestOffline(t *testing.T) {
	if directory := os.Getenv(offlineProgram); directory != "" {
		raiseLoopback(t)
		if _, err := net.DialTimeout("tcp", "192.0.2.1:443", time.Minute); !errors.Is(err, syscall.ENETUNREACH) {
			t.Fatalf("there is a network: %v", err)
		}
		askForRates(t, directory, "https://www.ecb.europa.eu/stats/eurofxref/")
		return
	}
	t.Parallel()
	directory := build(t)
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOffline$", "-test.v")
	command.Env = append(os.Environ(), offlineProgram+"="+directory)
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := command.CombinedOutput()
	switch {
	case command.Process == nil, strings.Contains(string(out), unprivileged):
		t.Logf("no network namespace (%v): the program fetches nothing instead", err)
		askForRates(t, directory, "embedded")
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	}
}

const unprivileged = "a namespace without rights"

// raiseLoopback starts the loopback device of a new namespace.
func raiseLoopback(t *testing.T) {
	t.Helper()
	device, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	device.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, device); errors.Is(err, unix.EPERM) {
		t.Fatal(unprivileged)
	} else if err != nil {
		t.Fatal(err)
	}
}

// askForRates starts the program and asks it for a rate of each source.
func askForRates(t *testing.T, directory, setting string) {
	t.Helper()
	address := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	var log bytes.Buffer
	program := exec.CommandContext(t.Context(), filepath.Join(directory, "upstream"), "serve",
		"--data", t.TempDir(), "--upstream", address, "--rates", setting, "--control", "127.0.0.1:1", "--address", "https://rates.example")
	program.Env = append(os.Environ(), "TOLLGATE_SECRET="+gatetest.Secret)
	program.Stderr = &log
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(program.Process.Signal(os.Interrupt), program.Wait()); err != nil {
			t.Errorf("%v\n%s", err, &log)
		}
	}()
	get := func(path string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			return "", err
		}
		r.Header.Set(assertion.Header, gatetest.Assert(t, "rates.example", assertion.Call))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(answer.Body)
		return string(body), errors.Join(err, answer.Body.Close())
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := get("/healthz"); err == nil {
			break
		} else if time.Now().After(end) {
			t.Errorf("the program does not start: %v", err)
			return
		}
	}
	for path, want := range map[string]string{
		"/api/convert/EUR/1/USD?date=1999-01-04": `"rate":1.1789,"result":1.1789,"rounded":1.18,"date":"1999-01-04","source":"ECB"}`,
		"/api/convert/BZD/1/XOF?date=1999-01-04": `"rate":278.207227076,"result":278.207227076,"rounded":278,"date":"1999-01-04","source":"ECB+parity"}`,
		"/api/convert/EUR/1/KES":                 `"source":"indicative"}`,
	} {
		if got, err := get(path); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: got %s, %v, want %s", path, got, err, want)
		}
	}
}
