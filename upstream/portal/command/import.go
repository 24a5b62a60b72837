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

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
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
	declareData(c)
	gate.Flags(c)
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
