package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// healthTimeout is shorter than timeout: a gate that is ready answers within
// about a second.
const healthTimeout = 5 * time.Second

func (t *Tool) health() *cobra.Command {
	var state api.Readiness
	show := Query(t, func(ctx context.Context, gate *client.Client, _ []string) (_ api.Readiness, err error) {
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		state, err = gate.Readiness(ctx)
		return state, err
	}, showHealth)
	return &cobra.Command{
		Use: "health", SuggestFor: []string{"status"}, Short: "Tells whether the gate can take calls", Args: misuse.Arguments(0),
		Long: "Tells whether the gate can take calls. Exits with status 0 if it is ready, and with 1 if it is not or if Caddy does not answer.",
		RunE: func(c *cobra.Command, args []string) error {
			if err := show(c, args); err != nil {
				return err
			}
			if state.Status != api.Ready {
				return fmt.Errorf("the gate is not ready: %s: %s", Plain(string(state.Status)), Plain(state.Failed()))
			}
			return nil
		},
	}
}

func showHealth(table io.Writer, state api.Readiness) {
	Row(table, "Status", string(state.Status))
	Row(table, "Mode", state.Mode)
	Row(table, "Since", Moment(state.Since))
	Row(table)
	ShowChecks(table, state.Checks)
}

// ShowChecks prints what works, and what does not.
func ShowChecks(table io.Writer, checks []api.Check) {
	Row(table, "CHECK", "OK", "MESSAGE")
	for _, check := range checks {
		Row(table, check.Name, Yes(check.OK), check.Message)
		for _, more := range []string{check.Cause, check.Remedy} {
			if more != "" {
				Row(table, "", "", more)
			}
		}
	}
}
