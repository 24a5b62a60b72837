package cli

import (
	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/account"
)

func accountSet(gate Gate) *cobra.Command {
	var plan string
	var disabled, asJSON bool
	c := changeCommand(gate, "set", "Change the plan of an account, or disable it", func(c *cobra.Command, accounts *account.Service, id string) error {
		var change api.AccountChange
		if c.Flag("plan").Changed {
			change.Plan = &plan
		}
		if c.Flag("disabled").Changed {
			change.Disabled = &disabled
		}
		if err := accounts.Set(c.Context(), id, change); err != nil {
			return err
		}
		return printAccount(c, accounts, id, asJSON)
	})
	c.Long = `Change only what the flags set, and show the account. The change applies from
the next call. The tokens and the login of a disabled account stop working at
once; --disabled=false enables it again.`
	c.Example = "  upstream account set ada@example.com --plan starter"
	c.Flags().StringVar(&plan, "plan", "", "`name` of a plan in the gate's configuration")
	c.Flags().BoolVar(&disabled, "disabled", false, "refuse the account's tokens and its login")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of a table")
	c.MarkFlagsOneRequired("plan", "disabled")
	return c
}

func accountShow(gate Gate) *cobra.Command {
	var asJSON bool
	c := changeCommand(gate, "show", "Show one account", func(c *cobra.Command, accounts *account.Service, id string) error {
		return printAccount(c, accounts, id, asJSON)
	})
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of a table")
	return c
}

// newListed returns an account as JSON shows it.
func newListed(a account.Standing) listed {
	return listed{a.ID, a.Email, a.Plan, a.Disabled, a.CreatedAt, a.UpdatedAt}
}

func printAccount(c *cobra.Command, accounts *account.Service, id string, asJSON bool) error {
	a, err := accounts.Show(c.Context(), id)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), newListed(a))
	}
	return printTable(c.OutOrStdout(), []listed{newListed(a)})
}
