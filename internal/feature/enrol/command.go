package enrol

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// Commands adds the commands.
func Commands(t *cli.Tool, _ *cobra.Command) {
	t.AccountGroup.AddCommand(cli.WithReason(accountsCommand(t)))
	t.KeyGroup.AddCommand(cli.WithReason(keysCommand(t)))
}

// importTimeout is the maximum duration of an import.
const importTimeout = 10 * time.Minute

func accountsCommand(t *cli.Tool) *cobra.Command {
	return &cobra.Command{
		Use: "import <file>|-", Short: "Creates or changes many accounts", Args: misuse.Arguments(1),
		Long: "Creates or changes the account of each line of a file, or of standard input for -. " +
			"A line is JSON with the members account, plan, plan_until, then, billing_day, label and disabled; all but account are optional. " +
			"A refused line does not stop the others. --json prints the result of each line. " +
			"Exits with status 1 if a line was refused.",
		Example:           "caddy tollgate account import accounts.jsonl",
		ValidArgsFunction: cli.OneFile,
		RunE: func(c *cobra.Command, args []string) error {
			file, err := terminal.OpenLines(c, args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			gate, err := t.Connect()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(client.WithOperator(c.Context()), importTimeout)
			defer cancel()
			return runImport(t, ctx, gate, file, c.OutOrStdout())
		},
	}
}

// runImport prints the refused lines and how many accounts were created,
// changed and refused; with --json, the result of each line.
func runImport(t *cli.Tool, ctx context.Context, gate *client.Client, lines io.Reader, w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var created, changed, refused int
	err := gate.ImportAccounts(ctx, lines, func(result api.LineResult) error {
		switch result.Status {
		case http.StatusCreated:
			created++
		case http.StatusOK:
			changed++
		default:
			refused++
		}
		switch {
		case t.JSON:
			return cli.PrintJSON(w, result)
		case result.Code == "":
			return nil
		case refused == 1:
			cli.Row(table, "LINE", "ACCOUNT", "CODE", "MESSAGE")
		}
		cli.Row(table, strconv.Itoa(result.Line), result.Account, result.Code, result.Message)
		return nil
	})
	if err == nil && !t.JSON {
		cli.Row(table, fmt.Sprintf("Created %d, changed %d, refused %d.", created, changed, refused))
		err = table.Flush()
	}
	if err == nil && refused > 0 {
		err = fmt.Errorf("the gate refused %d of %d lines", refused, created+changed+refused)
	}
	return err
}
