package redistest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Monitor collects the commands that a server executes, as MONITOR shows
// them: "get" "key". It leaves out what Do sends, and what Redis never shows,
// such as administrative commands.
type Monitor struct {
	server *Server
	conn   *conn
	ended  chan struct{}
	asking sync.Mutex // one Commands at a time

	mu             sync.Mutex
	sent, scripted []string
	marker         string
	marked         chan struct{}
	err            error // why the connection ended
}

// OpenMonitor starts to collect commands. The caller must call Close.
func (s *Server) OpenMonitor() (*Monitor, error) {
	c, err := s.dial(patience)
	if err != nil {
		return nil, err
	}
	_, err = c.do("MONITOR")
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("monitoring %s: %w", s.port, err)
	}
	m := &Monitor{server: s, conn: c, ended: make(chan struct{})}
	go m.read()
	return m, nil
}

// Monitor collects commands until the end of a test. The function that it
// returns gives what the server executed since then: what clients sent, and
// apart from it what scripts called. It is complete for all that was
// executed before the call.
func (s *Server) Monitor(t testing.TB) func() (sent, scripted []string) {
	t.Helper()
	m, err := s.OpenMonitor()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return func() ([]string, []string) {
		t.Helper()
		sent, scripted, err := m.Commands()
		if err != nil {
			t.Fatal(err)
		}
		return sent, scripted
	}
}

// Close ends the collection.
func (m *Monitor) Close() error {
	err := m.conn.Close()
	<-m.ended
	return err
}

// Commands returns what clients sent since OpenMonitor, and what scripts
// called. It sends a marker and waits until MONITOR shows it: everything that
// was executed before is there.
func (m *Monitor) Commands() (sent, scripted []string, err error) {
	m.asking.Lock()
	defer m.asking.Unlock()
	marker, marked := rand.Text(), make(chan struct{})
	m.mu.Lock()
	m.marker, m.marked = marker, marked
	m.mu.Unlock()
	if _, err := m.server.Do("ECHO", marker); err != nil {
		return nil, nil, err
	}
	select {
	case <-marked:
	case <-m.ended:
	case <-time.After(patience):
		return nil, nil, fmt.Errorf("monitoring %s: the marker did not come within %v", m.server.port, patience)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sent), slices.Clone(m.scripted), m.err
}

func (m *Monitor) read() {
	defer close(m.ended)
	for {
		reply, err := m.conn.reply()
		if err == nil {
			err = m.add(reply)
		}
		if err != nil {
			m.mu.Lock()
			m.err = fmt.Errorf("monitoring %s: %w", m.server.port, err)
			m.mu.Unlock()
			return
		}
	}
}

// add takes a line such as: 1700000000.123456 [0 127.0.0.1:5555] "get" "key"
// A command of a script has the client lua.
func (m *Monitor) add(reply any) error {
	line, _ := reply.(string)
	_, line, _ = strings.Cut(line, " [")
	where, command, ok := strings.Cut(line, "] ")
	_, client, _ := strings.Cut(where, " ")
	if !ok {
		return fmt.Errorf("cannot read %v", reply)
	}
	if client == "" {
		return errors.New("a command has no client")
	}
	host, _, err := net.SplitHostPort(client)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case client == "lua":
		m.scripted = append(m.scripted, command)
	case err == nil && host == source:
		if m.marker != "" && strings.Contains(command, m.marker) {
			close(m.marked)
			m.marker = ""
		}
	default:
		m.sent = append(m.sent, command)
	}
	return nil
}
