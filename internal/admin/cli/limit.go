package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// defaultPeriod is the period of a limit that names none.
const defaultPeriod = api.Day

// unlimited is a limit without a number.
const unlimited = "unlimited"

func (t *Tool) setLimit() *cobra.Command {
	var period, until, reason string
	c := &cobra.Command{
		Use: "set <account> <endpoint>|all <number>|unlimited", SuggestFor: []string{"create", "add"}, Short: "Overrides a limit of the account's plan, or adds one", Args: misuse.Arguments(3),
		ValidArgsFunction: t.Complete(Accounts, Limited),
		Long: "Replaces the limit that the account's plan has for that endpoint and period, or adds one; all is the limit of all endpoints together. " +
			"It applies to the account's next call. It gives no access to an endpoint that the plan does not list. " +
			"--until is the last day of the override, in the gate's time zone, or the time at which it ends.",
		Example: `caddy tollgate limit set acc_1 convert 50000 --period month --until 2026-12-31 --reason "trade fair"`,
	}
	addPeriod(c, &period)
	c.Flags().StringVar(&until, "until", "", "The last day, for example 2026-12-31, or a time in RFC 3339 (default: no end)")
	c.Flags().StringVar(&reason, "reason", "", "Why there is an override, at most 200 characters")
	c.RunE = Query(t, func(ctx context.Context, gate *client.Client, args []string) (api.Override, error) {
		request := api.OverrideRequest{Reason: reason}
		if args[2] != unlimited {
			calls, err := ParseCalls("<number>", args[2], ", or unlimited")
			if err != nil {
				return api.Override{}, err
			}
			request.Limit = &calls
		}
		if c.Flags().Changed("until") {
			end, err := ParseUntil(ctx, gate, until)
			if err != nil {
				return api.Override{}, err
			}
			request.ExpiresAt = &end
		}
		account, err := AccountOf(ctx, gate, args[0])
		if err != nil {
			return api.Override{}, err
		}
		return gate.SetLimit(ctx, account, OrAll(args[1]), period, request)
	}, func(table io.Writer, o api.Override) { showOverrides(table, []api.Override{o}) })
	return c
}

func (t *Tool) listLimits() *cobra.Command {
	return &cobra.Command{
		Use: "list <account>", Short: "Lists an account's overrides", Args: misuse.Arguments(1),
		ValidArgsFunction: t.Complete(Accounts),
		RunE: Query(t, OfAccount(func(ctx context.Context, gate *client.Client, args []string) (api.OverrideList, error) {
			limits, err := gate.Limits(ctx, args[0])
			return api.OverrideList{Limits: limits}, err
		}), func(table io.Writer, list api.OverrideList) { showOverrides(table, list.Limits) }),
	}
}

func (t *Tool) clearLimit() *cobra.Command {
	var period string
	c := &cobra.Command{
		Use: "clear <account> <endpoint>|all", SuggestFor: []string{"delete", "remove", "rm", "reset"}, Short: "Removes an override, so that the limit of the plan applies", Args: misuse.Arguments(2),
		ValidArgsFunction: t.Complete(Accounts, Limited),
		RunE: Perform(t, OfAccount(func(ctx context.Context, gate *client.Client, args []string) (string, error) {
			endpoint := OrAll(args[1])
			return fmt.Sprintf("Removed the override of %s for each %s of %s.", Plain(endpoint), Plain(period), Plain(args[0])),
				gate.ClearLimit(ctx, args[0], endpoint, period)
		})),
	}
	addPeriod(c, &period)
	return c
}

// OrAll returns the name of an endpoint, or all for the * of a Caddyfile.
func OrAll(endpoint string) string {
	if endpoint == "*" {
		return api.All
	}
	return endpoint
}

func addPeriod(c *cobra.Command, period *string) {
	AddChoice(c, period, "period", defaultPeriod, "second, minute, hour, day, week, month or total", api.Periods()...)
}

// ParseCalls reads a number of calls of an argument or a flag. The gate checks
// its bounds. or says what else is allowed.
func ParseCalls(name, text, or string) (int64, error) {
	calls, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, misuse.Errorf("invalid %s %q: want a whole number from 0 to 10^15%s", name, text, or)
	}
	return int64(calls), nil
}

// ParseUntil reads the last day of an override, in the zone of the gate, or
// the time of its end.
func ParseUntil(ctx context.Context, gate *client.Client, text string) (time.Time, error) {
	if end, err := time.Parse(time.RFC3339, text); err == nil {
		return end, nil
	}
	day, err := calendar.ParseDay(text)
	if err != nil {
		return time.Time{}, misuse.Errorf("invalid --until %q: want a day such as 2026-12-31 or a time such as 2026-12-31T18:00:00Z", text)
	}
	plans, err := gate.Plans(ctx)
	if err != nil {
		return time.Time{}, err
	}
	zone, err := calendar.New(plans.Timezone)
	if err != nil {
		return time.Time{}, err
	}
	return zone.EndOf(day), nil
}

func showOverrides(table io.Writer, overrides []api.Override) {
	Row(table, "ENDPOINT", "LIMIT", "PERIOD", "EXPIRES", "CREATED", "REASON")
	for _, o := range overrides {
		Row(table, o.Endpoint, Limit(o.Limit), o.Period, MomentOr(o.ExpiresAt, "never"), Moment(o.CreatedAt), o.Reason)
	}
	End(table, len(overrides))
}

// parseLimits reads limits of a key, such as "convert 100 day".
func parseLimits(texts []string) (limits []api.Limit, err error) {
	for _, text := range texts {
		words := strings.Fields(text)
		if len(words) == 2 {
			words = append(words, defaultPeriod)
		}
		if len(words) != 3 {
			return nil, misuse.Errorf(`invalid --limit %q: want "<endpoint>|all <number> [<period>]"`, text)
		}
		calls, err := ParseCalls("number of --limit", words[1], "")
		if err != nil {
			return nil, err
		}
		if !slices.Contains(api.Periods(), words[2]) {
			return nil, misuse.Errorf("invalid period %q of --limit: allowed: %s", words[2], strings.Join(api.Periods(), ", "))
		}
		limits = append(limits, api.Limit{Endpoint: OrAll(words[0]), Limit: calls, Period: words[2]})
	}
	return limits, nil
}

// limitsOf formats limits of a key as parseLimits reads them.
func limitsOf(limits []api.Limit) string {
	var texts []string
	for _, l := range limits {
		texts = append(texts, fmt.Sprintf("%s %d %s", l.Endpoint, l.Limit, l.Period))
	}
	return strings.Join(texts, ", ")
}
