// Package cli is the command line of the upstream: serve, and the commands of
// the portal and of the currency API.
//
// Run is the whole program bin/upstream. Add adds the commands that
// administer accounts and rates to another program.
//
// Results go to standard output, errors and logs to standard error.
package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
	currency "github.com/caddy-tollgate/tollgate/upstream/currency/command"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal/command"
)

const about = `upstream serves the currency API behind a Tollgate gate.

Settings come from flags or from the environment:

%s
A secret is never a flag: every user of the machine can read flags. Without
TOLLGATE_SECRET the program reads the file "secret" in the data directory.`

// listSettings lists the settings that come from the environment: those with a
// flag of the command, and two without.
func listSettings(c *cobra.Command) string {
	var list strings.Builder
	line := func(variable, flag, usage string) { fmt.Fprintf(&list, "  %-17s  %-13s  %s\n", variable, flag, usage) }
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if variable := option.Variable(f); variable != "" {
			_, usage := pflag.UnquoteUsage(f)
			line(variable, "--"+f.Name, strings.TrimSuffix(usage, " (environment: "+variable+")"))
		}
	})
	line("TOLLGATE_SECRET", "--secret-file", "secret that gate and upstream share, or the file that holds it")
	line("TOLLGATE_DATABASE", "", "PostgreSQL URL; SQLite when empty")
	return list.String()
}

// Add adds the commands account, backup and rates to a command of another program.
func Add(c *cobra.Command, gate command.Gate) {
	c.Args, c.RunE = cobra.ArbitraryArgs, misuse.Command
	c.AddCommand(command.Commands(gate)...)
	c.AddCommand(currency.Rates())
}

// Run runs bin/upstream and returns its exit status: 0 after success, 1 after
// a failure, 2 for an invalid command line.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:                   name + " COMMAND",
		Short:                 "The currency API behind a Tollgate gate",
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(misuse.Flag)
	serve := serveCommand()
	root.Long = fmt.Sprintf(about, listSettings(serve))
	root.AddCommand(serve, versionCommand(), terminal.Manpage())
	root.Version = api.Version()
	root.SetVersionTemplate("{{.Version}}\n")
	Add(root, controlListener)
	misuse.CheckFlags(root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := false // an error before that is an invalid command line
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	failed, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "upstream: %v\n", option.NameFlag(failed, err))
	if started && !misuse.Is(err) {
		return 1
	}
	fmt.Fprintf(stderr, "\nUsage: %s\n\nRun \"%s --help\" for help.\n", failed.UseLine(), failed.CommandPath())
	return 2
}

// name is the name of the program. A build of a package sets it with -ldflags -X.
var name = "upstream"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), api.Version())
			return err
		},
	}
}
