// Package cli is the operator's command line for a running gate: plans,
// accounts, limits, keys, usage, the audit log and health.
//
// It is a tree of cobra commands that use package client. Caddy adds it below
// "caddy tollgate". The commands print tables, or with --json the JSON of
// the API. Cobra prints their errors to standard error; main exits with
// status 1. An invalid command line is an error of cobra before the command
// runs, or an error with the method Misuse.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// timeout is the maximum duration of a command.
const timeout = 30 * time.Second

// Connect returns a client of the gate at an address of the command line,
// or at the default address for "".
type Connect func(address string) (*client.Client, error)

// Add adds the commands and their common flags to parent.
func Add(parent *cobra.Command, connect Connect) {
	t := &tool{connect: connect}
	parent.Args, parent.RunE = cobra.ArbitraryArgs, misuse.Command
	// Few values are files; those say so. The commands below inherit it.
	parent.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	parent.PersistentFlags().StringVar(&t.address, "address", "", "The address of the running Caddy's admin endpoint")
	parent.PersistentFlags().BoolVar(&t.json, "json", false, "Print the API's JSON instead of tables")
	account := group("account", "Shows and changes accounts")
	account.AddCommand(withReason(t.setAccount()), withReason(t.importAccounts()), t.listAccounts(), t.showAccount(), withReason(t.linkAccount()), withReason(t.deleteAccount()))
	limit := group("limit", "Overrides limits of an account's plan")
	limit.AddCommand(t.setLimit(), t.listLimits(), withReason(t.clearLimit()))
	key := group("key", "Creates, imports, changes, lists, finds and revokes keys of accounts")
	key.AddCommand(withReason(t.createKey()), withReason(t.importKeys()), withReason(t.changeKey()), t.listKeys(), t.findKey(), withReason(t.revokeKey()), withReason(t.rotateKey()))
	use := group("usage", "Shows, credits and exports what accounts called")
	use.AddCommand(t.showUsage(), t.resetUsage(), t.creditUsage(), t.refused(), t.topUsage(), t.summary(), t.exportUsage())
	parent.AddCommand(t.plans(), account, limit, key, use, t.explain(), t.audit(), t.health(), t.jwks(), t.version())
	misuse.CheckFlags(parent)
}

// version prints the version of this program, and asks no gate.
func (t *tool) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Prints the version of Tollgate in this program", Args: misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if t.json {
				return printJSON(c.OutOrStdout(), map[string]string{"version": api.Version()})
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), api.Version())
			return err
		},
	}
}

// withReason adds the flag --reason to a command that changes something, and
// sends the reason with each of its changes.
func withReason(c *cobra.Command) *cobra.Command {
	run, reason := c.RunE, c.Flags().String("reason", "", "Why, for the audit log, at most 200 characters")
	c.RunE = func(c *cobra.Command, args []string) error {
		c.SetContext(client.WithReason(c.Context(), *reason))
		return run(c, args)
	}
	return c
}

// group is a command that only has subcommands.
func group(name, short string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: misuse.Command}
}

// tool has the common flags.
type tool struct {
	connect Connect
	address string
	json    bool
}

type runE = func(*cobra.Command, []string) error

// query returns the RunE of a command with a result: do gets the result, and
// show prints it as a table.
func query[T any](t *tool, do func(ctx context.Context, gate *client.Client, args []string) (T, error), show func(table io.Writer, result T)) runE {
	return func(c *cobra.Command, args []string) error {
		result, err := call(t, c, args, do)
		if err != nil {
			return err
		}
		if t.json {
			return printJSON(c.OutOrStdout(), result)
		}
		table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		show(table, result)
		return table.Flush()
	}
}

// call connects to the gate and calls do.
func call[T any](t *tool, c *cobra.Command, args []string, do func(ctx context.Context, gate *client.Client, args []string) (T, error)) (result T, err error) {
	gate, err := t.connect(t.address)
	if err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(client.WithOperator(c.Context()), timeout)
	defer cancel()
	result, err = do(ctx, gate, args)
	return result, advise(ctx, gate, err)
}

func printJSON(w io.Writer, result any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(result)
}

// perform returns the RunE of a command without a result: do returns the
// message to print. With --json it prints nothing.
func perform(t *tool, do func(ctx context.Context, gate *client.Client, args []string) (string, error)) runE {
	return func(c *cobra.Command, args []string) error {
		done, err := call(t, c, args, do)
		if err == nil && !t.json {
			_, err = fmt.Fprintln(c.OutOrStdout(), done)
		}
		return err
	}
}
