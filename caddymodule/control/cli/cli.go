// Package cli is the operator's command line for a running gate: plans,
// accounts, keys, usage and health.
//
// It is a tree of cobra commands over the control client and knows
// nothing of Caddy, which hangs it below "caddy tollgate". It prints
// tables for people, or with --json the API's own documents. Errors are
// returned to cobra, which prints them to standard error; main exits with
// status 1.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// timeout bounds a command: an operator would rather be told.
const timeout = 30 * time.Second

// Connect returns a client of the gate at an address as the operator
// wrote it, "" for the default.
type Connect func(address string) (*client.Client, error)

// Add hangs the commands below parent, with the flags that all share.
func Add(parent *cobra.Command, connect Connect) {
	t := &tool{connect: connect}
	parent.Args, parent.RunE = cobra.ArbitraryArgs, missing
	parent.PersistentFlags().StringVar(&t.address, "address", "", "The address of the running Caddy's admin endpoint")
	parent.PersistentFlags().BoolVar(&t.json, "json", false, "Print the API's JSON instead of tables")
	account := group("account", "Shows and changes who is on which plan")
	account.AddCommand(t.setAccount(), t.listAccounts(), t.showAccount(), t.deleteAccount())
	key := group("key", "Makes, lists and ends an account's keys")
	key.AddCommand(t.createKey(), t.listKeys(), t.revokeKey(), t.rotateKey())
	use := group("usage", "Shows what an account used, and gives calls back")
	use.AddCommand(t.showUsage(), t.resetUsage())
	parent.AddCommand(t.plans(), account, key, use, t.health(), t.jwks())
}

// group is a command that is nothing without one of its own.
func group(name, short string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: missing}
}

// missing refuses a group that is called by itself or with a word that it
// does not know. Cobra would show the help and succeed, and a script would
// take that for done.
func missing(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("a command is missing behind %q; see --help", c.CommandPath())
	}
	return fmt.Errorf("unknown command %q behind %q; see --help", args[0], c.CommandPath())
}

// tool is the flags that all commands share.
type tool struct {
	connect Connect
	address string
	json    bool
}

type runE = func(*cobra.Command, []string) error

// query makes the RunE of a command that has a result, from how it is got
// and how it is shown in a table.
func query[T any](t *tool, do func(ctx context.Context, gate *client.Client, args []string) (T, error), show func(table io.Writer, result T)) runE {
	return func(c *cobra.Command, args []string) error {
		gate, err := t.connect(t.address)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), timeout)
		defer cancel()
		result, err := do(ctx, gate, args)
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

func printJSON(w io.Writer, result any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(result)
}

// perform makes the RunE of a command that has none, from what it does
// and what it says then. With --json it says nothing, as the API.
func perform(t *tool, do func(ctx context.Context, gate *client.Client, args []string) (string, error)) runE {
	return func(c *cobra.Command, args []string) error {
		gate, err := t.connect(t.address)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), timeout)
		defer cancel()
		done, err := do(ctx, gate, args)
		if err == nil && !t.json {
			_, err = fmt.Fprintln(c.OutOrStdout(), done)
		}
		return err
	}
}
