package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/misuse"
)

func (t *tool) audit() *cobra.Command {
	var filter client.AuditFilter
	var account accountFilter
	var limit int
	c := &cobra.Command{
		Use: "audit", Short: "Shows who changed what", Args: misuse.Arguments(0),
		Long: "Shows the entries of the audit log, oldest first. The columns REASON and CHANGE are shortened; --json has all, before and after. " +
			"The command fails if it has not read all of these entries within 30 seconds: use --limit or --since for a long log.",
		Example: "caddy tollgate audit --account acc_1 --since 2026-11-01",
	}
	t.addAccountFilter(c, &account, "Show the changes of this account only")
	c.Flags().StringVar(&filter.Actor, "actor", "", "Show the changes of the actor with this name or id only")
	c.Flags().StringVar(&filter.Since, "since", "", "Show the changes since a date in UTC, for example 2026-11-01, or a time in RFC 3339")
	c.Flags().StringVar(&filter.Until, "until", "", "Show the changes before a date in UTC or a time")
	addNumber(c, &limit, "limit", 0, 1, math.MaxInt32, "Show only the last entries, at most this number (default: all)")
	c.RunE = query(t, func(ctx context.Context, gate *client.Client, _ []string) (page api.AuditPage, err error) {
		if err := checkAudit(c, filter); err != nil {
			return page, err
		}
		if filter.Account, err = account.id(ctx, gate); err != nil {
			return page, err
		}
		if limit > 0 {
			page, err = lastEntries(ctx, gate, filter, limit)
		} else {
			page.Audit, err = client.All(func(after string) ([]api.AuditEntry, *string, error) {
				page, err := gate.Audit(ctx, filter, after, client.PageSize)
				return page.Audit, page.Next, err
			})
		}
		return page, cmp.Or(err, account.check(len(page.Audit)))
	}, showAudit)
	return c
}

// lastEntries reads from the end of the log, which can be long.
func lastEntries(ctx context.Context, gate *client.Client, filter client.AuditFilter, limit int) (last api.AuditPage, err error) {
	filter.NewestFirst = true
	last.Audit = []api.AuditEntry{}
	for after, more := "", true; more && len(last.Audit) < limit; {
		page, err := gate.Audit(ctx, filter, after, min(client.PageSize, limit-len(last.Audit)))
		if err != nil {
			return last, err
		}
		last.Audit = append(last.Audit, page.Audit...)
		if more = page.Next != nil; more {
			after = *page.Next
		}
	}
	slices.Reverse(last.Audit)
	return last, nil
}

func checkAudit(c *cobra.Command, filter client.AuditFilter) error {
	if err := notEmpty(c, "account", "actor", "since", "until"); err != nil {
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
	row(table, "AT", "ACTOR", "ACTION", "ACCOUNT", "TARGET", "REASON", "CHANGE")
	for _, e := range page.Audit {
		actor := strings.TrimSpace(e.Actor.Kind + " " + e.Actor.ID)
		row(table, moment(e.At), actor, e.Action, cmp.Or(e.Account, none), cmp.Or(e.Target, none), cmp.Or(shorten(e.Reason, maxValue), none), cmp.Or(changed(e), none))
	}
	end(table, len(page.Audit))
}

// The widths of a value and of the column CHANGE, in characters.
const (
	maxValue  = 40
	maxChange = 160
)

// unshown has the members that the column CHANGE omits: the other columns
// have them, or they follow from what is shown.
var unshown = []string{"account", "created_at", "endpoint", "hint", "kind", "period", "reason"}

// empty has values that are not worth a word in what is new or deleted.
var empty = []string{none, `""`, "[]", "false"}

// changed formats the members that differ: "name: value" for what is new, and
// "name: before -> after" otherwise.
func changed(e api.AuditEntry) string {
	var before, after map[string]json.RawMessage
	// A value that is not an object leaves its map nil, as null does.
	_ = json.Unmarshal(e.Before, &before)
	_ = json.Unmarshal(e.After, &after)
	usage := after["usage"]
	if e.Action == api.AccountDelete {
		after = nil // nothing is left of the account but its calls
	}
	all := map[string]json.RawMessage{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, is := value(name, before[name]), value(name, after[name])
		switch {
		case bytes.Equal(before[name], after[name]) || slices.Contains(unshown, name):
		case name == "id" && (before == nil || after == nil): // it is in TARGET
		case name == "label_changed": // the log does not have the text
			texts = append(texts, "label: changed")
		case before == nil && slices.Contains(empty, is), after == nil && slices.Contains(empty, was):
		case before == nil:
			texts = append(texts, name+": "+is)
		default:
			texts = append(texts, name+": "+was+" -> "+is)
		}
	}
	if is := value("usage", usage); usage != nil && !slices.Contains(empty, is) {
		texts = append(texts, "called: "+is)
	}
	return shorten(strings.Join(texts, ", "), maxChange)
}

// value formats a member, which is nil if there is none.
func value(name string, member json.RawMessage) string {
	switch {
	case name == "limit" && string(member) == "null":
		return unlimited
	case member == nil || string(member) == "null":
		return none
	case name == "limits":
		var limits []api.Limit
		if err := json.Unmarshal(member, &limits); err == nil {
			member = json.RawMessage("[" + limitsOf(limits) + "]")
		}
	case name == "usage":
		var usage []api.ClosedUsage
		if err := json.Unmarshal(member, &usage); err == nil {
			texts := make([]string, len(usage))
			for i, u := range usage {
				texts[i] = fmt.Sprintf("%s %d", u.Endpoint, u.Calls)
			}
			member = json.RawMessage("[" + strings.Join(texts, ", ") + "]")
		}
	}
	return shorten(string(member), maxValue)
}

// shorten cuts a text to a number of characters.
func shorten(text string, length int) string {
	if characters := []rune(text); len(characters) > length {
		return string(characters[:length-1]) + "…"
	}
	return text
}
