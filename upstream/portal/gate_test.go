package portal

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// lines is a log that a test reads while others write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// watch checks a gate until the test ends.
func watch(t *testing.T, gate *client.Client, patience time.Duration) (*gateCheck, *lines) {
	t.Helper()
	log := &lines{}
	g := newGateCheck(gate, slog.New(slog.NewTextHandler(log, nil)))
	g.every, g.retry, g.patience = 10*time.Millisecond, 10*time.Millisecond, patience
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return g, log
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

func connect(t *testing.T, address, secret string) *client.Client {
	t.Helper()
	c, err := client.New(address, secret)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestUpstreamWithoutItsGate: the log says what is wrong with the gate, once and
// without the secret, and the health check has it.
func TestUpstreamWithoutItsGate(t *testing.T) {
	t.Parallel()
	gate := gatetest.Start(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	t.Cleanup(page.Close)
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)
	const closed = "http://127.0.0.1:1" // no program gets port 1
	const wrong = "another-secret-of-at-least-32-characters"
	for name, c := range map[string]struct{ address, secret, state, words string }{
		"wrong secret":       {"http://" + gate.Address, wrong, gateSecretRefused, "give the gate and upstream the same secret"},
		"no listener":        {closed, wrong, gateUnreachable, "connection refused"},
		"a page":             {page.URL, wrong, gateNotControl, "address of the gate's control listener"},
		"another API":        {missing.URL, wrong, gateNotControl, "address of the gate's control listener"},
		"the right gate":     {"http://" + gate.Address, gatetest.Secret, gateOK, ""},
		"a path of the gate": {"http://" + gate.Address + "/api", gatetest.Secret, gateNotControl, "address of the gate's control listener"},
	} {
		g, log := watch(t, connect(t, c.address, c.secret), 0)
		until(t, name, func() bool { return g.State() == c.state && strings.Contains(log.String(), c.words) })
		text := log.String()
		if n := strings.Count(text, "\n"); n > 1 || strings.Contains(text, "secret-of") || (c.words == "") != (n == 0) {
			t.Errorf("%s: the log has %s", name, text)
		}
	}
}

// TestGateThatStartsLater is no failure, and a longer one ends in the log.
func TestGateThatStartsLater(t *testing.T) {
	t.Parallel()
	gate := gatetest.Start(t)
	all := &gatetest.Fault{Hits: func(*http.Request) bool { return true }}
	gate.Fail(all)
	g, log := watch(t, gate.Client, time.Hour)
	until(t, "a failed check", func() bool { return g.State() == gateUnreachable || g.State() == gateUnavailable })
	gate.Fail(nil)
	until(t, "a check that works", func() bool { return g.State() == gateOK })
	if log.String() != "" {
		t.Errorf("the log has %s", log)
	}

	gate.Fail(all)
	g, log = watch(t, gate.Client, 0)
	until(t, "the failure in the log", func() bool { return strings.Contains(log.String(), "checking the gate") })
	gate.Fail(nil)
	until(t, "the end in the log", func() bool { return strings.Contains(log.String(), "checking the gate works again") })
	if g.State() != gateOK || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("the gate is %s, the log has %s", g.State(), log)
	}
}
