package topup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// Commands adds the command.
func Commands(t *cli.Tool, _ *cobra.Command) { t.UsageGroup.AddCommand(command(t)) }

func command(t *cli.Tool) *cobra.Command {
	var id, until string
	c := &cobra.Command{
		Use: "topup <account> <endpoint>|all <calls>", Short: "Adds calls to a total of an account", Args: misuse.Arguments(3),
		Long: "Adds calls to what the account's plan gives in total, for one endpoint or for all together. They count from the next call on. " +
			"Of several top-ups, calls use the one that ends first. With the same --id, a command that is repeated adds nothing again.",
		Example:           "caddy tollgate usage topup acc_1 convert 5000 --id invoice-17 --until 2026-12-31",
		ValidArgsFunction: t.Complete(cli.Accounts, cli.Limited),
	}
	c.Flags().StringVar(&id, "id", "", "Names the top-up, so that it is made once, for example the number of an invoice")
	c.Flags().StringVar(&until, "until", "", "The last day, for example 2026-12-31, or a time in RFC 3339 (default: no end)")
	if err := c.MarkFlagRequired("id"); err != nil {
		panic(err) // there is this flag
	}
	c.RunE = cli.Query(t, func(ctx context.Context, gate *client.Client, args []string) (made api.TopUp, err error) {
		request := api.TopUpRequest{Endpoint: cli.OrAll(args[1]), ID: id}
		if request.Calls, err = cli.ParseCalls("number of calls", args[2], ""); err != nil {
			return made, err
		}
		if c.Flags().Changed("until") {
			end, err := cli.ParseUntil(ctx, gate, until)
			if err != nil {
				return made, err
			}
			request.ExpiresAt = &end
		}
		account, err := cli.AccountOf(ctx, gate, args[0])
		if err != nil {
			return made, err
		}
		made, err = gate.TopUp(ctx, account, request)
		if errors.Is(err, client.ErrUnreachable) {
			err = fmt.Errorf("%w. If it is not known whether the calls were added, repeat the command with --id %s", err, id)
		}
		return made, err
	}, func(table io.Writer, made api.TopUp) {
		end := "never"
		if made.ExpiresAt != nil {
			end = terminal.Time(*made.ExpiresAt)
		}
		cli.Row(table, "ACCOUNT", "ENDPOINT", "ADDED", "UNTIL", "REMAINING", "ID")
		cli.Row(table, made.Account, made.Endpoint, strconv.FormatInt(made.Calls, 10), end, cli.Limit(made.Remaining), made.ID)
	})
	return c
}
