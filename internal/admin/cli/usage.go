package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// shownCalls is the number of recent calls in a table; --json has all.
const shownCalls = 10

func (t *Tool) showUsage() *cobra.Command {
	var days int
	c := &cobra.Command{
		Use: "show <account>", Short: "Shows an account's usage of today", Args: misuse.Arguments(1),
		ValidArgsFunction: t.Complete(Accounts),
		Example:           "caddy tollgate usage show acc_1 --days 30",
	}
	c.RunE = Query(t, OfAccount(func(ctx context.Context, gate *client.Client, args []string) (api.UsageDocument, error) {
		return gate.Usage(ctx, args[0], days)
	}), showUsage)
	AddNumber(c, &days, "days", 0, 1, api.MaxUsageDays, fmt.Sprintf("Add the history of this number of days, up to %d", api.MaxUsageDays))
	return c
}

func showUsage(table io.Writer, d api.UsageDocument) {
	Row(table, "Account", d.Account)
	Row(table, "Plan", d.Plan)
	Row(table, "Day", d.Day+" ("+d.Timezone+")")
	Row(table, "Resets at", terminal.Time(d.ResetsAt))
	Row(table)
	Row(table, "ENDPOINT", "PERIOD", "USED", "LIMIT", "REMAINING", "RESETS AT")
	for _, e := range d.Endpoints {
		Row(table, e.Endpoint, defaultPeriod, strconv.FormatInt(e.Used, 10), Limit(e.Limit), Limit(e.Remaining), terminal.Time(d.ResetsAt))
		for _, l := range e.Limits {
			if l.Period != defaultPeriod || l.Calls {
				Row(table, append([]string{e.Endpoint}, used(l)...)...)
			}
		}
	}
	for _, l := range d.Limits {
		Row(table, append([]string{api.All}, used(l)...)...)
	}
	if len(d.Endpoints) == 0 {
		Row(table, "The plan gives no access.")
	}
	showCredits(table, d)
	showKeyLimits(table, d)
	showHistory(table, d)
	if len(d.RecentCalls) == 0 {
		return
	}
	Row(table)
	Row(table, "RECENT CALL", "STATUS", "METHOD", "PATH", "COST", "MS", "KEY")
	for _, call := range d.RecentCalls[:min(len(d.RecentCalls), shownCalls)] {
		status := strings.TrimSpace(strconv.Itoa(call.Status) + " " + call.Code)
		Row(table, Moment(call.At.Time), status, call.Method, call.Path, strconv.FormatInt(call.Cost, 10),
			strconv.FormatFloat(call.DurationMS, 'f', -1, 64), call.Key)
	}
}

// used formats what was used of a limit. A pace counts nothing.
func used(l api.UsageLimit) []string {
	if l.Used == nil || l.Remaining == nil {
		return []string{Period(l.Period, l.Calls, l.Soft), None, Limit(&l.Limit), None, None}
	}
	resets := None
	if l.Period != api.Concurrent {
		resets = Resets(l.ResetsAt)
	}
	return []string{Period(l.Period, l.Calls, l.Soft), Limit(l.Used), Limit(&l.Limit), Limit(l.Remaining), resets}
}

// Period formats the period and the kind of a limit, as in a Caddyfile. soft is nil
// or the ceiling of a soft limit.
func Period(period string, calls bool, soft *int64) string {
	if calls && period != api.Concurrent {
		period += " calls"
	}
	if soft != nil {
		period += " soft " + strconv.FormatInt(*soft, 10)
	}
	return period
}

// Resets formats when a period ends; nil is a total, which does not renew.
func Resets(at *time.Time) string {
	if at == nil {
		return "never"
	}
	return terminal.Time(*at)
}

// showCredits shows what was given back today, if anything was.
func showCredits(table io.Writer, d api.UsageDocument) {
	shown := false
	for _, e := range d.Endpoints {
		if e.Credited == 0 {
			continue
		}
		if !shown {
			Row(table)
			Row(table, "CREDITED TODAY", "CALLS", "CREDITED")
		}
		shown = true
		Row(table, e.Endpoint, strconv.FormatInt(e.Calls, 10), strconv.FormatInt(e.Credited, 10))
	}
}

func showKeyLimits(table io.Writer, d api.UsageDocument) {
	if len(d.Keys) == 0 {
		return
	}
	Row(table)
	Row(table, "KEY", "ENDPOINT", "PERIOD", "USED", "LIMIT", "REMAINING", "RESETS AT")
	for _, key := range d.Keys {
		for _, l := range key.Limits {
			Row(table, append([]string{key.Name, l.Endpoint}, used(l.UsageLimit)...)...)
		}
	}
}

// showHistory prints one column for each endpoint.
func showHistory(table io.Writer, d api.UsageDocument) {
	if len(d.Days) == 0 || len(d.Endpoints) == 0 {
		return
	}
	head := []string{"DAY"}
	for _, e := range d.Endpoints {
		head = append(head, e.Endpoint)
	}
	Row(table)
	Row(table, head...)
	for _, day := range d.Days {
		cells := []string{day.Day}
		for _, e := range d.Endpoints {
			cells = append(cells, strconv.FormatInt(day.Calls[e.Endpoint], 10))
		}
		Row(table, cells...)
	}
}
