package explain

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// Commands adds the commands.
func Commands(t *cli.Tool, parent *cobra.Command) {
	parent.AddCommand(command(t))
}

func command(t *cli.Tool) *cobra.Command {
	var q api.Question
	c := &cobra.Command{
		Use: "explain <method> <target>", Short: "Explains what the gate would answer to a request", Args: misuse.Arguments(2),
		Long:    "Explains what the gate would answer to a request: each step, the answer, and what is left of each limit. It counts nothing.",
		Example: "caddy tollgate explain GET /api/convert/USD/1/EUR --account acc_1",
	}
	c.Flags().StringVar(&q.Key, "key", "", "The id of the key that calls, or with --account its name")
	c.Flags().StringVar(&q.Account, "account", "", "The account that calls; without --key, with all abilities of its plan")
	c.Flags().StringVar(&q.From, "from", "", "The address of the client, for a key with addresses or a call without a key")
	cli.AddNumber(c, &q.Cost, "cost", 1, 1, api.MaxLimit, "The number of elements in the body, for an endpoint with cost json")
	t.CompleteFlag(c, "account", cli.Accounts)
	t.CompleteFlag(c, "key", func(ctx context.Context, gate *client.Client, _ []string, typed string) ([]cobra.Completion, error) {
		if q.Account == "" {
			return nil, nil // keys are listed by their account
		}
		return cli.Keys(ctx, gate, []string{q.Account}, typed)
	})
	run := cli.Query(t, func(ctx context.Context, gate *client.Client, args []string) (api.Explanation, error) {
		q.Method, q.Target = args[0], args[1]
		if q.Account != "" {
			id, err := cli.AccountOf(ctx, gate, q.Account)
			if err != nil {
				return api.Explanation{}, err
			}
			q.Account = id
			if q.Key, err = cli.KeyOf(ctx, gate, id, q.Key); err != nil {
				return api.Explanation{}, err
			}
		}
		return gate.Explain(ctx, q)
	}, showExplanation)
	c.RunE = func(c *cobra.Command, args []string) error {
		// An empty variable in a script must not remove a condition.
		for _, name := range []string{"key", "account", "from"} {
			if flag := c.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
				return misuse.Errorf("--%s has no value", name)
			}
		}
		if target := args[1]; !strings.HasPrefix(target, "/") && target != "*" && !strings.Contains(target, "://") {
			return misuse.Errorf("invalid <target> %q: want a path that begins with /", target)
		}
		return run(c, args)
	}
	return c
}

func showExplanation(table io.Writer, x api.Explanation) {
	cli.Row(table, "Request", x.Request.Method+" "+x.Request.Target)
	if x.Account != "" {
		cli.Row(table, "Account", x.Account)
		cli.Row(table, "Plan", x.Plan)
	}
	if x.Key != "" {
		cli.Row(table, "Key", x.Key)
	}
	cli.Row(table, "Mode", x.Mode)
	cli.Row(table)
	cli.Row(table, "STEP", "OK", "MESSAGE")
	for _, step := range x.Steps {
		cli.Row(table, step.Step, cli.Yes(step.OK), step.Message)
	}
	cli.Row(table)
	cli.Row(table, "Answer", answer(x))
	cli.Row(table, "Message", x.Message)
	if x.RetryAfter != nil {
		cli.Row(table, "Retry after", strconv.FormatInt(*x.RetryAfter, 10)+" s")
	}
	if len(x.Limits) == 0 {
		return
	}
	cli.Row(table)
	cli.Row(table, "ENDPOINT", "OF", "PERIOD", "USED", "LIMIT", "REMAINING", "RESETS AT", "REFUSES")
	for i := range x.Limits {
		l := &x.Limits[i]
		used, resets := cli.None, cli.None
		if l.Used != nil {
			used = strconv.FormatInt(*l.Used, 10)
		}
		if l.ResetsAt != nil {
			resets = terminal.Time(*l.ResetsAt)
		}
		cli.Row(table, l.Endpoint, l.Of, cli.Period(l.Period, l.Calls, l.Soft), used, strconv.FormatInt(l.Limit, 10), strconv.FormatInt(l.Remaining, 10), resets, cli.Yes(l.Refuses))
	}
}

// answer formats what the gate would answer, in its mode.
func answer(x api.Explanation) string {
	if x.Status == nil || x.Code == nil {
		return "admitted"
	}
	refusal := strconv.Itoa(*x.Status) + " " + *x.Code
	if x.Passes {
		return "passes; mode enforce would answer " + refusal
	}
	return refusal
}
