package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestTwoGatesOnOnePort: the demo is forgotten, and the example of the README
// starts at its address. Both logs name the other process, once. A reload is no
// other gate, one that listens at one address of the port is, and one that has left
// the port is not.
func TestTwoGatesOnOnePort(t *testing.T) {
	t.Parallel()
	demo := stack.Start(t, stack.Shipped(t))
	_, port, _ := strings.Cut(strings.TrimPrefix(demo.Address, "http://"), ":")
	must(t, demo.Reload())
	second := startTwin(t, port, "", "")
	firstPid := second.meets(t, 1)
	eventually(t, "the second gate in the log of the demo", func() error {
		if got := found(demo.Log()); len(got) != 1 || got[0] != [3]string{firstPid, second.pid(), "gate.Caddyfile"} {
			return fmt.Errorf("found %q, want the pid %s and gate.Caddyfile", got, second.pid())
		}
		return nil
	})
	must(t, demo.Reload())
	third := startTwin(t, port, "bind 127.0.0.1", "")
	third.meets(t, 2)
	second.meets(t, 2)
	eventually(t, "the third gate in the log of the demo", func() error {
		if got := found(demo.Log()); len(got) != 2 || got[1][1] != third.pid() {
			return fmt.Errorf("found %q", got)
		}
		return nil
	})
	demo.Configure(stack.Shipped(t, "{$TOLLGATE_ADDRESS:http://localhost:8080}", "http://127.0.0.1:"+stack.FreePorts(t, 1)[0]))
	must(t, demo.Reload())
	fourth := startTwin(t, port, "bind 127.0.0.2", "")
	second.meets(t, 3)
	fourth.meets(t, 1)
	if got := found(demo.Log()); len(got) != 2 {
		t.Errorf("the demo has left the port, and finds %q", got)
	}
	for _, log := range []string{demo.Log(), second.log.String(), third.log.String()} {
		if strings.Contains(log, stack.Secret) {
			t.Error("a log has the secret")
		}
	}
}

// TestGatesThatShareNoConnection: gates at two addresses of one port are no
// twins. Nor is a gate that starts before an old one has ended.
func TestGatesThatShareNoConnection(t *testing.T) {
	t.Parallel()
	ports := stack.FreePorts(t, 2)
	old := startTwin(t, ports[1], "", "shutdown_delay 8s")
	successor := startTwin(t, ports[1], "", "")
	must(t, old.cmd.Process.Signal(syscall.SIGTERM))
	one := startTwin(t, ports[0], "bind 127.0.0.1", "")
	other := startTwin(t, ports[0], "bind 127.0.0.2", "")
	both := startTwin(t, ports[0], "", "")
	both.meets(t, 2) // after the two would have met
	one.meets(t, 1)
	other.meets(t, 1)
	_ = old.cmd.Wait() // the log has the reason
	if log := old.log.String() + successor.log.String(); len(found(log)) != 0 {
		t.Errorf("an old gate and its successor found each other:\n%s", log)
	}
}

// twin is a gate with the configuration of the README, in a process.
type twin struct {
	cmd *exec.Cmd
	log stack.Output
}

// startTwin starts a gate and waits until it has started.
func startTwin(t *testing.T, port, site, global string) *twin {
	t.Helper()
	must(t, stack.Build())
	dir := t.TempDir()
	example := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindStringSubmatch(read(t, filepath.Join(stack.Root(), "README.md")))[1]
	for _, change := range [][2]string{{"{\n", "{\nadmin off\n" + global + "\n"}, {"\n:8080 {", "\n:" + port + " {\n" + site}} {
		if !strings.Contains(example, change[0]) {
			t.Fatalf("the example of the README lacks %q", change[0])
		}
		example = strings.Replace(example, change[0], change[1], 1)
	}
	must(t, os.WriteFile(filepath.Join(dir, "gate.Caddyfile"), []byte(example), 0o600))
	g := &twin{cmd: exec.Command(filepath.Join(stack.Root(), "bin", "caddy"), "run", "--config", "gate.Caddyfile")}
	g.cmd.Dir, g.cmd.Stderr = dir, &g.log
	g.cmd.Env = append(os.Environ(), "HOME="+dir, "TOLLGATE_SECRET="+stack.Secret)
	must(t, g.cmd.Start())
	t.Cleanup(func() {
		_ = g.cmd.Process.Kill() // it may have ended
		_ = g.cmd.Wait()
		if t.Failed() {
			t.Logf("the log of the gate %s:\n%s", g.pid(), &g.log)
		}
	})
	eventually(t, "a gate", func() error {
		if !strings.Contains(g.log.String(), "serving initial configuration") {
			return fmt.Errorf("the log is %s", &g.log)
		}
		return nil
	})
	return g
}

func (g *twin) pid() string { return fmt.Sprint(g.cmd.Process.Pid) }

// meets waits until the gate has found so many others, and returns the pid of
// the first one.
func (g *twin) meets(t *testing.T, others int) (pid string) {
	t.Helper()
	eventually(t, "gates on one port", func() error {
		got := found(g.log.String())
		if len(got) != others {
			return fmt.Errorf("found %q, want %d", got, others)
		}
		if pid = got[0][1]; got[0][0] != g.pid() {
			return fmt.Errorf("the log has the pid %s, want %s", got[0][0], g.pid())
		}
		return nil
	})
	return pid
}

// found returns the own pid, the other one, and the last argument of the other
// process, of each line about another gate.
func found(log string) (all [][3]string) {
	for _, match := range regexp.MustCompile(`another gate listens on the same .*"pid":(\d+),"other_pid":(\d+),"other_directory":"/[^"]*","other_command":".*?([\w.]+)(?: --adapter caddyfile)?"`).FindAllStringSubmatch(log, -1) {
		all = append(all, [3]string(match[1:]))
	}
	return all
}
