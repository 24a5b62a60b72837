package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// pageSize is the number of accounts in one request.
const pageSize = 1000

func (t *tool) setAccount() *cobra.Command {
	var plan string
	var disabled bool
	c := &cobra.Command{
		Use: "set <account>", Short: "Creates or changes an account", Args: cobra.ExactArgs(1),
		Long: "Creates an account, or changes only what the flags set. A new account is on plan free and enabled. " +
			"The change applies to the account's next call; today's counts do not change. --disabled=false enables it again.",
		Example: "caddy tollgate account set acc_1 --plan starter",
	}
	c.Flags().StringVar(&plan, "plan", "", "The new plan")
	c.Flags().BoolVar(&disabled, "disabled", false, "Refuse the account's tokens")
	c.MarkFlagsOneRequired("plan", "disabled")
	c.RunE = query(t, func(ctx context.Context, gate *client.Client, args []string) (api.Account, error) {
		var change api.AccountChange
		if c.Flags().Changed("plan") {
			change.Plan = &plan
		}
		if c.Flags().Changed("disabled") {
			change.Disabled = &disabled
		}
		return gate.PutAccount(ctx, args[0], change)
	}, showAccount)
	return c
}

func (t *tool) listAccounts() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Lists all accounts", Args: cobra.NoArgs,
		RunE: query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.AccountPage, error) {
			all := api.AccountPage{Accounts: []api.Account{}}
			for after := ""; ; {
				page, err := gate.Accounts(ctx, after, pageSize)
				if err != nil {
					return all, err
				}
				all.Accounts = append(all.Accounts, page.Accounts...)
				if page.Next == nil {
					return all, nil
				}
				after = *page.Next
			}
		}, func(table io.Writer, page api.AccountPage) { showAccounts(table, page.Accounts) }),
	}
}

func (t *tool) showAccount() *cobra.Command {
	return &cobra.Command{
		Use: "show <account>", Short: "Shows one account", Args: cobra.ExactArgs(1),
		RunE: query(t, func(ctx context.Context, gate *client.Client, args []string) (api.Account, error) {
			return gate.Account(ctx, args[0])
		}, showAccount),
	}
}

func (t *tool) deleteAccount() *cobra.Command {
	return &cobra.Command{
		Use: "delete <account>", Short: "Deletes an account with all its tokens and counts", Args: cobra.ExactArgs(1),
		RunE: perform(t, func(ctx context.Context, gate *client.Client, args []string) (string, error) {
			return "Deleted " + plain(args[0]) + ".", gate.DeleteAccount(ctx, args[0])
		}),
	}
}

func showAccount(table io.Writer, account api.Account) {
	showAccounts(table, []api.Account{account})
}

func showAccounts(table io.Writer, accounts []api.Account) {
	row(table, "ACCOUNT", "PLAN", "STATE", "CREATED")
	for _, a := range accounts {
		state := "active"
		if a.Disabled {
			state = "disabled"
		}
		row(table, a.Account, a.Plan, state, moment(a.CreatedAt))
	}
}
