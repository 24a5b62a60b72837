package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

func (t *Tool) setAccount() *cobra.Command {
	var plan, label, until, then string
	var billingDay int
	var disabled, create, known bool
	c := &cobra.Command{
		Use: "set <account>", SuggestFor: []string{"create", "add", "new", "change", "update", "set-plan", "enable", "disable"}, Short: "Creates or changes an account", Args: misuse.Arguments(1),
		ValidArgsFunction: t.Complete(Accounts),
		Long: "Creates an account, or changes only what the flags set. A new account is on plan free and enabled. " +
			"The command refuses to create an account with an id such as upstream makes, acc_ and 20 letters or digits, because that is probably a typing error. " +
			"With --create, <account> is an id and no label, and the command creates any account. " +
			"The change applies to the account's next call; counts do not change. --disabled=false enables it again. " +
			"--until is the last day of the plan, in the gate's time zone, or the time at which it ends; a new plan without it has no end. " +
			"After --billing-day, the running month goes on until the first such day that is at least one day after today.",
		Example: "caddy tollgate account set acc_1 --plan starter\n  caddy tollgate account set acc_1 --plan pro --until 2026-12-31 --then free --billing-day 15",
	}
	c.Flags().StringVar(&plan, "plan", "", "The new plan")
	c.Flags().BoolVar(&disabled, "disabled", false, "Refuse the account's tokens")
	c.Flags().StringVar(&until, "until", "", "The last day of the plan, for example 2026-12-31, or a time in RFC 3339")
	c.Flags().StringVar(&then, "then", "", "The plan that follows (default: free)")
	c.Flags().IntVar(&billingDay, "billing-day", 1, "The day, 1 to 31, on which the account's months begin")
	c.Flags().StringVar(&label, "label", "", "A text for people, such as an e-mail address; empty removes it")
	c.Flags().BoolVar(&create, "create", false, "Take <account> for an id, and create the account if there is none")
	t.CompleteFlag(c, "plan", plans)
	t.CompleteFlag(c, "then", plans)
	c.MarkFlagsOneRequired("plan", "disabled", "label", "until", "billing-day")
	c.RunE = Query(t, func(ctx context.Context, gate *client.Client, args []string) (account api.Account, err error) {
		var id string
		if id, known, err = Resolve(ctx, gate, args[0], create); err != nil {
			return account, err
		}
		if !known && !create && api.LooksMade(id) {
			return account, errTypingError
		}
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
		if c.Flags().Changed("until") {
			end, err := ParseUntil(ctx, gate, until)
			if err != nil {
				return account, err
			}
			change.PlanUntil = api.To(&end)
		}
		if c.Flags().Changed("then") {
			change.Then = &then
		}
		if c.Flags().Changed("billing-day") {
			change.BillingDay = &billingDay
		}
		account, err = gate.PutAccount(ctx, id, change)
		return account, UnknownPlan(ctx, gate, plan, err)
	}, func(table io.Writer, account api.Account) {
		showAccount(table, account)
		done := "Created "
		if known {
			done = "Changed "
		}
		Row(table, done+account.Account+".")
	})
	return c
}

