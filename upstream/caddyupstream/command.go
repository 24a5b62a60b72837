package caddyupstream

import (
	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/command"
	"github.com/caddy-tollgate/tollgate/upstream/cli"
	portal "github.com/caddy-tollgate/tollgate/upstream/portal/command"
)

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
