package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Census counts what all accounts need of a configuration, by the names that
// the store has. The month is that of the policy.
func Census(ctx context.Context, p *policy.Policy, b *book.Book, now time.Time) (api.Census, error) {
	c := api.Census{Plans: map[string]int64{}, Abilities: map[string]int64{}, Endpoints: map[string]int64{}}
	b, today := b.AsStored(), p.Calendar.At(now).Day
	zone, err := b.Timezone(ctx)
	if err != nil {
		return c, fmt.Errorf("reading the time zone: %w", err)
	}
	c.Timezone = string(zone)
	first, _ := today.Month()
	return c, eachPage(ctx, b, true, func(accounts []*book.Account, ids []string) error {
		for _, a := range accounts {
			c.Plans[a.Plan]++
			for _, k := range a.Keys {
				if k.Kind != token.Key || !k.Live(now) {
					continue
				}
				for _, ability := range k.Abilities {
					c.Abilities[ability]++
				}
			}
		}
		counts, err := b.CountsOfAccounts(ctx, ids, first, today)
		for _, n := range counts {
			if n.Key == "" || n.Key == store.Credited {
				c.Endpoints[n.Endpoint] += n.Used
			}
		}
		return err
	})
}

// eachPage calls do with all accounts, some at a time, and with their ids.
func eachPage(ctx context.Context, source TopSource, keys bool, do func(accounts []*book.Account, ids []string) error) error {
	for after := ""; ; {
		accounts, err := source.List(ctx, after, topPage, keys)
		if err != nil {
			return fmt.Errorf("listing accounts: %w", err)
		}
		if len(accounts) == 0 {
			return nil
		}
		ids := make([]string, len(accounts))
		for i, a := range accounts {
			ids[i] = a.ID
		}
		if err := do(accounts, ids); err != nil {
			return fmt.Errorf("reading the counts of accounts: %w", err)
		}
		// A store in memory or on a disk does not check the context.
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("reading all accounts: %w", err)
		}
		after = ids[len(ids)-1]
	}
}
