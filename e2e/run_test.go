package e2e_test

import (
	"bytes"
	"fmt"
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
	stack.SkipInOneProcess(t, "it starts no stack")
	t.Run("two processes", func(t *testing.T) { run(t, "caddy upstream") })
	t.Run("one process", func(t *testing.T) { run(t, "caddy", "--one-process") })
}

// run runs the printed lines, and stops everything as Ctrl-C does. No process
// remains.
func run(t *testing.T, programs string, args ...string) {
	dir := t.TempDir()
	ports := stack.FreePorts(t, 4)
	cmd := exec.Command(filepath.Join(stack.Root(), "xcaddy.sh"), append([]string{"run"}, args...)...)
	cmd.Env = append(os.Environ(),
		"TOLLGATE_ADDRESS=http://127.0.0.1:"+ports[0], "TOLLGATE_CONTROL=127.0.0.1:"+ports[1],
		"TOLLGATE_UPSTREAM=127.0.0.1:"+ports[2], "CADDY_ADMIN=127.0.0.1:"+ports[3],
		"TOLLGATE_DATA="+filepath.Join(dir, "data"), "TOLLGATE_RATES_HISTORY=off", "TOLLGATE_RATES_DAILY=off",
		"XDG_DATA_HOME="+filepath.Join(dir, "share"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	// Ctrl-C sends the signal to the whole process group of a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out stack.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)

	lines := awaitLines(t, &out, ended)
	answer, err := exec.Command("sh", "-c", strings.Join(lines, "\n")).CombinedOutput()
	for _, want := range []string{"200 OK", `"from":"USD","to":"EUR","amount":100`, `"endpoint":"convert"`, `"used":1,"remaining":999`} {
		if err != nil || !bytes.Contains(answer, []byte(want)) {
			t.Errorf("the printed lines answer %s (%v), want %q", answer, err, want)
		}
	}
	if got := running(t, cmd.Process.Pid); got != programs {
		t.Errorf("the programs are %q, want %q", got, programs)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatalf("xcaddy.sh run does not stop:\n%s", &out)
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); err == nil {
		t.Errorf("processes remain:\n%s", &out)
	}
}

// running returns the built programs that run in a process group, sorted.
func running(t *testing.T, group int) string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
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
