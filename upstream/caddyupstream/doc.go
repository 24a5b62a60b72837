// Package caddyupstream is the upstream as Caddy modules that run in the gate's
// process: the handler "tollgate_upstream" and the command "caddy upstream".
//
// The handler replaces the proxy and the process bin/upstream. It asks the
// gate's control API in memory, and answers API calls and logins that the
// gate has passed. The gate marks such requests in state that clients cannot
// write. The handler reads no identity from headers.
package caddyupstream

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/command"
	"github.com/caddy-tollgate/tollgate/upstream/cli"
	portal "github.com/caddy-tollgate/tollgate/upstream/portal/command"
)

func init() {
	caddy.RegisterModule((*Upstream)(nil))
	httpcaddyfile.RegisterHandlerDirective("tollgate_upstream", parse)
	// Among the directives that answer requests, because it answers all.
	httpcaddyfile.RegisterDirectiveOrder("tollgate_upstream", httpcaddyfile.Before, "respond")
	caddycmd.RegisterCommand(upstreamCommand())
}

// upstreamCommand is "caddy upstream".
func upstreamCommand() caddycmd.Command {
	return caddycmd.Command{
		Name:  "upstream",
		Usage: "<command> [--data <directory>]",
		Short: "Administers the accounts and rates of the handler tollgate_upstream",
		Long: `
Reads and changes the database and the rates of the handler tollgate_upstream.
--data (or TOLLGATE_DATA) and TOLLGATE_DATABASE must equal the handler's
options data and database.

The commands below account also talk to the admin endpoint of the running
Caddy. --address (or CADDY_ADMIN) is its address, if it is not the default.
Write Unix sockets as unix//path.

Prints errors to standard error, and exits with status 1. Exits with status 2
if the command line is invalid.`,
		CobraFunc: func(c *cobra.Command) {
			cli.Add(c, portal.Gate{Flags: flags, Connect: connect})
			command.ExitOnMisuse(c)
		},
	}
}

func flags(c *cobra.Command) {
	c.Flags().String("address", "", "`address` of the running Caddy's admin endpoint")
}

func connect(c *cobra.Command) (*client.Client, error) {
	return command.AdminClient(c.Flag("address").Value.String())
}
