package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// importTimeout is the maximum duration of an import.
const importTimeout = 10 * time.Minute

func (t *tool) importAccounts() *cobra.Command {
	return &cobra.Command{
		Use: "import <file>|-", Short: "Creates or changes many accounts", Args: misuse.Arguments(1),
		Long: "Creates or changes the account of each line of a file, or of standard input for -. " +
			"A line is JSON with the members account, plan, label and disabled; all but account are optional. " +
			"A refused line does not stop the others. --json prints the result of each line. " +
			"Exits with status 1 if a line was refused.",
		Example:           "caddy tollgate account import accounts.jsonl",
		ValidArgsFunction: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			file, err := OpenLines(c, args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			gate, err := t.connect(t.address)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(client.WithOperator(c.Context()), importTimeout)
			defer cancel()
			return t.runImport(ctx, gate, file, c.OutOrStdout())
		},
	}
}

// OpenLines opens the file of an import, or standard input for "-".
func OpenLines(c *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.InOrStdin()), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the lines: %w", err)
	}
	return file, nil
}

// runImport prints the refused lines and how many accounts were created,
// changed and refused; with --json, the result of each line.
func (t *tool) runImport(ctx context.Context, gate *client.Client, lines io.Reader, w io.Writer) error {
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
		case t.json:
			return printJSON(w, result)
		case result.Code == "":
			return nil
		case refused == 1:
			row(table, "LINE", "ACCOUNT", "CODE", "MESSAGE")
		}
		row(table, strconv.Itoa(result.Line), result.Account, result.Code, result.Message)
		return nil
	})
	if err == nil && !t.json {
		row(table, fmt.Sprintf("Created %d, changed %d, refused %d.", created, changed, refused))
		err = table.Flush()
	}
	if err == nil && refused > 0 {
		err = fmt.Errorf("the gate refused %d of %d lines", refused, created+changed+refused)
	}
	return err
}
