package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/feature/check"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// compare logs what the accounts in the store have and the configuration in
// force has not. It reads all accounts, some at a time, until ctx ends with the
// configuration. From then on, the counts are those of its time zone.
func (a *App) compare(ctx context.Context) {
	if err := a.warnOfLosses(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("cannot compare the configuration with the accounts in the store; when the store works, run caddy tollgate check --config <file>", zap.Error(err))
	}
}

func (a *App) warnOfLosses(ctx context.Context) error {
	opened, err := a.Book()
	if err != nil {
		return err
	}
	census, err := check.Census(ctx, a.policy, opened, a.now())
	if err != nil {
		return err
	}
	for _, finding := range check.Losses(a.policy, census) {
		a.log.Warn("the configuration does not have what accounts in the store have", zap.String("finding", finding))
	}
	if zone := a.policy.Calendar.Zone(); zone != census.Timezone && ctx.Err() == nil {
		return opened.SetTimezone(ctx, book.Timezone(zone))
	}
	return nil
}

func checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "check --config <file> [--adapter <name>]", Short: "Finds what accounts lose by a configuration, before you load it", Args: misuse.Arguments(0),
		Long: `
Compares a configuration with all accounts of the running gate, and prints a
line for each plan that accounts have, ability that live keys have, endpoint
with counts of this month and time zone of the counts that the configuration
does not have; also for each limit of a plan that no call can meet, each rewrite
behind the gate, a gate that gets no requests, and a control API on all
interfaces. The line says what to do. The gate logs the same lines as warnings
when it loads a configuration.

Exits with status 1 if there is such a line or if the configuration is invalid.`,
		Example: "caddy tollgate check --config /etc/caddy/Caddyfile && caddy reload --config /etc/caddy/Caddyfile",
	}
	config, adapter := addConfigFlags(c, "The configuration to check")
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		findings, err := findLosses(ctx, c.Flag("address").Value.String(), *config, *adapter)
		if err != nil {
			return err
		}
		if err := printFindings(c, findings); err != nil {
			return err
		}
		if len(findings) > 0 {
			return fmt.Errorf("the configuration does not have what accounts have, or has what cannot work: %s", amount(int64(len(findings)), "finding"))
		}
		return nil
	}
	return c
}

// findLosses compares a configuration with the accounts of a running gate.
func findLosses(ctx context.Context, address, config, adapter string) ([]string, error) {
	app, err := readApp(config, adapter)
	if err != nil {
		return nil, err
	}
	compiled, err := app.check(true)
	if err != nil {
		return nil, err
	}
	gate, err := AdminClient(address)
	if err != nil {
		return nil, err
	}
	census, err := gate.Census(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Concat(checkRoutes(app.servers, compiled.Guard), check.Doubts(compiled), check.Losses(compiled, census)), nil
}

func printFindings(c *cobra.Command, findings []string) error {
	out := c.OutOrStdout()
	if c.Flag("json").Value.String() == "true" {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(map[string][]string{"findings": append([]string{}, findings...)})
	}
	if len(findings) == 0 {
		findings = []string{"Nothing is lost."}
	}
	for _, finding := range findings {
		if _, err := fmt.Fprintln(out, finding); err != nil {
			return err
		}
	}
	return nil
}
