package e2e_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestBenchWaitsForAnotherApt holds each lock that an apt of another program
// can hold, and releases it when xcaddy.sh says that it waits. The apt is the
// real one of this machine, with directories and packages of the test.
func TestBenchWaitsForAnotherApt(t *testing.T) {
	stack.SkipInOneProcess(t, "it starts no stack")
	t.Parallel()
	dir := t.TempDir()
	locks := []string{"state/lists/lock", "dpkg/lock-frontend", "dpkg/lock", "cache/archives/lock"}
	held := map[string]*os.File{}
	for _, name := range locks {
		held[name] = lockFile(t, filepath.Join(dir, name))
	}
	writeRepository(t, dir)
	cmd := bench(t, []string{"apt-get", "grep", "sleep"}, map[string]string{"id": "echo 0", "dpkg-query": "exit 1", "go": "exit 1"})
	cmd.Env = append(cmd.Env, "APT_CONFIG="+filepath.Join(dir, "apt.conf"))
	output, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(output); lines.Scan(); {
		said = append(said, lines.Text())
		_, busy, _ := strings.Cut(lines.Text(), "Could not get lock "+dir+"/")
		name, _, _ := strings.Cut(busy, ". ")
		if file := held[name]; file != nil {
			delete(held, name)
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	// The dpkg of the test unpacks nothing, so apt fails.
	if err := cmd.Wait(); err == nil {
		t.Error("got no error")
	}
	arguments, err := os.ReadFile(filepath.Join(dir, "dpkg/arguments"))
	if len(held) != 0 || err != nil || !strings.Contains(string(arguments), "--unpack") {
		t.Errorf("it did not wait for %q: %v, arguments of dpkg %s\n%s", locks, err, arguments, strings.Join(said, "\n"))
	}
}

// lockFile makes a file and locks it as apt does.
func lockFile(t *testing.T, path string) *os.File {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // it is closed if the test worked
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	return file
}

// writeRepository writes a configuration of apt below a directory. It
// has packages of the test only, and a dpkg that only writes down its
// arguments.
func writeRepository(t *testing.T, dir string) {
	t.Helper()
	const archive = "not unpacked"
	var packages strings.Builder
	for _, name := range []string{"ca-certificates", "libnginx-mod-http-lua", "lua-nginx-redis", "nginx", "redis-server", "wrk"} {
		fmt.Fprintf(&packages, "Package: %s\nVersion: 1\nArchitecture: all\nFilename: ./%[1]s.deb\nSize: %d\nSHA256: %x\n\n", name, len(archive), sha256.Sum256([]byte(archive)))
		writeFile(t, filepath.Join(dir, "repository", name+".deb"), archive)
	}
	writeFile(t, filepath.Join(dir, "repository/Packages"), packages.String())
	writeFile(t, filepath.Join(dir, "etc/sources.list"), "deb [trusted=yes] copy:"+dir+"/repository ./\n")
	writeFile(t, filepath.Join(dir, "dpkg/status"), "")
	writeFile(t, filepath.Join(dir, "bin/dpkg"), "#!/bin/sh\necho \"$@\" >>"+dir+"/dpkg/arguments\n")
	if err := os.Chmod(filepath.Join(dir, "bin/dpkg"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "apt.conf"), fmt.Sprintf(`Dir::State "%[1]s/state"; Dir::State::status "%[1]s/dpkg/status"; Dir::Cache "%[1]s/cache";
Dir::Etc "%[1]s/etc"; Dir::Log "%[1]s/log"; Dir::Bin::dpkg "%[1]s/bin/dpkg"; APT::Sandbox::User "root";`, dir))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
