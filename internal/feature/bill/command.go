package bill

import (
	"context"
	"crypto/rand"
	"errors"
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
	t.UsageGroup.AddCommand(resetCommand(t), creditCommand(t), exportCommand(t))
}

var errNoEndpoint = misuse.Errorf("--endpoint has no value; omit it for all endpoints")

func resetCommand(t *cli.Tool) *cobra.Command {
	var endpoint, reason string
	c := &cobra.Command{
		Use: "reset <account>", Short: "Gives all calls of today back", Args: misuse.Arguments(1),
		Long: "Gives all calls of today back in every limit but paces, those of keys included. " +
			"The count of calls stays: usage export shows them as credited.",
		ValidArgsFunction: t.Complete(cli.Accounts),
	}
	c.Flags().StringVar(&endpoint, "endpoint", "", "The endpoint whose calls to give back (default: all)")
	c.Flags().StringVar(&reason, "reason", "", "Why, for the audit log")
	t.CompleteFlag(c, "endpoint", cli.Endpoints)
	c.RunE = cli.Perform(t, func(ctx context.Context, gate *client.Client, args []string) (string, error) {
		what := "all endpoints"
		if c.Flags().Changed("endpoint") {
			// A script with an empty variable does not mean all endpoints.
			if endpoint == "" {
				return "", errNoEndpoint
			}
			what = cli.Plain(endpoint)
		}
		account, err := cli.AccountOf(ctx, gate, args[0])
		if err != nil {
			return "", err
		}
		now, err := gate.Usage(ctx, account, 0)
		if err != nil {
			return "", err
		}
		var counted int64
		for _, e := range now.Endpoints {
			if endpoint == "" || endpoint == e.Endpoint {
				counted += e.Used
			}
		}
		if err := gate.ResetUsage(ctx, account, endpoint, reason); err != nil || counted > 0 {
			return fmt.Sprintf("Gave %d of today's calls of %s back to %s.", counted, what, account), err
		}
		return "Nothing changed: no calls of " + what + " count today.", nil
	})
	return c
}

func creditCommand(t *cli.Tool) *cobra.Command {
	var credit api.CreditRequest
	c := &cobra.Command{
		Use: "credit <account> <endpoint> <calls>", Short: "Gives calls of a day back", Args: misuse.Arguments(3),
		Long: "Gives calls of a day back in every limit of that day but paces, those of keys included, but not more than were made " +
			"and not given back before. The count of calls stays: usage export shows them as credited. " +
			"With the same --id, a command that is repeated gives nothing back again. " +
			"Calls of a closed account are given back as well, by its id.",
		Example:           "caddy tollgate usage credit acc_1 convert 500 --day 2026-11-20 --reason 'outage of the rates'",
		ValidArgsFunction: t.Complete(cli.Accounts, cli.Endpoints),
	}
	c.Flags().StringVar(&credit.Day, "day", "", "The day of the calls, for example 2026-11-20 (default: today)")
	c.Flags().StringVar(&credit.Reason, "reason", "", "Why, for the audit log")
	c.Flags().StringVar(&credit.ID, "id", "", "Names the credit, so that it is made once (default: a new id)")
	c.RunE = cli.Query(t, func(ctx context.Context, gate *client.Client, args []string) (made api.Credit, err error) {
		if credit.Calls, err = cli.ParseCalls("number of calls", args[2], ""); err != nil {
			return made, err
		}
		account, known, err := cli.Resolve(ctx, gate, args[0], false)
		if err != nil {
			return made, err
		}
		credit.Endpoint = args[1]
		if credit.ID == "" {
			credit.ID = rand.Text()
		}
		made, err = gate.Credit(ctx, account, credit)
		switch {
		case errors.Is(err, api.ErrNotFound) && !known: // nor was it closed
			err = cli.ErrUnknownAccount
		case errors.Is(err, client.ErrUnreachable):
			err = fmt.Errorf("%w. If it is not known whether the calls were given back, repeat the command with --id %s", err, credit.ID)
		case err == nil && made.Credited < made.Calls:
			_, _ = fmt.Fprintf(c.ErrOrStderr(), "Gave back %d of %d calls asked: no more calls of %s on %s were left to give back.\n",
				made.Credited, made.Calls, cli.Plain(made.Endpoint), made.Day)
		}
		return made, err
	}, func(table io.Writer, made api.Credit) {
		cli.Row(table, "ACCOUNT", "ENDPOINT", "DAY", "ASKED", "CALLED", "CREDITED", "ID")
		cli.Row(table, made.Account, made.Endpoint, made.Day, strconv.FormatInt(made.Calls, 10), strconv.FormatInt(made.Called, 10), strconv.FormatInt(made.Credited, 10), made.ID)
	})
	return c
}
