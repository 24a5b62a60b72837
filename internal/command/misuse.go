package command

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// exitMisuse is the exit status for an invalid command line.
const exitMisuse = 2

// ExitOnMisuse makes a command and those below it exit with status 2 if the
// command line is invalid: an unknown command or flag, a wrong number of
// arguments, an invalid value or a missing flag. A RunE says so by an error
// of package misuse. Caddy exits with 1 after every other error.
func ExitOnMisuse(c *cobra.Command) {
	// Commands inherit it.
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return misused(c, misuse.Flag(c, err)) })
	exitOnMisuse(c)
}

func exitOnMisuse(c *cobra.Command) {
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error { return misused(c, args(c, given)) }
	}
	c.PreRunE = func(c *cobra.Command, _ []string) error { return misused(c, misuse.Flags(c)) }
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			err := run(c, args)
			if misuse.Is(err) {
				return misused(c, err)
			}
			return err
		}
	}
	for _, sub := range c.Commands() {
		exitOnMisuse(sub)
	}
}

// misused prints an error as cobra does, and returns the one that makes Caddy
// exit with exitMisuse. Caddy would print it as a log entry.
func misused(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	c.PrintErrln(c.ErrPrefix(), err.Error())
	c.SilenceErrors = true
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return exitMisuse, nil })(c, nil)
}
