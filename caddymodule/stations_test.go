package caddymodule_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// maxStations is how many functions of this project an admitted call may
// enter, from Gate.ServeHTTP to the log of the store and back. Lower it with
// each function that goes.
const maxStations = 170

// stationCalls is how many calls TestStations makes in a process of its own.
const stationCalls = "TOLLGATE_STATION_CALLS"

// TestStations counts the functions of this project that each admitted call
// enters, with the coverage profiles of two processes: one makes 100 calls
// more. A function is a station if it ran at least 100 times more. A function
// literal belongs to the function around it.
//
//	TOLLGATE_LONG=1 go test -v -run TestStations ./caddymodule
func TestStations(t *testing.T) {
	if calls, err := strconv.Atoi(os.Getenv(stationCalls)); err == nil {
		s := start(t, setup{})
		_, bearer := s.account(t, "starter")
		for range calls {
			if got := s.get(t, "/api/convert/EUR/10/USD", bearer); got.status != 200 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
		}
		return
	}
	if !storetest.Long() {
		t.Skip("it compiles the packages again: with --long")
	}
	const more = 100
	dir := t.TempDir()
	program, profile := filepath.Join(dir, "test"), filepath.Join(dir, "profile")
	output(t, exec.CommandContext(t.Context(), "go", "test", "-c", "-covermode=atomic", "-coverpkg=github.com/caddy-tollgate/tollgate/caddymodule/...", "-o", program, "."))
	before, after := blocks(t, program, dir, 10), blocks(t, program, dir, 10+more)
	var each strings.Builder
	each.WriteString("mode: set\n")
	for block, n := range after {
		ran := 0
		if n-before[block] >= more {
			ran = 1
		}
		fmt.Fprintln(&each, block, ran)
	}
	if err := os.WriteFile(profile, []byte(each.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var stations []string
	for line := range strings.Lines(output(t, exec.CommandContext(t.Context(), "go", "tool", "cover", "-func="+profile))) {
		if fields := strings.Fields(line); fields[0] != "total:" && fields[2] != "0.0%" {
			stations = append(stations, fields[0]+" "+fields[1])
		}
	}
	t.Logf("%d stations:\n%s", len(stations), strings.Join(stations, "\n"))
	if len(stations) < maxStations/2 || len(stations) > maxStations {
		t.Errorf("got %d stations, want at most %d", len(stations), maxStations)
	}
}

// blocks runs TestStations with a number of calls, and returns how often each
// block of its coverage profile ran.
func blocks(t *testing.T, program, dir string, calls int) map[string]int {
	t.Helper()
	profile := filepath.Join(dir, "counts")
	command := exec.CommandContext(t.Context(), program, "-test.run", "^TestStations$", "-test.coverprofile", profile)
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", stationCalls, calls))
	output(t, command)
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if at := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "mode:") {
			n, err := strconv.Atoi(strings.TrimSpace(line[at:]))
			if err != nil {
				t.Fatal(err)
			}
			counts[line[:at]] += n
		}
	}
	return counts
}

func output(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, text)
	}
	return string(text)
}
