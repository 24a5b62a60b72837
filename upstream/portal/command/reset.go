package command

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// accountResetLink returns the command that makes a link for a person who
// forgot the password.
func accountResetLink(gate Gate) *cobra.Command {
	var address func() (*url.URL, error)
	c := changeCommand(gate, "reset-link", "Print a link that sets a new password once", func(c *cobra.Command, accounts *account.Service, id string) error {
		to, err := address()
		if err != nil {
			return err
		}
		token, err := accounts.NewReset(c.Context(), id)
		if err != nil {
			return err
		}
		if err := accounts.NoteReset(c.Context(), id); err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "upstream: the link works, but the audit log of the gate lacks it: %v\n", err)
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), to.JoinPath(token))
		return err
	})
	c.Long = fmt.Sprintf(`Print a link with which a person sets a new password, without the current one.

Send the link to the person over a channel that you trust. It works once, for
%d minutes. A newer link or a change of the password ends it. Using it ends all
sessions and login tokens of the account. API keys stay valid.

The gate need not be running. Its audit log then lacks the link.`, account.ResetLifetime/time.Minute)
	address = resetAddress(c)
	return c
}

// resetAddress declares the flag of a command that prints reset links, and
// returns their address without the token.
func resetAddress(c *cobra.Command) func() (*url.URL, error) {
	site := new(string)
	option.Declare(c, site, "site", "TOLLGATE_ADDRESS", portal.DefaultAddress, "public `address` of the site, for the link")
	return func() (*url.URL, error) {
		address, err := assertion.PublicURL(*site)
		if err != nil {
			return nil, &option.Error{Option: "address", Value: *site, Want: portal.WantAddress}
		}
		return address.JoinPath("reset"), nil
	}
}
