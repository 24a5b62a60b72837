package portal

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// Commands adds the commands.
func Commands(t *cli.Tool, _ *cobra.Command) {
	t.AccountGroup.AddCommand(cli.WithReason(linkCommand(t)))
}

func linkCommand(t *cli.Tool) *cobra.Command {
	c := &cobra.Command{
		Use: "link <account>", SuggestFor: []string{"portal"}, Short: "Makes a link that signs a person in to the web pages of an account", Args: misuse.Arguments(1),
		ValidArgsFunction: t.Complete(cli.Accounts),
		Long: "Prints a link that opens Settings and My usage of the account, without an e-mail and a password. It works once, for 5 minutes. " +
			"Send it only to a person who may see the account. The audit log has that it was made.",
		Example: "caddy tollgate account link acc_1 --reason 'lost password'",
	}
	c.RunE = cli.Query(t, cli.OfAccount(func(ctx context.Context, gate *client.Client, args []string) (api.Portal, error) {
		return gate.Portal(ctx, args[0])
	}), func(table io.Writer, link api.Portal) {
		c.PrintErrln("The link works once, until " + cli.Moment(link.ExpiresAt) + ".")
		cli.Row(table, link.URL)
	})
	return c
}
