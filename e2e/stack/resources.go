package stack

import (
	"fmt"
	"net/http"
	"os"

	"github.com/prometheus/procfs"
)

// Resources returns how many goroutines and open files Caddy has. It first
// closes the idle connections of the stacks.
func (s *Stack) Resources() (goroutines, files int) {
	s.t.Helper()
	client.CloseIdleConnections()
	response, err := http.Get("http://" + s.admin + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := fmt.Fscanf(response.Body, "goroutine profile: total %d", &goroutines); err != nil {
		s.t.Fatal(err)
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.caddy.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	return goroutines, len(open)
}

// Memory returns the resident memory of Caddy in bytes, and the most that it
// has had.
func (s *Stack) Memory() (now, peak uint64) {
	s.t.Helper()
	process, err := procfs.NewProc(s.caddy.Process.Pid)
	if err != nil {
		s.t.Fatal(err)
	}
	status, err := process.NewStatus()
	if err != nil {
		s.t.Fatal(err)
	}
	return status.VmRSS, status.VmHWM
}
