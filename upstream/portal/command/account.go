package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	gatecli "github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// maxPasswordLine is how much of the line is read. It is more than a password
// may have, so that a password that is too long is refused and not cut.
const maxPasswordLine = 8 << 10

func accountCommand(gate Gate) *cobra.Command {
	group := &cobra.Command{
		Use:                   "account COMMAND",
		DisableFlagsInUseLine: true,
		Short:                 "Administer accounts",
		Long: `Administer accounts. The gate must be running: it stores plans and whether
an account is disabled. If the gate is unreachable, only set-password and
reset-link change anything.

The commands work while the currency API runs.`,
		Args: cobra.ArbitraryArgs,
		RunE: misuse.Command,
	}
	group.AddCommand(accountAdd(gate), accountSet(gate), accountList(gate), accountShow(gate), accountSetPassword(gate), accountDelete(gate))
	group.AddCommand(accountSetPlan(gate), accountSetDisabled(gate, "disable", "--disabled", true), accountSetDisabled(gate, "enable", "--disabled=false", false))
	group.AddCommand(accountResetLink(gate), accountImport(gate))
	return group
}

// withAccounts opens the database, runs work and closes the database. If work
// succeeds, the gate is reachable: it then ends login tokens that it did not
// end when a password was changed. From then on, the context of the command
// names its operator for the audit log of the gate.
func withAccounts(c *cobra.Command, gate Gate, work func(*account.Service) error) (err error) {
	c.SetContext(client.WithOperator(c.Context()))
	place, err := placeOf(c)
	if err != nil {
		return err
	}
	control, err := gate.Connect(c)
	if err != nil {
		return err
	}
	store, err := place.OpenDatabase(c.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	logger := option.Logger(c)
	accounts := portal.Accounts(store, control, logger)
	err = work(accounts)
	if errors.Is(err, account.ErrLoginsLive) {
		fmt.Fprintf(c.ErrOrStderr(), "upstream: %v\n", err) // the password is changed
		return nil
	}
	if err != nil {
		if plan := c.Flag("plan"); plan != nil {
			ctx, cancel := account.OfCall(c.Context())
			defer cancel()
			return gatecli.UnknownPlan(ctx, control, plan.Value.String(), err)
		}
		return err
	}
	if err := accounts.EndLogins(c.Context()); err != nil {
		logger.Warn("login tokens of an old password still work", "error", err)
	}
	return nil
}

func accountAdd(gate Gate) *cobra.Command {
	var email, plan string
	var generate bool
	c := &cobra.Command{
		Use: "add <email> --plan <plan>", SuggestFor: []string{"create", "new"},
		Short: "Create an account and print its id",
		Long: `Create an account and print its id on a line of its own.

The password is the first line of standard input, at least 15 characters
and at most 1024 bytes long. It must not be easy to guess. With --generate the program creates one and prints it on a
second line.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args)+min(len(email), 1) != 1 {
				return misuse.Errorf("%q takes one e-mail address, as an argument or with --email", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			address, err := account.ParseEmail(append(args, email)[0])
			if err != nil {
				return misuse.Errorf("invalid <email>: %w", err)
			}
			password, err := choosePassword(c, generate)
			if err != nil {
				return err
			}
			return withAccounts(c, gate, func(accounts *account.Service) error {
				added, err := accounts.Add(c.Context(), address, password, plan)
				if errors.Is(err, account.ErrEmailTaken) {
					err = fmt.Errorf("%w; account set changes it", err)
				}
				if err != nil {
					return fmt.Errorf("adding account: %w", err)
				}
				lines := added.ID + "\n"
				if generate {
					lines += password + "\n"
				}
				_, err = io.WriteString(c.OutOrStdout(), lines)
				return err
			})
		},
	}
	gate.declare(c)
	c.Flags().StringVar(&email, "email", "", "e-mail `address` of the account, instead of <email>")
	c.Flags().StringVar(&plan, "plan", "", "`name` of a plan in the gate's configuration")
	c.Flags().BoolVar(&generate, "generate", false, "create a password and print it")
	require(c, "plan")
	return c
}

func accountList(gate Gate) *cobra.Command {
	var output printer
	c := &cobra.Command{
		Use:   "list",
		Short: "List accounts by their e-mail addresses",
		Args:  misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return withAccounts(c, gate, func(accounts *account.Service) error {
				all, err := accounts.List(c.Context())
				if err != nil {
					return fmt.Errorf("listing accounts: %w", err)
				}
				return output(map[string][]account.Standing{"accounts": all}, all...)
			})
		},
	}
	gate.declare(c)
	output = newPrinter(c)
	return c
}

func printJSON(w io.Writer, result any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(result)
}

// printer prints a result as JSON, or its accounts as a table.
type printer func(result any, accounts ...account.Standing) error

// newPrinter declares the flag --json.
func newPrinter(c *cobra.Command) printer {
	asJSON := c.Flags().Bool("json", false, "print JSON instead of a table")
	return func(result any, accounts ...account.Standing) error {
		if *asJSON {
			return printJSON(c.OutOrStdout(), result)
		}
		return printTable(c.OutOrStdout(), accounts)
	}
}

// show prints an account.
func (output printer) show(c *cobra.Command, accounts *account.Service, id string) error {
	a, err := accounts.Show(c.Context(), id)
	if err != nil {
		return err
	}
	return output(a, a)
}

func printTable(w io.Writer, accounts []account.Standing) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ACCOUNT\tE-MAIL\tPLAN\tSTATE\tOPERATOR\tCREATED")
	for _, a := range accounts {
		state := "active"
		if a.Disabled {
			state = "disabled"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%t\t%s\n", a.ID, a.Email, a.Plan, state, a.Operator, terminal.Time(a.CreatedAt))
	}
	return table.Flush()
}

func accountSet(gate Gate) *cobra.Command {
	var plan string
	var disabled, operator bool
	var output printer
	c := changeCommand(gate, "set", "Change the plan of an account, disable it, or make it an operator's", func(c *cobra.Command, accounts *account.Service, id string) error {
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
		if c.Flag("operator").Changed {
			if err := accounts.SetOperator(c.Context(), id, operator); err != nil {
				return err
			}
		}
		return output.show(c, accounts, id)
	})
	c.Long = `Change only what the flags set, and show the account. The change applies from
the next call. The tokens and the login of a disabled account stop working at
once; --disabled=false enables it again. An operator administers all accounts on
the web pages, from the next page on until --operator=false.`
	c.Example = "  upstream account set ada@example.com --plan starter"
	c.Flags().StringVar(&plan, "plan", "", "`name` of a plan in the gate's configuration")
	c.Flags().BoolVar(&disabled, "disabled", false, "refuse the account's tokens and its login")
	output = newPrinter(c)
	c.Flags().BoolVar(&operator, "operator", false, "let the person administer all accounts on the web pages")
	c.MarkFlagsOneRequired("plan", "disabled", "operator")
	return c
}

func accountShow(gate Gate) *cobra.Command {
	var output printer
	c := changeCommand(gate, "show", "Show one account", func(c *cobra.Command, accounts *account.Service, id string) error {
		return output.show(c, accounts, id)
	})
	output = newPrinter(c)
	return c
}

func accountSetPlan(gate Gate) *cobra.Command {
	var plan string
	c := changeCommand(gate, "set-plan", "The same as account set --plan", func(c *cobra.Command, accounts *account.Service, id string) error {
		return accounts.Set(c.Context(), id, api.AccountChange{Plan: &plan})
	})
	c.Use, c.Hidden = "set-plan <account> --plan <plan>", true
	c.Flags().StringVar(&plan, "plan", "", "`name` of a plan in the gate's configuration")
	require(c, "plan")
	return c
}

func accountSetDisabled(gate Gate, name, flag string, disabled bool) *cobra.Command {
	c := changeCommand(gate, name, "The same as account set "+flag, func(c *cobra.Command, accounts *account.Service, id string) error {
		return accounts.Set(c.Context(), id, api.AccountChange{Disabled: &disabled})
	})
	c.Hidden = true
	return c
}

func accountSetPassword(gate Gate) *cobra.Command {
	var generate bool
	c := changeCommand(gate, "set-password", "Change the password of an account", func(c *cobra.Command, accounts *account.Service, id string) error {
		password, err := choosePassword(c, generate)
		if err != nil {
			return err
		}
		err = accounts.SetPassword(c.Context(), id, password)
		if generate && (err == nil || errors.Is(err, account.ErrLoginsLive)) {
			_, printing := fmt.Fprintln(c.OutOrStdout(), password)
			err = errors.Join(err, printing)
		}
		return err
	})
	c.Long = `Change the password of an account and end its login tokens. API keys stay valid.

The password is the first line of standard input, at least 15 characters
and at most 1024 bytes long. It must not be easy to guess. With --generate the program creates one and prints it.

If the gate is unreachable, the password is changed all the same, and a
message on standard error says so. Older login tokens then work until
the currency API or another of these commands reaches the gate.`
	c.Flags().BoolVar(&generate, "generate", false, "create a password and print it")
	return c
}

func accountDelete(gate Gate) *cobra.Command {
	var ask func(string, ...any) error
	c := changeCommand(gate, "delete", "Delete an account with its tokens", func(c *cobra.Command, accounts *account.Service, id string) error {
		a, err := find(c.Context(), accounts, id)
		if err != nil {
			return err
		}
		if err := ask("Delete account %s (%s) with its keys?", a.Email, id); err != nil {
			return err
		}
		return accounts.Delete(c.Context(), id)
	})
	c.SuggestFor = []string{"remove", "rm"}
	c.Long += " Its counts stay in bills. On a terminal it asks first, unless --yes is set."
	ask = terminal.Ask(c)
	return c
}

// changeCommand returns a command that changes one account, given by its
// e-mail address or its id.
func changeCommand(gate Gate, name, short string, change func(*cobra.Command, *account.Service, string) error) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   name + " <account>",
		Short: short,
		Long:  short + ".",
		Args:  misuse.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			c.SetContext(client.WithReason(c.Context(), reason))
			return withAccounts(c, gate, func(accounts *account.Service) error {
				a, err := find(c.Context(), accounts, args[0])
				if err == nil {
					err = change(c, accounts, a.ID)
				}
				if errors.Is(err, account.ErrNotFound) {
					err = fmt.Errorf("%w; account list has all", err)
				}
				if err != nil {
					return fmt.Errorf("account %s: %w", name, err)
				}
				return nil
			})
		},
	}
	gate.declare(c)
	if name != "show" {
		c.Flags().StringVar(&reason, "reason", "", "`text` for the audit log of the gate: why you do this")
	}
	return c
}

var errTwoAccounts = errors.New("this is the id of one account and the e-mail address of another: use the other name of the one that you mean")

// find returns an account by its id or its e-mail address. An id can be an e-mail
// address.
func find(ctx context.Context, accounts *account.Service, name string) (account.Identity, error) {
	byID, err := accounts.Identify(ctx, name)
	email, invalid := account.ParseEmail(name)
	if invalid != nil || err != nil && !errors.Is(err, account.ErrNotFound) {
		return byID, err
	}
	byEmail, unknown := accounts.Find(ctx, email)
	switch {
	case errors.Is(unknown, account.ErrNotFound):
		return byID, err
	case unknown == nil && err == nil && byID.ID != byEmail.ID:
		return account.Identity{}, errTwoAccounts
	}
	return byEmail, unknown
}

// choosePassword returns the first line of standard input, asked for
// without echo on a terminal, or a random password.
func choosePassword(c *cobra.Command, generate bool) (string, error) {
	if generate {
		return account.NewPassword(), nil
	}
	if file, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprint(c.ErrOrStderr(), "Password: ")
		line, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(c.ErrOrStderr())
		if err != nil {
			return "", fmt.Errorf("reading password: %w", err)
		}
		return string(line), nil
	}
	line, err := bufio.NewReader(io.LimitReader(c.InOrStdin(), maxPasswordLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading password: %w", err)
	}
	if line == "" {
		return "", errors.New("reading password: standard input is empty; its first line is the password")
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
}

// require marks required flags.
func require(c *cobra.Command, flags ...string) {
	for _, flag := range flags {
		if err := c.MarkFlagRequired(flag); err != nil {
			panic(err) // impossible: the flag is declared
		}
	}
}
