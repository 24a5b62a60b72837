package audit

import (
	"cmp"
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// Commands adds the commands.
func Commands(t *cli.Tool, parent *cobra.Command) {
	parent.AddCommand(command(t))
}

func command(t *cli.Tool) *cobra.Command {
	var filter api.AuditQuery
	var account cli.AccountFilter
	var limit int
	c := &cobra.Command{
		Use: "audit", Short: "Shows who changed what", Args: misuse.Arguments(0),
		Long: "Shows the entries of the audit log, oldest first. The columns REASON and CHANGE are shortened; --json has all, before and after. " +
			"The command fails if it has not read all of these entries within 30 seconds: use --limit or --since for a long log.",
		Example: "caddy tollgate audit --account acc_1 --since 2026-11-01",
	}
	t.AddAccountFilter(c, &account, "Show the changes of this account only")
	c.Flags().StringVar(&filter.Actor, "actor", "", "Show the changes of this actor only: its name or id, or the label of its account")
	c.Flags().StringVar(&filter.Since, "since", "", "Show the changes since a date in UTC, for example 2026-11-01, or a time in RFC 3339")
	c.Flags().StringVar(&filter.Until, "until", "", "Show the changes before a date in UTC or a time")
	cli.AddNumber(c, &limit, "limit", 0, 1, math.MaxInt32, "Show only the last entries, at most this number (default: all)")
	c.RunE = cli.Query(t, func(ctx context.Context, gate *client.Client, _ []string) (page api.AuditPage, err error) {
		if err := checkAudit(c, filter); err != nil {
			return page, err
		}
		if filter.Account, err = account.ID(ctx, gate); err != nil {
			return page, err
		}
		if limit > 0 {
			page, err = lastEntries(ctx, gate, filter, limit)
		} else {
			page.Audit, err = client.All(func(after string) ([]api.AuditEntry, *string, error) {
				filter.After, filter.Limit = after, client.PageSize
				page, err := gate.Audit(ctx, filter)
				return page.Audit, page.Next, err
			})
		}
		return page, err
	}, showAudit)
	return c
}

// lastEntries reads from the end of the log, which can be long.
func lastEntries(ctx context.Context, gate *client.Client, filter api.AuditQuery, limit int) (last api.AuditPage, err error) {
	filter.Order = "desc"
	last.Audit = []api.AuditEntry{}
	for more := true; more && len(last.Audit) < limit; {
		filter.Limit = min(client.PageSize, limit-len(last.Audit))
		page, err := gate.Audit(ctx, filter)
		if err != nil {
			return last, err
		}
		last.Audit = append(last.Audit, page.Audit...)
		if more = page.Next != nil; more {
			filter.After = *page.Next
		}
	}
	slices.Reverse(last.Audit)
	return last, nil
}

func checkAudit(c *cobra.Command, filter api.AuditQuery) error {
	if err := cli.NotEmpty(c, "account", "actor", "since", "until"); err != nil {
		return err
	}
	for _, at := range [][2]string{{"since", filter.Since}, {"until", filter.Until}} {
		_, noTime := time.Parse(time.RFC3339, at[1])
		_, noDate := time.Parse(time.DateOnly, at[1])
		if at[1] != "" && noTime != nil && noDate != nil {
			return misuse.Errorf("invalid --%s %q: want a date such as 2026-11-01 or a time such as 2026-11-01T18:00:00Z", at[0], at[1])
		}
	}
	return nil
}

func showAudit(table io.Writer, page api.AuditPage) {
	cli.Row(table, "AT", "ACTOR", "ACTION", "ACCOUNT", "TARGET", "REASON", "CHANGE")
	for _, e := range page.Audit {
		actor := strings.TrimSpace(e.Actor.Kind + " " + labeled(e.Actor.ID, e.Actor.Label))
		cli.Row(table, cli.Moment(e.At), actor, e.Action, cmp.Or(labeled(e.Account, e.Label), cli.None), cmp.Or(e.Target, cli.None), cmp.Or(shorten(e.Reason, maxValue), cli.None), cmp.Or(changed(e), cli.None))
	}
	cli.End(table, len(page.Audit))
}

// labeled returns an id with the label beside it, if there is one.
func labeled(id, label string) string {
	if label == "" {
		return id
	}
	return id + " (" + shorten(label, maxValue) + ")"
}

// The widths of a value and of the column CHANGE, in characters.
const (
	maxValue  = 40
	maxChange = 160
)

// changed formats the members that differ: "name: value" for what is new, and
// "name: before -> after" otherwise.
func changed(e api.AuditEntry) string {
	var texts []string
	for _, c := range e.Changes(cli.Moment) {
		text := c.Name + ": " + shorten(c.After, maxValue)
		if string(e.Before) != "null" && c.Name != "label" && c.Name != "called" {
			text = c.Name + ": " + cmp.Or(shorten(c.Before, maxValue), cli.None) + " -> " + cmp.Or(shorten(c.After, maxValue), cli.None)
		}
		texts = append(texts, text)
	}
	return shorten(strings.Join(texts, ", "), maxChange)
}

// shorten cuts a text to a number of characters.
func shorten(text string, length int) string {
	if characters := []rune(text); len(characters) > length {
		return string(characters[:length-1]) + "…"
	}
	return text
}
