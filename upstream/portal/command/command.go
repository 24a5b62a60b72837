// Package command has the commands of the portal: account and backup. The
// program that has them says how they reach the gate.
package command

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
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
