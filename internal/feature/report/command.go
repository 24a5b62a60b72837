package report

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Commands adds the commands.
func Commands(t *cli.Tool, _ *cobra.Command) {
	t.UsageGroup.AddCommand(topCommand(t), summaryCommand(t))
	t.KeyGroup.AddCommand(findCommand(t))
}

func topCommand(t *cli.Tool) *cobra.Command {
	var days int
	c := &cobra.Command{
		Use: "top", Short: "Shows the busiest accounts and those nearest to a limit", Args: misuse.Arguments(0),
		Example: "caddy tollgate usage top --days 7",
	}
	cli.AddNumber(c, &days, "days", 1, 1, api.MaxUsageDays, fmt.Sprintf("Find the busiest accounts of this number of days, today included, up to %d", api.MaxUsageDays))
	c.RunE = cli.Query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.UsageTop, error) {
		return gate.TopUsage(ctx, days, 0)
	}, showTop)
	return c
}

func showTop(table io.Writer, top api.UsageTop) {
	cli.Row(table, "BUSIEST", "PLAN", "CALLS", "LABEL")
	for _, b := range top.Busiest {
		cli.Row(table, b.Account, b.Plan, strconv.FormatInt(b.Calls, 10), cmp.Or(b.Label, cli.None))
	}
	cli.Row(table)
	showNearest(table, top.Nearest)
}

func summaryCommand(t *cli.Tool) *cobra.Command {
	return &cobra.Command{
		Use: "summary", Short: "Shows what all accounts called, what was refused, and what needs care", Args: misuse.Arguments(0),
		RunE: cli.Query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.Summary, error) {
			return gate.Summary(ctx)
		}, showSummary),
	}
}

func showSummary(table io.Writer, s api.Summary) {
	cli.Row(table, "At", cli.Moment(s.At))
	cli.Row(table, "Accounts", fmt.Sprintf("%d, %d of them disabled", s.Accounts, s.Disabled))
	cli.Row(table)
	cli.Row(table, "DAY", "CALLS", "REFUSED")
	for _, day := range s.Days {
		cli.Row(table, day.Day, byName(day.Calls), byName(day.Refused))
	}
	cli.Row(table)
	showNearest(table, s.Nearest)
	cli.Row(table)
	cli.Row(table, "MOST REFUSED", "PLAN", "CALLS", "CODES", "LABEL")
	for _, a := range s.MostRefused {
		cli.Row(table, a.Account, a.Plan, strconv.FormatInt(a.Calls, 10), byName(a.Codes), cmp.Or(a.Label, cli.None))
	}
	cli.Row(table)
	cli.ShowChecks(table, s.Checks)
}

// byName returns numbers with their names.
func byName(numbers map[string]int64) string {
	list := []string{}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		list = append(list, fmt.Sprintf("%s %d", name, numbers[name]))
	}
	return cmp.Or(strings.Join(list, ", "), cli.None)
}

func showNearest(table io.Writer, nearest []api.NearestLimit) {
	cli.Row(table, "NEAREST", "PLAN", "ENDPOINT", "PERIOD", "USED", "LIMIT", "REMAINING", "RESETS AT", "LABEL")
	for _, n := range nearest {
		cli.Row(table, n.Account, n.Plan, n.Endpoint, n.Period, strconv.FormatInt(n.Used, 10), cli.Limit(&n.Limit), cli.Limit(&n.Remaining), cli.Resets(n.ResetsAt), cmp.Or(n.Label, cli.None))
	}
}

// The errors do not show the token.
var (
	errNotToken = errors.New("standard input has neither a token nor its SHA-256: send one line, such as tgk_… or 64 hexadecimal digits")
	errMistyped = errors.New("the token is mistyped or cut off: its checksum is wrong, so the gate never made it")
)

func findCommand(t *cli.Tool) *cobra.Command {
	return &cobra.Command{
		Use: "find", Short: "Finds the account and the key of a token", Args: misuse.Arguments(0),
		Long: "Reads a token, or its SHA-256 in hexadecimal, from standard input, and shows the account and the key, also of a key that was revoked or has expired. " +
			"The command hashes the token: the gate, its logs and the list of processes never have it.",
		Example: "caddy tollgate key find < leaked-token",
		RunE: func(c *cobra.Command, args []string) error {
			if file, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(file.Fd())) {
				fmt.Fprint(c.ErrOrStderr(), "Token or SHA-256: ")
			}
			hashes, err := readToken(c.InOrStdin())
			if err != nil {
				return err
			}
			return cli.Query(t, func(ctx context.Context, gate *client.Client, _ []string) (found api.FoundKey, err error) {
				for _, hash := range hashes {
					if found, err = gate.FindKey(ctx, hex.EncodeToString(hash[:])); !errors.Is(err, api.ErrNotFound) {
						return found, err
					}
				}
				return found, err
			}, showFound)(c, args)
		},
	}
}

// readToken reads a token or its hash. It returns the hashes that the key can
// have, in the order of the gate.
func readToken(from io.Reader) ([]token.Hash, error) {
	line, err := bufio.NewReader(io.LimitReader(from, 2*token.MaxText)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	var hashes []token.Hash
	var hash token.Hash
	text := strings.TrimSpace(line)
	if token.IsOwn(text) {
		hash, err := token.Parse(text)
		if err != nil {
			return nil, errMistyped
		}
		return []token.Hash{hash}, nil
	}
	if hash.UnmarshalText([]byte(text)) == nil {
		hashes = append(hashes, hash)
	}
	if token.IsForeign(text) {
		if hash, found := token.SplitPrefix(text); found {
			hashes = append(hashes, hash)
		}
		hashes = append(hashes, token.Foreign(text))
	}
	if len(hashes) == 0 {
		return nil, errNotToken
	}
	return hashes, nil
}

func showFound(table io.Writer, found api.FoundKey) {
	k := found.Key
	from := cli.None
	if k.LastUsedFrom != nil {
		from = *k.LastUsedFrom
	}
	cli.Row(table, "State", found.State)
	cli.Row(table, "Account", found.Account.Account)
	cli.Row(table, "Label", cmp.Or(found.Account.Label, cli.None))
	cli.Row(table, "Plan", found.Account.Plan)
	cli.Row(table, "Disabled", cli.Yes(found.Account.Disabled))
	cli.Row(table, "Key", k.ID)
	cli.Row(table, "Name", k.Name)
	cli.Row(table, "Kind", k.Kind)
	cli.Row(table, "Token", k.Hint)
	cli.Row(table, "Created", cli.Moment(k.CreatedAt))
	cli.Row(table, "Last used", cli.MomentOr(k.LastUsedAt, cli.Never))
	cli.Row(table, "From", from)
	cli.Row(table, "Expires", cli.MomentOr(k.ExpiresAt, cli.Never))
	cli.Row(table, "Revoked", cli.MomentOr(k.RevokedAt, cli.None))
}
