package check

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
	c := api.Census{Plans: map[string]int64{}, Then: map[string]int64{}, Abilities: map[string]int64{}, Endpoints: map[string]int64{}}
	today := p.Calendar.At(now).Day
	zone, err := b.Timezone(ctx)
	if err != nil {
		return c, fmt.Errorf("reading the time zone: %w", err)
	}
	c.Timezone = string(zone)
	first, _ := today.Month()
	return c, book.EachPage(ctx, b.Engine, true, func(accounts []*book.Account, ids []string) error {
		for _, a := range accounts {
			c.Plans[a.Terms.Plan(a.Plan, now)]++
			if now.Before(a.PlanUntil) {
				c.Then[a.Then]++
			}
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
