package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

func accountImport(gate Gate) *cobra.Command {
	var i importer
	var output string
	c := &cobra.Command{
		Use:   "import <file>|-",
		Short: "Create accounts without a password, and print a link for each",
		Long: fmt.Sprintf(`Create an account for each line of a file, or of standard input for -. Each
person chooses a password with the link, which works once, for %d days.

A line is JSON with the members email, account and plan; only email is required.
account is the id of an account at the gate, which keeps its keys, and its plan if
the line has none. The result of a line has the members line, email, account and
link, or error, or skipped if the account has a password. A repeated line makes a
new link. An error does not stop the other lines; then the status is 1.`, account.InviteLifetime/(24*time.Hour)),
		Args: misuse.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			lines, err := terminal.OpenLines(c, args[0])
			if err != nil {
				return err
			}
			defer lines.Close()
			return withAccounts(c, gate, func(accounts *account.Service) (err error) {
				i.accounts = accounts
				if output == "" {
					err = i.run(c.Context(), lines, c.OutOrStdout())
				} else {
					err = terminal.NewFile(output, func(draft *os.File) error { return i.run(c.Context(), lines, draft) })
				}
				if err == nil && i.refused > 0 {
					err = fmt.Errorf("%d of %d lines have errors", i.refused, i.line)
				}
				return err
			})
		},
	}
	gate.declare(c)
	i.links = resetAddress(c)
	c.Flags().BoolVar(&i.dryRun, "dry-run", false, "check the lines without their plans, and change nothing")
	c.Flags().StringVar(&output, "output", "", "new `file` of mode 0600 for the results, instead of standard output")
	return c
}

// importer invites the person of each line.
type importer struct {
	accounts      *account.Service
	links         func() (*url.URL, error)
	dryRun        bool
	line, refused int
}

// run writes the result of each line. It ends when the gate or the database does
// not answer.
func (i *importer) run(ctx context.Context, lines io.Reader, w io.Writer) error {
	links, err := i.links()
	if err != nil {
		return err
	}
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		i.line++
		result := map[string]any{"line": i.line}
		err := i.invite(ctx, scanner.Bytes(), links, result)
		switch {
		case errors.Is(err, account.ErrGate), errors.Is(err, account.ErrDatabase):
			return fmt.Errorf("importing line %d: %w", i.line, err)
		case errors.Is(err, account.ErrMember):
			result["skipped"] = err.Error()
		case err != nil:
			result["error"] = err.Error()
			i.refused++
		}
		if err := printJSON(w, result); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("reading line %d: %w", i.line+1, err)
	}
	return nil
}

// invite sets the members of the result of a line.
func (i *importer) invite(ctx context.Context, text []byte, links *url.URL, result map[string]any) error {
	var line struct {
		Email   string `json:"email"`
		Account string `json:"account"`
		Plan    string `json:"plan"`
	}
	err := apierror.Decode("the line", text, &line)
	email, invalid := account.ParseEmail(line.Email)
	result["email"] = line.Email
	if err := cmp.Or(err, invalid); err != nil {
		return err
	}
	a, token, err := i.accounts.Invite(ctx, email, line.Account, line.Plan, i.dryRun)
	if token != "" {
		result["link"] = links.JoinPath(token).String()
	}
	if token != "" || errors.Is(err, account.ErrMember) {
		result["account"] = a.ID
	}
	return err
}

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
