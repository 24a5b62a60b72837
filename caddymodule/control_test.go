package caddymodule_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

const controlSecret = "a secret of at least 32 characters"

// controlledCaddy is a Caddy in this process whose control API listens on
// a Unix socket, and its admin endpoint where a test wants it.
type controlledCaddy struct {
	dir   string
	admin string
	// enforceOrigin makes the admin endpoint ask for the origin of each
	// request.
	enforceOrigin bool
	// shutdownDelay is how long the listeners stay open at the end.
	shutdownDelay time.Duration
}

func newControlledCaddy(t *testing.T) *controlledCaddy {
	t.Helper()
	dir := t.TempDir()
	c := &controlledCaddy{dir: dir, admin: "unix/" + filepath.Join(dir, "admin.sock")}
	stop(t) // what tests before have left
	t.Cleanup(func() { stop(t) })
	return c
}

// object is a part of a JSON configuration.
type object = map[string]any

// gateApp is the app with one plan besides free.
func (c *controlledCaddy) gateApp(plan string) object {
	return object{
		"store":     object{"module": "badger", "directory": filepath.Join(c.dir, "gate")},
		"secret":    controlSecret,
		"guard":     []string{"/api/"},
		"endpoints": []object{{"name": "convert", "patterns": []string{"GET /api/convert"}}},
		"plans":     []object{{"name": "free"}, {"name": plan, "limits": object{"convert": 10}}},
	}
}

// load puts a configuration in force that serves the control API on its
// socket and on further addresses; without an app there is nothing.
func (c *controlledCaddy) load(t *testing.T, app object, listen ...string) error {
	t.Helper()
	return caddy.Load(c.config(t, app, listen...), true)
}

// config is what load loads. Beside the control API it has a site with the
// gate.
func (c *controlledCaddy) config(t *testing.T, app object, listen ...string) []byte {
	t.Helper()
	server := func(listen []string, handlers ...object) object {
		return object{
			"listen":          listen,
			"automatic_https": object{"disable": true},
			"routes":          []object{{"handle": handlers}},
		}
	}
	apps := object{}
	if app != nil {
		apps["tollgate"] = app
		apps["http"] = object{"shutdown_delay": c.shutdownDelay, "servers": object{
			"control": server(append(listen, "unix/"+filepath.Join(c.dir, "control.sock")), object{"handler": "tollgate_control"}),
			"site":    server([]string{"unix/" + filepath.Join(c.dir, "site.sock")}, object{"handler": "tollgate"}, object{"handler": "static_response"}),
		}}
	}
	config, err := json.Marshal(object{
		"admin": object{"listen": c.admin, "enforce_origin": c.enforceOrigin, "config": object{"persist": false}},
		"apps":  apps,
	})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// client speaks to the control listener.
func (c *controlledCaddy) client(t *testing.T, secret string) *client.Client {
	t.Helper()
	return c.dial(t, "control.sock", "http://gate", secret)
}

// adminClient speaks to the admin endpoint.
func (c *controlledCaddy) adminClient(t *testing.T) *client.Client {
	t.Helper()
	return c.dial(t, "admin.sock", "http://localhost", "")
}

func (c *controlledCaddy) dial(t *testing.T, socket, base, secret string) *client.Client {
	t.Helper()
	made, err := client.New(base, secret, client.WithTransport(c.transport(socket)))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// transport sends requests to a socket.
func (c *controlledCaddy) transport(socket string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(c.dir, socket))
	}}
}

// TestCommandProcess is no test: it is the command caddy, when command
// starts this binary again.
func TestCommandProcess(*testing.T) {
	args, set := os.LookupEnv("TOLLGATE_TEST_COMMAND")
	if !set {
		return
	}
	if err := json.Unmarshal([]byte(args), &os.Args); err != nil {
		panic(err)
	}
	caddycmd.Main()
	os.Exit(0)
}

// process is the command caddy with these arguments, in a process of its
// own.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	line, err := json.Marshal(append([]string{"caddy"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCommandProcess$")
	process.Env = append(os.Environ(), "TOLLGATE_TEST_COMMAND="+string(line))
	return process
}

// command runs "caddy tollgate" in a process of its own.
func (c *controlledCaddy) command(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	process := process(t, append([]string{"tollgate", "--address", c.admin}, args...)...)
	var out, complaints bytes.Buffer
	process.Stdout, process.Stderr = &out, &complaints
	err := process.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), complaints.String(), process.ProcessState.ExitCode()
}

// Over TCP the admin endpoint judges the host and the origin.
func TestCommandOverTCP(t *testing.T) {
	c := newControlledCaddy(t)
	c.admin, c.enforceOrigin = fmt.Sprintf("127.0.0.1:%d", freePort(t)), true
	if out, complaints, status := c.command(t, "plans"); status != 1 || out != "" || !strings.Contains(complaints, "the gate is unreachable") {
		t.Errorf("no listener: got %d, %q, %q", status, out, complaints)
	}
	if err := c.load(t, c.gateApp("starter")); err != nil {
		t.Fatal(err)
	}
	if out, complaints, status := c.command(t, "plans"); status != 0 || !strings.Contains(out, "starter") {
		t.Errorf("got %d, %q, %q", status, out, complaints)
	}
	c.admin = "http://" + c.admin
	if out, complaints, status := c.command(t, "plans"); status != 0 || !strings.Contains(out, "starter") {
		t.Errorf("by its URL: got %d, %q, %q", status, out, complaints)
	}
	c.admin = "unix//nowhere-at-all.sock|0200"
	if _, complaints, status := c.command(t, "plans"); status != 1 || !strings.Contains(complaints, "the gate is unreachable") || strings.Contains(complaints, "0200") {
		t.Errorf("a socket that is not there: got %d, %q", status, complaints)
	}
	c.admin = "localhost:2019-2020"
	if _, complaints, status := c.command(t, "plans"); status != 2 || !strings.Contains(complaints, "is not the address of an admin endpoint") {
		t.Errorf("a range of ports: got %d, %q", status, complaints)
	}
}
