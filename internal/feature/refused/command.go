package refused

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// Commands adds the commands.
func Commands(t *cli.Tool, _ *cobra.Command) {
	t.UsageGroup.AddCommand(command(t))
}

func command(t *cli.Tool) *cobra.Command {
	var days int
	var account cli.AccountFilter
	c := &cobra.Command{
		Use: "refused", Short: "Shows how many calls were refused, and why", Args: misuse.Arguments(0),
		Long: "Shows for each day, account, endpoint, code and reason how many calls were refused, or would have been in mode shadow. " +
			"The reason tells why a token that the gate knows is not valid: revoked, expired, or its account is disabled.",
		Example: "caddy tollgate usage refused --days 30 --account acc_1",
	}
	cli.AddNumber(c, &days, "days", 7, 1, api.MaxRefusedDays, fmt.Sprintf("The last days, today included, up to %d", api.MaxRefusedDays))
	t.AddAccountFilter(c, &account, "Show the calls of this account only")
	c.RunE = cli.Query(t, func(ctx context.Context, gate *client.Client, _ []string) (page api.RefusedPage, err error) {
		if err := cli.NotEmpty(c, "account"); err != nil {
			return page, err
		}
		id, err := account.ID(ctx, gate)
		if err != nil {
			return page, err
		}
		page.Refused, err = client.All(func(after string) ([]api.Refused, *string, error) {
			page, err := gate.Refused(ctx, api.RefusedQuery{Days: days, Account: id, After: after, Limit: client.PageSize})
			return page.Refused, page.Next, err
		})
		return page, cmp.Or(err, account.Check(len(page.Refused)))
	}, showRefused)
	return c
}

func showRefused(table io.Writer, page api.RefusedPage) {
	cli.Row(table, "DAY", "ACCOUNT", "ENDPOINT", "CODE", "REASON", "CALLS")
	for _, r := range page.Refused {
		cli.Row(table, r.Day, cmp.Or(r.Account, cli.None), cmp.Or(r.Endpoint, cli.None), r.Code, cmp.Or(r.Reason, cli.None), strconv.FormatInt(r.Calls, 10))
	}
	cli.End(table, len(page.Refused))
}