func (t *Tool) listAccounts() *cobra.Command {
	filter := api.AccountQuery{Limit: client.PageSize}
	var disabled bool
	c := &cobra.Command{
		Use: "list", Short: "Lists all accounts, or those that the flags select", Args: misuse.Arguments(0),
		Example: "caddy tollgate account list --plan starter --search example.com",
	}
	c.Flags().StringVar(&filter.Plan, "plan", "", "List the accounts of this plan only")
	c.Flags().StringVar(&filter.Search, "search", "", "List the accounts with this text in their id or label, in upper or lower case, or with a token that ends with these 4 characters")
	c.Flags().BoolVar(&disabled, "disabled", false, "List disabled accounts only; --disabled=false lists the others")
	t.CompleteFlag(c, "plan", plans)
	c.RunE = Query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.AccountPage, error) {
		if err := NotEmpty(c, "plan", "search"); err != nil {
			return api.AccountPage{}, err
		}
		if c.Flags().Changed("disabled") {
			filter.Disabled = strconv.FormatBool(disabled)
		}
		accounts, err := client.All(func(after string) ([]api.Account, *string, error) {
			filter.After = after
			page, err := gate.Accounts(ctx, filter)
			return page.Accounts, page.Next, err
		})
		if err == nil && filter.Plan != "" && len(accounts) == 0 {
			// An account can be on a plan that the configuration no longer has.
			err = checkPlan(ctx, gate, filter.Plan)
		}
		return api.AccountPage{Accounts: accounts}, err
	}, func(table io.Writer, page api.AccountPage) {
		showAccounts(table, page.Accounts)
		End(table, len(page.Accounts))
	})
	return c
}

func (t *Tool) showAccount() *cobra.Command {
	var raw bool
	c := &cobra.Command{
		Use: "show <account>", Short: "Shows one account", Args: misuse.Arguments(1),
		ValidArgsFunction: t.Complete(Accounts),
	}
	c.Flags().BoolVar(&raw, "raw", false, "Print what the store has of the account, as JSON: with its keys and login tokens, and the hashes of tokens")
	show := Query(t, OfAccount(func(ctx context.Context, gate *client.Client, args []string) (api.Account, error) {
		return gate.Account(ctx, args[0])
	}), showAccount)
	document := OfAccount(func(ctx context.Context, gate *client.Client, args []string) (json.RawMessage, error) {
		return gate.Document(ctx, args[0])
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if !raw {
			return show(c, args)
		}
		stored, err := Call(t, c, args, document)
		if err != nil {
			return err
		}
		return PrintJSON(c.OutOrStdout(), stored)
	}
	return c
}

func (t *Tool) deleteAccount() *cobra.Command {
	c := &cobra.Command{
		Use: "delete <account>", SuggestFor: []string{"remove", "rm"}, Short: "Deletes an account with all its tokens", Args: misuse.Arguments(1),
		ValidArgsFunction: t.Complete(Accounts),
		Long:              "Deletes an account with all its tokens. Its counts stay in bills. On a terminal it asks first, unless --yes is set.",
	}
	ask := terminal.Ask(c)
	run := Perform(t, func(ctx context.Context, gate *client.Client, args []string) (string, error) {
		return "Deleted " + Plain(args[0]) + ".", gate.DeleteAccount(ctx, args[0])
	})
	find := OfAccount(func(ctx context.Context, gate *client.Client, args []string) (api.Account, error) {
		return gate.Account(ctx, args[0])
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		account, err := Call(t, c, args, find)
		if err != nil {
			return err
		}
		name := account.Account
		if account.Label != "" {
			name += " (" + Plain(account.Label) + ")"
		}
		if err := ask("Delete account %s with its keys?", name); err != nil {
			return err
		}
		return run(c, []string{account.Account})
	}
	return c
}

func showAccount(table io.Writer, account api.Account) {
	showAccounts(table, []api.Account{account})
}

func showAccounts(table io.Writer, accounts []api.Account) {
	Row(table, "ACCOUNT", "PLAN", "STATE", "CREATED", "LABEL")
	for _, a := range accounts {
		state := "active"
		if a.Disabled {
			state = "disabled"
		}
		if a.Declared {
			state += ", declared"
		}
		plan := a.Plan
		if a.PlanUntil != nil {
			plan += " until " + terminal.Time(*a.PlanUntil) + ", then " + a.Then
		}
		if a.PeriodEndsAt != nil {
			state += fmt.Sprintf(", months from day %d, this one ends %s", a.BillingDay, terminal.Time(*a.PeriodEndsAt))
		}
		Row(table, a.Account, plan, state, Moment(a.CreatedAt), cmp.Or(a.Label, None))
	}
}
