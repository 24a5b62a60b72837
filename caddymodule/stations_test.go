package caddymodule_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// walks are requests with the number of functions of this project that each may
// enter at most, from Caddy or the client to the log of the store and back. Lower
// a number with each function that goes.
var walks = map[string]struct {
	most int
	walk func(t *testing.T, s *site, n int)
}{
	"call":    {170, func(t *testing.T, s *site, _ int) { s.expect(t, 200, "/api/convert/EUR/10/USD", stationBearer) }},
	"refusal": {56, func(t *testing.T, s *site, _ int) { s.expect(t, 401, "/api/convert/EUR/10/USD", "") }},
	"key": {226, func(t *testing.T, _ *site, n int) {
		if _, err := caddymodule.ControlClient().CreateKey(t.Context(), stationAccount, api.KeyRequest{Name: fmt.Sprint("key ", n)}); err != nil {
			t.Fatal(err)
		}
	}},
	"credit": {221, func(t *testing.T, _ *site, _ int) {
		if _, err := caddymodule.ControlClient().Credit(t.Context(), stationAccount, api.CreditRequest{Endpoint: "convert", Calls: 1}); err != nil {
			t.Fatal(err)
		}
	}},
	"login": {144, func(t *testing.T, s *site, n int) {
		if got := s.ask(t, "POST", "/api/login", fmt.Sprintf(`{"email":"a%d@example.com","password":"x"}`, n), asJSON, "X-Password: right"); got.status != 200 {
			t.Fatalf("got %+v", got)
		}
	}},
}

var stationAccount, stationBearer string

func (s *site) expect(t *testing.T, status int, target, bearer string) {
	t.Helper()
	if got := s.get(t, target, bearer); got.status != status {
		t.Fatalf("got %d %s", got.status, got.body)
	}
}

// stationWalk and stationTimes say which walk TestStations makes in a process of
// its own, and how often.
const stationWalk, stationTimes = "TOLLGATE_STATION_WALK", "TOLLGATE_STATION_TIMES"

// TestStations counts the functions of this project that each walk enters, with the
// coverage profiles of two processes: one makes 60 walks more. A function is a
// station if it ran at least 60 times more. A function literal belongs to the
// function around it.
//
//	TOLLGATE_LONG=1 go test -v -run TestStations ./caddymodule
func TestStations(t *testing.T) {
	if times, err := strconv.Atoi(os.Getenv(stationTimes)); err == nil {
		s := start(t, setup{gate: strings.Replace(usual, "login POST /api/login\n", "login POST /api/login {\nper_client 1000 1m\n}\n", 1)})
		stationAccount, stationBearer = s.account(t, "business")
		for range 80 { // to be given back
			s.expect(t, 200, "/api/convert/EUR/10/USD", stationBearer)
		}
		for n := range times {
			walks[os.Getenv(stationWalk)].walk(t, s, n)
		}
		return
	}
	if !storetest.Long() {
		t.Skip("it compiles the packages again: with --long")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "test")
	output(t, exec.CommandContext(t.Context(), "go", "test", "-c", "-covermode=atomic", "-coverpkg=github.com/caddy-tollgate/tollgate/caddymodule/...,github.com/caddy-tollgate/tollgate/internal/...", "-o", program, "."))
	for name, walk := range walks {
		stations := stationsOf(t, program, dir, name)
		t.Logf("%s: %d stations:\n%s", name, len(stations), strings.Join(stations, "\n"))
		if len(stations) < walk.most/2 || len(stations) > walk.most {
			t.Errorf("%s: got %d stations, want at most %d", name, len(stations), walk.most)
		}
	}
}

// stationsOf returns the stations of a walk.
func stationsOf(t *testing.T, program, dir, walk string) (stations []string) {
	t.Helper()
	const more = 60
	profile := filepath.Join(dir, "profile")
	before, after := blocks(t, program, dir, walk, 10), blocks(t, program, dir, walk, 10+more)
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
	for line := range strings.Lines(output(t, exec.CommandContext(t.Context(), "go", "tool", "cover", "-func="+profile))) {
		if fields := strings.Fields(line); fields[0] != "total:" && fields[2] != "0.0%" && !strings.Contains(fields[0], "test/") && !strings.Contains(fields[0], "_test.go") {
			stations = append(stations, fields[0]+" "+fields[1])
		}
	}
	return stations
}

// blocks runs TestStations with a walk, and returns how often each block of its
// coverage profile ran.
func blocks(t *testing.T, program, dir, walk string, times int) map[string]int {
	t.Helper()
	profile := filepath.Join(dir, "counts")
	command := exec.CommandContext(t.Context(), program, "-test.run", "^TestStations$", "-test.coverprofile", profile)
	command.Env = append(os.Environ(), stationWalk+"="+walk, fmt.Sprintf("%s=%d", stationTimes, times))
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
