// Package command has the commands of the portal: account and backup. The
// program that has them says how they reach the gate.
package command

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
)

// Gate is how commands reach the control API of the gate.
type Gate struct {
	// Flags declares the flags of a command that calls the gate.
	Flags func(c *cobra.Command)
	// Connect returns a client, by the flags of the command.
	Connect func(c *cobra.Command) (*client.Client, error)
}

// Commands returns the commands.
func Commands(gate Gate) []*cobra.Command {
	return []*cobra.Command{accountCommand(gate), backupCommand()}
}

// declare declares the flags of a command that needs the accounts and the gate.
func (g Gate) declare(c *cobra.Command) {
	declareData(c)
	g.Flags(c)
}

// declareData declares the flag of the data directory.
func declareData(c *cobra.Command) { option.Data(new(string)).Declare(c) }

// placeOf returns where the accounts of a command are.
func placeOf(c *cobra.Command) (portal.Place, error) {
	directory, err := option.DirectoryOf(c)
	if err != nil {
		return portal.Place{}, err
	}
	place := portal.Place{Directory: directory, Database: os.Getenv(option.Setting{Name: "database"}.Variable())}
	return place, place.Check()
}

func backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup <file>",
		Short: "Copy the database of accounts to a new file",
		Long: `Copy the database of accounts, with sessions and reset links, to a new file of
mode 0600, while the server runs. The file has its name only when it is complete
and on the disk. It has e-mail addresses and password hashes: keep it private.

To restore it, stop the server, move upstream/accounts.db* out of the data
directory, put the file there as upstream/accounts.db, and start the server.

For accounts in PostgreSQL it prints the command of PostgreSQL, and fails.`,
		Args: misuse.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error { return backup(c, args[0]) },
	}
	declareData(c)
	return c
}

func backup(c *cobra.Command, path string) error {
	place, err := placeOf(c)
	if err != nil {
		return err
	}
	if place.Database != "" {
		command, err := database.DumpCommand(place.Database, path)
		if err != nil {
			return err
		}
		return fmt.Errorf("the accounts are in PostgreSQL; use its command, with the password in PGPASSWORD or a password file:\n%s", command)
	}
	// The first signal removes the temporary file.
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	accounts := 0
	err = terminal.NewFile(path, func(draft *os.File) (err error) {
		accounts, err = database.CopyFile(ctx, place.Directory, draft.Name())
		return err
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.OutOrStdout(), "Copied %s to %s.\n", english.Plural(accounts, "account", ""), path); err != nil {
		return err
	}
	if err := database.NoteCopy(place.Directory); err != nil {
		return fmt.Errorf("the copy is complete, but its time was not noted for the metrics: %w", err)
	}
	return nil
}
