package check

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// Compare logs what the accounts in the store have and a configuration does not
// have. It reads all accounts, some at a time, until ctx ends with the
// configuration. From then on, the counts are those of its time zone.
func Compare(ctx context.Context, p *policy.Policy, b *book.Book, now time.Time, log *zap.Logger) {
	census, err := Census(ctx, p, b, now)
	if err == nil {
		for _, finding := range Losses(p, census) {
			log.Warn("the configuration does not have what accounts in the store have", zap.String("finding", finding))
		}
		if zone := p.Calendar.Zone(); zone != census.Timezone && ctx.Err() == nil {
			err = b.SetTimezone(ctx, book.Timezone(zone))
		}
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("cannot compare the configuration with the accounts in the store; when the store works, run caddy tollgate check --config <file>", zap.Error(err))
	}
}

// Read compiles the policy of a configuration file, and finds what cannot work in
// it.
type Read func(config, adapter string) (compiled *policy.Policy, findings []string, err error)

// Commands adds the command.
func Commands(t *cli.Tool, parent *cobra.Command, read Read) {
	c := &cobra.Command{
		Use: "check --config <file> [--adapter <name>]", Short: "Finds what accounts lose by a configuration, before you load it", Args: misuse.Arguments(0),
		Long: `
Compares a configuration with all accounts of the running gate, and prints a
line for each plan that accounts have, ability that live keys have, endpoint
with counts of this month and time zone of the counts that the configuration
does not have; also for each limit of a plan that no call can meet, each rewrite
behind the gate, a gate that gets no requests, a control API on all interfaces,
and an identity of client certificates that no site verifies. The line says what to do.
The gate logs the same lines as warnings when it loads a configuration.

Exits with status 1 if there is such a line or if the configuration is invalid.`,
		Example: "caddy tollgate check --config /etc/caddy/Caddyfile && caddy reload --config /etc/caddy/Caddyfile",
	}
	config, adapter := cli.ConfigFlags(c, "The configuration to check")
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		compiled, findings, err := read(*config, *adapter)
		if err != nil {
			return err
		}
		gate, err := t.Connect()
		if err != nil {
			return err
		}
		census, err := gate.Census(ctx)
		if err != nil {
			return err
		}
		findings = append(findings, Losses(compiled, census)...)
		if err := printFindings(t, c.OutOrStdout(), findings); err != nil {
			return err
		}
		if len(findings) > 0 {
			return fmt.Errorf("the configuration does not have what accounts have, or has what cannot work: %s", english.Plural(len(findings), "finding", ""))
		}
		return nil
	}
	parent.AddCommand(c)
}

func printFindings(t *cli.Tool, out io.Writer, findings []string) error {
	if t.JSON {
		return cli.PrintJSON(out, map[string][]string{"findings": append([]string{}, findings...)})
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
