package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// advise adds to an error what an operator can do.
func advise(ctx context.Context, gate *client.Client, err error) error {
	var refused *apierror.Error
	if errors.Is(err, client.ErrUnreachable) {
		return fmt.Errorf("%w; start Caddy, or set --address to its admin endpoint", err)
	}
	if !errors.As(err, &refused) || refused.Code != "unknown_endpoint" {
		return err
	}
	if config, failed := gate.Plans(ctx); failed == nil {
		var names []string
		for _, endpoint := range config.Endpoints {
			names = append(names, endpoint.Name)
		}
		err = fmt.Errorf("%w %s", err, "Use "+strings.Join(names, ", ")+".")
	}
	return err
}

// UnknownPlan returns the error of a command with the flag --plan. If the gate
// has refused the plan, the error names the flag and the plans of the gate.
// Other errors stay as they are.
func UnknownPlan(ctx context.Context, gate *client.Client, plan string, err error) error {
	var refused *apierror.Error
	if !errors.As(err, &refused) || refused.Code != "unknown_plan" {
		return err
	}
	return cmp.Or(checkPlan(ctx, gate, plan), err)
}

// checkPlan refuses a value of the flag --plan that is no plan of the gate.
func checkPlan(ctx context.Context, gate *client.Client, plan string) error {
	known, err := gate.Plans(ctx)
	if err != nil {
		return err
	}
	names := []string{}
	for _, p := range known.Plans {
		names = append(names, p.Name)
	}
	if plan == freePlan || slices.Contains(names, plan) {
		return nil
	}
	return misuse.Errorf("unknown plan %q: --plan must be one of %s", plan, strings.Join(names, ", "))
}

// freePlan is the plan of new accounts, which need not be in the configuration.
const freePlan = "free"

// checkDuration refuses the value of a flag that is not a duration.
func checkDuration(flag, text string) error {
	if _, err := calendar.ParseDuration(text); err != nil {
		return misuse.Errorf("invalid --%s %q: want a duration such as 90m, 720h or 30d, at most 36500d", flag, text)
	}
	return nil
}
