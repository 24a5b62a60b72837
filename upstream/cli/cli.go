// Package cli is the command line of the upstream: serve, account and rates.
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

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/misuse"
)

const about = `upstream serves the currency API behind a Tollgate gate.

Settings come from flags or from the environment:

  TOLLGATE_ADDRESS   --address      public address of the site
  TOLLGATE_CONTROL   --control      the gate's control listener
  TOLLGATE_UPSTREAM  --upstream     address to listen on
  TOLLGATE_DATA      --data         data directory; this program uses upstream/ in it
  TOLLGATE_TIMEZONE  --timezone     zone whose midnight resets the quotas
  TOLLGATE_SECRET    --secret-file  secret that gate and upstream share
  TOLLGATE_DATABASE                 PostgreSQL URL; SQLite when empty
  TOLLGATE_SIGNUP    --signup       on, or a plan: strangers can create an account
  TOLLGATE_NAME      --name         what the web pages call the product
  TOLLGATE_LOGO      --logo         file of the product's logo
  TOLLGATE_CONTACT   --contact      where people reach the operator
  TOLLGATE_RATES     --rates        URL of the ECB's files, embedded, or none: no currency API

A secret is never a flag: every user of the machine can read flags. Without
TOLLGATE_SECRET the program reads the file "secret" in the data directory.`

// Gate is how commands reach the control API of the gate.
type Gate struct {
	// Flags declares the flags of a command that calls the gate.
	Flags func(c *cobra.Command)
	// Connect returns a client, by the flags of the command.
	Connect func(c *cobra.Command) (*client.Client, error)
}

// Add adds the commands account and rates to a command of another program.
func Add(c *cobra.Command, gate Gate) {
	c.Args, c.RunE = cobra.NoArgs, needCommand
	c.AddCommand(accountCommand(gate), ratesCommand())
}

// Run runs bin/upstream and returns its exit status: 0 after success, 1 after
// a failure, 2 for an invalid command line.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:                   "upstream COMMAND",
		Short:                 "The currency API behind a Tollgate gate",
		Long:                  about,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misuse.Flag(err) })
	root.AddCommand(serveCommand(), versionCommand())
	root.Version = version()
	root.SetVersionTemplate("{{.Version}}\n")
	Add(root, controlListener)
	misuse.CheckFlags(root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := watch(root)
	command, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "upstream: %v\n", nameFlag(command, err))
	if *started && !misuse.Is(err) {
		return 1
	}
	fmt.Fprintf(stderr, "\nUsage: %s\n\nRun \"%s --help\" for help.\n", command.UseLine(), command.CommandPath())
	return 2
}

// watch makes every command set the result to true when it starts. An error
// before that is an invalid command line.
func watch(command *cobra.Command) *bool {
	started := new(bool)
	var wrap func(*cobra.Command)
	wrap = func(c *cobra.Command) {
		if work := c.RunE; work != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				*started = true
				return work(c, args)
			}
		}
		for _, sub := range c.Commands() {
			wrap(sub)
		}
	}
	wrap(command)
	return started
}

// needCommand refuses a command that only groups others.
func needCommand(c *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return misuse.Errorf("%s needs a command: %s", c.CommandPath(), strings.Join(names, ", "))
}
