package caddymodule_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// ask asks over one of the sockets: "admin", "control" or "site".
func (c *controlledCaddy) ask(t *testing.T, socket, method, path, bearer string) answered {
	t.Helper()
	got, err := c.try(t.Context(), socket, method, path, bearer)
	if err != nil {
		t.Fatalf("%s %s over %s: %v", method, path, socket, err)
	}
	return got
}

func (c *controlledCaddy) try(ctx context.Context, socket, method, path, bearer string) (answered, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(c.dir, socket+".sock"))
	}}}
	r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, nil)
	if err != nil {
		return answered{}, err
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := client.Do(r)
	if err != nil {
		return answered{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answered{response.StatusCode, response.Header, string(text)}, err
}

// expectHealth asks over a socket, without the secret, whether the gate
// is ready and whether it lives.
func (c *controlledCaddy) expectHealth(t *testing.T, socket string, want api.Status) api.Readiness {
	t.Helper()
	status := http.StatusServiceUnavailable
	if want == api.Ready {
		status = http.StatusOK
	}
	got := c.ask(t, socket, "GET", "/tollgate/health/ready", "")
	var state api.Readiness
	err := json.Unmarshal([]byte(got.body), &state)
	if err != nil || got.status != status || state.Status != want || state.Mode != "enforce" || state.Since.IsZero() || len(state.Checks) == 0 || state.Checks[0].Name != "store" || (len(state.Checks) == 1) != (want == api.Ready || want == api.Unavailable) {
		t.Fatalf("ready over %s: got %d %s, want %d %s", socket, got.status, got.body, status, want)
	}
	if head := c.ask(t, socket, "HEAD", "/tollgate/health/ready", ""); head.status != status || head.body != "" {
		t.Errorf("HEAD over %s: got %d %q, want %d", socket, head.status, head.body, status)
	}
	live := c.ask(t, socket, "GET", "/tollgate/health/live", "")
	if live.status != http.StatusOK || strings.TrimSpace(live.body) != `{"status":"live"}` {
		t.Errorf("live over %s: got %d %s", socket, live.status, live.body)
	}
	for _, answer := range []answered{got, live} {
		if cached := answer.header.Get("Cache-Control"); cached != "no-store" {
			t.Errorf("over %s: Cache-Control %q", socket, cached)
		}
	}
	return state
}

// becomes waits until the gate has a status.
func (c *controlledCaddy) becomes(t *testing.T, socket string, want api.Status) {
	t.Helper()
	eventually(t, string(want)+" over "+socket, func() bool {
		got, err := c.try(t.Context(), socket, "GET", "/tollgate/health/ready", "")
		return err == nil && strings.Contains(got.body, `"status":"`+string(want)+`"`)
	})
}

// expectCommand runs "caddy tollgate health".
func (c *controlledCaddy) expectCommand(t *testing.T, want api.Status) {
	t.Helper()
	status, complaint := 0, ""
	if want != api.Ready {
		status, complaint = 1, "Error: the gate is not ready: "+string(want)+": "+map[api.Status]string{
			api.Starting:    "The store is being opened",
			api.Unavailable: "The store cannot admit calls: writing /srv/gate/00001.log: no space left on device",
			api.Stopping:    "Caddy stops, or another configuration replaces this one",
		}[want]+"\n"
	}
	out, complaints, got := c.command(t, "health")
	if got != status || complaints != complaint || !strings.HasPrefix(out, "Status  "+string(want)+"\n") {
		t.Errorf("caddy tollgate health: got %d\n%s%s", got, out, complaints)
	}
	out, _, got = c.command(t, "health", "--json")
	if got != status || !strings.Contains(out, `"status":"`+string(want)+`"`) {
		t.Errorf("caddy tollgate health --json: got %d, %s", got, out)
	}
}

// TestStarting: while a store is being opened, which may take long, every
// call says so at once. Nothing waits.
func TestStarting(t *testing.T) {
	c := newControlledCaddy(t)
	again, opening, open := errors.New("the listeners are not there yet"), make(chan struct{}), make(chan struct{})
	s := newTestStore(t, func() error {
		// Caddy starts the apps in an order of its own. In this test http
		// comes first.
		if _, err := c.try(context.Background(), "control", "GET", "/", ""); err != nil {
			return again
		}
		close(opening)
		<-open
		return nil
	})
	loaded := make(chan error, 1)
	release := sync.OnceFunc(func() { close(open) })
	t.Cleanup(release) // or Caddy could not be stopped
	go func() {
		err := c.load(t, s.use(t, c.gateApp("starter")))
		for err != nil && strings.Contains(err.Error(), again.Error()) {
			// The listeners of the failed start may close a moment later.
			for err = nil; err == nil; {
				_, err = c.try(context.Background(), "control", "GET", "/", "")
			}
			err = c.load(t, s.use(t, c.gateApp("starter")))
		}
		loaded <- err
	}()
	select {
	case <-opening:
	case err := <-loaded:
		t.Fatalf("the configuration was loaded without a store: %v", err)
	}
	starting := func(what string, got answered) {
		t.Helper()
		if got.status != http.StatusServiceUnavailable || got.code() != "unavailable" || got.header.Get("Retry-After") != "5" {
			t.Errorf("%s: got %d %v %s", what, got.status, got.header, got.body)
		}
	}
	for _, path := range []string{"/tollgate/plans", "/tollgate/accounts", "/tollgate/accounts/acc_1"} {
		for socket, bearer := range map[string]string{"control": controlSecret, "admin": ""} {
			got := c.ask(t, socket, "GET", path, bearer)
			starting(path+" over "+socket, got)
			if !strings.Contains(got.body, "The gate is starting: it opens its store.") {
				t.Errorf("%s over %s: got %s", path, socket, got.body)
			}
		}
		if got := c.ask(t, "control", "GET", path, ""); got.status != http.StatusUnauthorized {
			t.Errorf("%s without the secret: got %d", path, got.status)
		}
	}
	if out, complaints, status := c.command(t, "plans"); status != 1 || out != "" || !strings.HasPrefix(complaints, "Error: The gate is starting") {
		t.Errorf("the command: got %d, %q, %q", status, out, complaints)
	}
	key, err := token.New(token.Key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	starting("a call", c.ask(t, "site", "GET", "/api/convert", key.Reveal()))
	for _, socket := range []string{"control", "admin"} {
		if state := c.expectHealth(t, socket, api.Starting); state.Checks[0].OK {
			t.Errorf("over %s: the store works before it is open", socket)
		}
	}
	c.expectCommand(t, api.Starting)

	release()
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{"control", "admin"} {
		c.expectHealth(t, socket, api.Ready)
	}
	c.expectCommand(t, api.Ready)
	if got := c.ask(t, "site", "GET", "/api/convert", key.Reveal()); got.status != http.StatusUnauthorized {
		t.Errorf("a call: got %d %s", got.status, got.body)
	}
}

// TestStartThatFails: the first configuration is refused as a whole when
// its store cannot be opened, and the admin endpoint does not speak of a
// gate that is not there.
func TestStartThatFails(t *testing.T) {
	c := newControlledCaddy(t)
	s := newTestStore(t, func() error { return errors.New("no such disk") })
	if err := c.load(t, s.use(t, c.gateApp("starter"))); err == nil || !strings.Contains(err.Error(), "opening store: no such disk") {
		t.Fatalf("got %v", err)
	}
	for _, path := range []string{"/tollgate/plans", "/tollgate/health/ready"} {
		got := c.ask(t, "admin", "GET", path, "")
		if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "no configuration is in force") {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
}

// TestUnavailable: ready follows the store, and shows strangers nothing
// of the reason.
func TestUnavailable(t *testing.T) {
	c := newControlledCaddy(t)
	s := newTestStore(t, nil)
	if err := c.load(t, s.use(t, c.gateApp("starter"))); err != nil {
		t.Fatal(err)
	}
	before := c.expectHealth(t, "control", api.Ready)
	if limiter, err := app(t).Limiter(); err != nil || limiter == nil {
		t.Errorf("the gate has no limiter for a store without one: %v", err)
	}
	s.fail(errors.New("writing /srv/gate/00001.log: no space left on device"))
	c.becomes(t, "control", api.Unavailable)
	for _, socket := range []string{"control", "admin"} {
		state := c.expectHealth(t, socket, api.Unavailable)
		cause := map[string]string{"admin": "writing /srv/gate/00001.log: no space left on device"}[socket]
		if state.Checks[0].OK || strings.Contains(state.Checks[0].Message, "/srv") || state.Checks[0].Cause != cause || !state.Since.After(before.Since) {
			t.Errorf("over %s: got %+v", socket, state)
		}
	}
	c.expectCommand(t, api.Unavailable)
	s.mend()
	c.becomes(t, "admin", api.Ready)
	c.expectHealth(t, "control", api.Ready)
	c.expectCommand(t, api.Ready)
}

// adminRoute returns the handler of a route of the admin endpoint.
func adminRoute(pattern string) caddy.AdminHandler {
	routes := new(caddymodule.Admin).Routes()
	return routes[slices.IndexFunc(routes, func(r caddy.AdminRoute) bool { return r.Pattern == pattern })].Handler
}

// TestReadyDuringReloads: a reload changes neither the status nor since
// when it is.
func TestReadyDuringReloads(t *testing.T) {
	c := newControlledCaddy(t)
	s := newTestStore(t, nil)
	if err := c.load(t, s.use(t, c.gateApp("starter"))); err != nil {
		t.Fatal(err)
	}
	first := c.expectHealth(t, "admin", api.Ready)
	admin := adminRoute("/tollgate/")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			w := httptest.NewRecorder()
			err := admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/tollgate/health/ready", nil))
			if err != nil || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"status":"ready"`) {
				t.Errorf("got %d %s, %v", w.Code, w.Body, err)
				return
			}
		}
	}()
	for range 20 {
		if err := c.load(t, s.use(t, c.gateApp("gold"))); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-done
	if last := c.expectHealth(t, "control", api.Ready); !last.Since.Equal(first.Since) {
		t.Errorf("ready since %s, and after reloads since %s", first.Since, last.Since)
	}
	if err := c.load(t, nil); err != nil {
		t.Fatal(err)
	}
	if out, complaints, status := c.command(t, "health"); status != 1 || out != "" || !strings.Contains(complaints, "no working global option tollgate") {
		t.Errorf("without a gate: got %d, %q, %q", status, out, complaints)
	}
}

// TestStopping ends a process whose listeners stay open for a while: a
// load balancer sees that it stops, and calls go on.
func TestStopping(t *testing.T) {
	c := &controlledCaddy{dir: t.TempDir(), shutdownDelay: time.Hour}
	c.admin = "unix/" + filepath.Join(c.dir, "admin.sock")
	config := filepath.Join(c.dir, "config.json")
	if err := os.WriteFile(config, c.config(t, c.gateApp("starter")), 0o600); err != nil {
		t.Fatal(err)
	}
	server := process(t, "run", "--config", config)
	server.Env = append(server.Env, "XDG_DATA_HOME="+c.dir, "XDG_CONFIG_HOME="+c.dir)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// It would wait for an hour.
		if err := server.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = server.Wait()
	})
	c.becomes(t, "admin", api.Ready)
	c.expectHealth(t, "control", api.Ready)
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.becomes(t, "control", api.Stopping)
	for _, socket := range []string{"control", "admin"} {
		if state := c.expectHealth(t, socket, api.Stopping); !state.Checks[0].OK {
			t.Errorf("over %s: got %+v", socket, state)
		}
	}
	c.expectCommand(t, api.Stopping)
	if got := c.ask(t, "control", "GET", "/tollgate/plans", controlSecret); got.status != http.StatusOK {
		t.Errorf("plans: got %d %s", got.status, got.body)
	}
	if got := c.ask(t, "site", "GET", "/open", ""); got.status != http.StatusOK {
		t.Errorf("the site: got %d %s", got.status, got.body)
	}
}
