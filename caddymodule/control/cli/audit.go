package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

func (t *tool) audit() *cobra.Command {
	var filter client.AuditFilter
	var limit int
	c := &cobra.Command{
		Use: "audit", Short: "Shows who changed what", Args: cobra.NoArgs,
		Long:    "Shows the entries of the audit log, oldest first. --json also has all of what was changed, before and after.",
		Example: "caddy tollgate audit --account acc_1 --since 2026-11-01",
	}
	c.Flags().StringVar(&filter.Account, "account", "", "Show the changes of this account only")
	c.Flags().StringVar(&filter.Since, "since", "", "Show the changes since a date in UTC, for example 2026-11-01, or a time in RFC 3339")
	c.Flags().IntVar(&limit, "limit", 0, "Show only the last entries, at most this number (default: all)")
	t.completeFlag(c, "account", accounts)
	c.RunE = query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.AuditPage, error) {
		if err := checkAudit(c, filter, limit); err != nil {
			return api.AuditPage{}, err
		}
		entries, err := collect(func(after string) ([]api.AuditEntry, *string, error) {
			page, err := gate.Audit(ctx, filter, after, pageSize)
			return page.Audit, page.Next, err
		})
		if limit > 0 {
			entries = entries[max(0, len(entries)-limit):]
		}
		return api.AuditPage{Audit: entries}, err
	}, showAudit)
	return c
}

func checkAudit(c *cobra.Command, filter client.AuditFilter, limit int) error {
	if err := notEmpty(c, "account", "since"); err != nil {
		return err
	}
	if c.Flags().Changed("limit") && limit < 1 {
		return misuse("--limit %d is not a number of at least 1", limit)
	}
	_, noTime := time.Parse(time.RFC3339, filter.Since)
	_, noDate := time.Parse(time.DateOnly, filter.Since)
	if filter.Since != "" && noTime != nil && noDate != nil {
		return misuse("--since %q is neither a date such as 2026-11-01 nor a time such as 2026-11-01T18:00:00Z", filter.Since)
	}
	return nil
}

func showAudit(table io.Writer, page api.AuditPage) {
	row(table, "AT", "ACTOR", "ACTION", "ACCOUNT", "TARGET", "CHANGE")
	for _, e := range page.Audit {
		actor := strings.TrimSpace(e.Actor.Kind + " " + e.Actor.ID)
		row(table, moment(e.At), actor, e.Action, cmp.Or(e.Account, none), cmp.Or(e.Target, none), cmp.Or(changed(e), none))
	}
	if len(page.Audit) == 0 {
		row(table, "There are none.")
	}
}

// changed formats the members that differ. It is empty for what was created
// or deleted: all members would not fit into a table.
func changed(e api.AuditEntry) string {
	var before, after map[string]json.RawMessage
	// A value that is not an object leaves its map nil, as null does.
	_ = json.Unmarshal(e.Before, &before)
	_ = json.Unmarshal(e.After, &after)
	if before == nil || after == nil {
		return ""
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(before[name], after[name]) {
			texts = append(texts, fmt.Sprintf("%s: %s -> %s", name, cmp.Or(string(before[name]), none), cmp.Or(string(after[name]), none)))
		}
	}
	return strings.Join(texts, ", ")
}
