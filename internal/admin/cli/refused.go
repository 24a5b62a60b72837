package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

func (t *tool) refused() *cobra.Command {
	var days int
	var account accountFilter
	c := &cobra.Command{
		Use: "refused", Short: "Shows how many calls were refused, and why", Args: misuse.Arguments(0),
		Long: "Shows for each day, account, endpoint, code and reason how many calls were refused, or would have been in mode shadow. " +
			"The reason tells why a token that the gate knows is not valid: revoked, expired, or its account is disabled.",
		Example: "caddy tollgate usage refused --days 30 --account acc_1",
	}
	addNumber(c, &days, "days", 7, 1, api.MaxRefusedDays, fmt.Sprintf("The last days, today included, up to %d", api.MaxRefusedDays))
	t.addAccountFilter(c, &account, "Show the calls of this account only")
	c.RunE = query(t, func(ctx context.Context, gate *client.Client, _ []string) (page api.RefusedPage, err error) {
		if err := notEmpty(c, "account"); err != nil {
			return page, err
		}
		id, err := account.id(ctx, gate)
		if err != nil {
			return page, err
		}
		page.Refused, err = client.All(func(after string) ([]api.Refused, *string, error) {
			page, err := gate.Refused(ctx, days, id, after, client.PageSize)
			return page.Refused, page.Next, err
		})
		return page, cmp.Or(err, account.check(len(page.Refused)))
	}, showRefused)
	return c
}

func showRefused(table io.Writer, page api.RefusedPage) {
	row(table, "DAY", "ACCOUNT", "ENDPOINT", "CODE", "REASON", "CALLS")
	for _, r := range page.Refused {
		row(table, r.Day, cmp.Or(r.Account, none), cmp.Or(r.Endpoint, none), r.Code, cmp.Or(r.Reason, none), strconv.FormatInt(r.Calls, 10))
	}
	end(table, len(page.Refused))
}
