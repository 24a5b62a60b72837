// Package command is the command "caddy tollgate": the tree of its commands, the
// client of a running gate over Caddy's admin endpoint, and configuration files
// that are read and not loaded.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/site"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// New is "caddy tollgate". more adds commands to those of package cli.
func New(more ...func(t *cli.Tool, parent *cobra.Command)) caddycmd.Command {
	return caddycmd.Command{
		Name:  "tollgate",
		Usage: "<command> [--address <interface>] [--json]",
		Short: "Administers the accounts, limits, keys and counts of a gate",
		Long: `
Talks to the admin endpoint of a running Caddy whose configuration has the
global option tollgate. --address is its address, as for the command reload,
if it is not the default. Write Unix sockets as unix//path. Only restore talks
to no Caddy: it writes to the store of a configuration file.

Prints tables, or the documents of the control API with --json. Prints errors
to standard error, and exits with status 1. Exits with status 2 if the command
line is invalid.`,
		CobraFunc: func(c *cobra.Command) {
			c.AddCommand(terminal.Manpage())
			cli.Add(c, AdminClient, more...)
			ExitOnMisuse(c)
		},
	}
}

// AdminClient returns a client of the gate of another process, over Caddy's
// admin endpoint. The address is in Caddy's notation, or a URL, or empty for
// the default.
func AdminClient(address string) (*client.Client, error) {
	address, err := caddycmd.DetermineAdminAPIAddress(strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/"), nil, "", "")
	if err != nil {
		return nil, fmt.Errorf("finding the admin endpoint: %w", err)
	}
	parsed, err := caddy.ParseNetworkAddress(address)
	if err != nil || parsed.PortRangeSize() > 1 || (parsed.StartPort == 0 && !parsed.IsUnixNetwork()) {
		return nil, notAdmin(address)
	}
	// On a socket, the endpoint accepts no other host. The address of a socket
	// can end with its permissions.
	base, origin := "http://127.0.0.1", ""
	endpoint, _, _ := strings.Cut(parsed.Host, "|")
	if !parsed.IsUnixNetwork() {
		endpoint = parsed.JoinHostPort(0)
		base = "http://" + endpoint
		origin = base
	}
	t := &adminTransport{origin: origin}
	t.DisableKeepAlives = true
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, parsed.Network, endpoint)
	}
	gate, err := client.New(base, "", client.WithTransport(t))
	if err != nil {
		return nil, notAdmin(address)
	}
	return gate, nil
}

// notAdmin returns the error for an address that cannot be one.
func notAdmin(address string) error {
	return misuse.Errorf("%q is not the address of an admin endpoint, such as localhost:2019 or unix//run/caddy.sock", address)
}

// adminTransport sends requests to an admin endpoint. Over TCP, the endpoint
// requires an Origin header.
type adminTransport struct {
	http.Transport
	origin string
}

// RoundTrip implements http.RoundTripper.
func (t *adminTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.origin != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Origin", t.origin)
	}
	return t.Transport.RoundTrip(r)
}

// ReadConfig reads the global option of a configuration file into app, and
// returns the servers of the file. From then on, the process logs warnings and
// errors only: Caddy would log that it loads the configuration.
func ReadConfig(file, adapter string, app any) (map[string]site.Server, error) {
	_, log, _ := caddy.BufferedLog()
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	caddy.UnbufferDefaultLogger(log.WithOptions(zap.IncreaseLevel(zap.WarnLevel)))
	if err != nil {
		return nil, err
	}
	var loaded struct {
		Apps struct {
			Tollgate json.RawMessage `json:"tollgate"`
			HTTP     struct {
				Servers map[string]site.Server `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &loaded); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if loaded.Apps.Tollgate == nil {
		return nil, errors.New("the configuration has no global option tollgate")
	}
	if err := caddy.StrictUnmarshalJSON(loaded.Apps.Tollgate, app); err != nil {
		return nil, fmt.Errorf("reading the global option tollgate: %w", err)
	}
	return loaded.Apps.HTTP.Servers, nil
}
