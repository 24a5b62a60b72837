package cli

import (
	"cmp"
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/misuse"
	"github.com/caddy-tollgate/tollgate/caddymodule/terminal"
)

func (t *tool) setAccount() *cobra.Command {
	var plan, label string
	var disabled bool
	c := &cobra.Command{
		Use: "set <account>", Short: "Creates or changes an account", Args: misuse.Arguments(1),
		ValidArgsFunction: t.complete(accounts),
		Long: "Creates an account, or changes only what the flags set. A new account is on plan free and enabled. " +
			"The change applies to the account's next call; today's counts do not change. --disabled=false enables it again.",
		Example: "caddy tollgate account set acc_1 --plan starter",
	}
	c.Flags().StringVar(&plan, "plan", "", "The new plan")
	c.Flags().BoolVar(&disabled, "disabled", false, "Refuse the account's tokens")
	c.Flags().StringVar(&label, "label", "", "A text for people, such as an e-mail address; empty removes it")
	t.completeFlag(c, "plan", plans)
	c.MarkFlagsOneRequired("plan", "disabled", "label")
	c.RunE = query(t, func(ctx context.Context, gate *client.Client, args []string) (api.Account, error) {
		var change api.AccountChange
		if c.Flags().Changed("plan") {
			change.Plan = &plan
		}
		if c.Flags().Changed("disabled") {
			change.Disabled = &disabled
		}
		if c.Flags().Changed("label") {
			change.Label = &label
		}
		account, err := gate.PutAccount(ctx, args[0], change)
		return account, UnknownPlan(ctx, gate, plan, err)
	}, showAccount)
	return c
}

func (t *tool) listAccounts() *cobra.Command {
	var filter client.AccountFilter
	var disabled bool
	c := &cobra.Command{
		Use: "list", Short: "Lists all accounts, or those that the flags select", Args: misuse.Arguments(0),
		Example: "caddy tollgate account list --plan starter --search example.com",
	}
	c.Flags().StringVar(&filter.Plan, "plan", "", "List the accounts of this plan only")
	c.Flags().StringVar(&filter.Search, "search", "", "List the accounts with this text in their id or label, in upper or lower case")
	c.Flags().BoolVar(&disabled, "disabled", false, "List disabled accounts only; --disabled=false lists the others")
	t.completeFlag(c, "plan", plans)
	c.RunE = query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.AccountPage, error) {
		if err := notEmpty(c, "plan", "search"); err != nil {
			return api.AccountPage{}, err
		}
		if c.Flags().Changed("disabled") {
			filter.Disabled = &disabled
		}
		accounts, err := collect(func(after string) ([]api.Account, *string, error) {
			page, err := gate.FindAccounts(ctx, filter, after, pageSize)
			return page.Accounts, page.Next, err
		})
		return api.AccountPage{Accounts: accounts}, err
	}, func(table io.Writer, page api.AccountPage) { showAccounts(table, page.Accounts) })
	return c
}

func (t *tool) showAccount() *cobra.Command {
	return &cobra.Command{
		Use: "show <account>", Short: "Shows one account", Args: misuse.Arguments(1),
		ValidArgsFunction: t.complete(accounts),
		RunE: query(t, func(ctx context.Context, gate *client.Client, args []string) (api.Account, error) {
			return gate.Account(ctx, args[0])
		}, showAccount),
	}
}

func (t *tool) deleteAccount() *cobra.Command {
	c := &cobra.Command{
		Use: "delete <account>", Short: "Deletes an account with all its tokens and counts", Args: misuse.Arguments(1),
		ValidArgsFunction: t.complete(accounts),
		Long:              "Deletes an account with all its tokens and counts. On a terminal it asks first, unless --yes is set.",
	}
	ask := terminal.Ask(c)
	run := perform(t, func(ctx context.Context, gate *client.Client, args []string) (string, error) {
		return "Deleted " + plain(args[0]) + ".", gate.DeleteAccount(ctx, args[0])
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := ask("Delete account %s with its keys and counts?", plain(args[0])); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

func showAccount(table io.Writer, account api.Account) {
	showAccounts(table, []api.Account{account})
}

func showAccounts(table io.Writer, accounts []api.Account) {
	row(table, "ACCOUNT", "PLAN", "STATE", "CREATED", "LABEL")
	for _, a := range accounts {
		state := "active"
		if a.Disabled {
			state = "disabled"
		}
		row(table, a.Account, a.Plan, state, moment(a.CreatedAt), cmp.Or(a.Label, none))
	}
}
