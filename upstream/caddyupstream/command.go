package caddyupstream

import (
	"fmt"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/cli"
)

// command is "caddy upstream".
func command() caddycmd.Command {
	return caddycmd.Command{
		Name:  "upstream",
		Usage: "<command> [--data <directory>]",
		Short: "Administers the accounts and rates of the handler tollgate_upstream",
		Long: `
Reads and changes the database and the rates of the handler tollgate_upstream.
--data and the environment variable TOLLGATE_DATABASE must be the handler's
options data and database.

The commands below account also talk to the admin endpoint of the running
Caddy. --address is its address, if it is not the default. Write Unix sockets
as unix//path.`,
		CobraFunc: func(c *cobra.Command) {
			c.Args, c.RunE = cobra.NoArgs, needCommand
			cli.Add(c, cli.Gate{Flags: flags, Connect: connect})
		},
	}
}

// needCommand refuses a command line without a command. Cobra would print the
// help and exit with 0, also for an unknown command.
func needCommand(c *cobra.Command, _ []string) error {
	return fmt.Errorf("%s needs a command: account, rates", c.CommandPath())
}

func flags(c *cobra.Command) {
	c.Flags().String("address", "", "`address` of the running Caddy's admin endpoint")
}

func connect(c *cobra.Command) (*client.Client, error) {
	return caddymodule.AdminClient(c.Flag("address").Value.String())
}
