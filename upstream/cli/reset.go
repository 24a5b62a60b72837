package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/app"
)

// accountResetLink returns the command that makes a link for a person who
// forgot the password.
func accountResetLink(gate Gate) *cobra.Command {
	var site string
	c := changeCommand(gate, "reset-link", "Print a link that sets a new password once", func(c *cobra.Command, accounts *account.Service, id string) error {
		return printReset(c, site, accounts, id)
	})
	c.Long = fmt.Sprintf(`Print a link with which a person sets a new password, without the current one.

Send the link to the person over a channel that you trust. It works once, for
%d minutes. A newer link or a change of the password ends it. Using it ends all
sessions and login tokens of the account. API keys stay valid.

The gate need not be running.`, account.ResetLifetime/time.Minute)
	fromEnvironment(c, &site, "site", "TOLLGATE_ADDRESS", app.DefaultAddress, "public `address` of the site, for the link")
	return c
}

func printReset(c *cobra.Command, site string, accounts *account.Service, id string) error {
	address, err := app.PublicURL(site)
	if err != nil {
		return err
	}
	token, err := accounts.NewReset(c.Context(), id)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), address.JoinPath("reset", token))
	return err
}
