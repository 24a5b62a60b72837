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

// Timeout is the maximum duration of a command.
const Timeout = 30 * time.Second

// Connect returns a client of the gate at an address of the command line,
// or at the default address for "".
type Connect func(address string) (*client.Client, error)

// Add adds the commands and their common flags to parent. more adds those of
// capabilities: to parent, or to a group.
func Add(parent *cobra.Command, connect Connect, more ...func(t *Tool, parent *cobra.Command)) {
	t := &Tool{connect: connect}
	parent.Args, parent.RunE = cobra.ArbitraryArgs, misuse.Command
	// Few values are files; those say so. The commands below inherit it.
	parent.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	parent.PersistentFlags().StringVar(&t.address, "address", "", "The address of the running Caddy's admin endpoint")
	parent.PersistentFlags().BoolVar(&t.JSON, "json", false, "Print the API's JSON instead of tables")
	t.AccountGroup = group("account", "Shows and changes accounts")
	t.AccountGroup.AddCommand(WithReason(t.setAccount()), t.listAccounts(), t.showAccount(), WithReason(t.deleteAccount()))
	limit := group("limit", "Overrides limits of an account's plan")
	limit.AddCommand(t.setLimit(), t.listLimits(), WithReason(t.clearLimit()))
	t.KeyGroup = group("key", "Creates, imports, changes, lists, finds and revokes keys of accounts")
	t.KeyGroup.AddCommand(WithReason(t.createKey()), WithReason(t.changeKey()), t.listKeys(), WithReason(t.revokeKey()), WithReason(t.rotateKey()))
	t.UsageGroup = group("usage", "Shows, credits and exports what accounts called")
	t.UsageGroup.AddCommand(t.showUsage())
	parent.AddCommand(t.plans(), t.AccountGroup, limit, t.KeyGroup, t.UsageGroup, t.health(), t.jwks(), t.version())
	for _, add := range more {
		add(t, parent)
	}
	misuse.CheckFlags(parent)
}

// version prints the version of this program, and asks no gate.
func (t *Tool) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Prints the version of Tollgate in this program", Args: misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if t.JSON {
				return PrintJSON(c.OutOrStdout(), map[string]string{"version": api.Version()})
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), api.Version())
			return err
		},
	}
}

// WithReason adds the flag --reason to a command that changes something, and
// sends the reason with each of its changes.
func WithReason(c *cobra.Command) *cobra.Command {
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

// Tool has the common flags, and the groups of commands.
type Tool struct {
	JSON bool // whether to print JSON instead of tables

	AccountGroup, KeyGroup, UsageGroup *cobra.Command

	connect Connect
	address string
}

// Connect returns a client of the gate.
func (t *Tool) Connect() (*client.Client, error) { return t.connect(t.address) }

type runE = func(*cobra.Command, []string) error

// Query returns the RunE of a command with a result: do gets the result, and
// show prints it as a table.
func Query[T any](t *Tool, do func(ctx context.Context, gate *client.Client, args []string) (T, error), show func(table io.Writer, result T)) runE {
	return func(c *cobra.Command, args []string) error {
		result, err := Call(t, c, args, do)
		if err != nil {
			return err
		}
		if t.JSON {
			return PrintJSON(c.OutOrStdout(), result)
		}
		table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		show(table, result)
		return table.Flush()
	}
}

// Call connects to the gate and calls do.
func Call[T any](t *Tool, c *cobra.Command, args []string, do func(ctx context.Context, gate *client.Client, args []string) (T, error)) (result T, err error) {
	gate, err := t.Connect()
	if err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(client.WithOperator(c.Context()), Timeout)
	defer cancel()
	result, err = do(ctx, gate, args)
	return result, advise(ctx, gate, err)
}

// PrintJSON prints a result as the API wrote it.
func PrintJSON(w io.Writer, result any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(result)
}

// Perform returns the RunE of a command without a result: do returns the
// message to print. With --json it prints nothing.
func Perform(t *Tool, do func(ctx context.Context, gate *client.Client, args []string) (string, error)) runE {
	return func(c *cobra.Command, args []string) error {
		done, err := Call(t, c, args, do)
		if err == nil && !t.JSON {
			_, err = fmt.Fprintln(c.OutOrStdout(), done)
		}
		return err
	}
}
