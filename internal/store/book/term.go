package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// endingSpace has a row for each plan that has an end. The key is the end, a space
// and the account. So EndPlans finds them in order. A row can be out of date: the
// document decides.
var endingSpace = Space{Name: "ending"}

// NotePlanEnd makes EndPlans find an account. Call it before the change that sets
// the end of its plan.
func (b *Book) NotePlanEnd(ctx context.Context, account string, end time.Time) error {
	key := end.Add(time.Second-1).UTC().Format(time.RFC3339) + " " + account // not before the end
	return commitOne(ctx, b.Engine, endingSpace, []Write{{Row: Row{Key: key, Value: encode(true), Expires: end.AddDate(0, 0, store.CountsFor)}}})
}

// EndPlans writes the plans that follow those which have ended, so that the log has
// them. Without it they are in force all the same. Several gates can do it at once.
func (b *Book) EndPlans(ctx context.Context) error {
	now := b.now()
	rows, err := b.Scan(ctx, store.MaxBatch, Range{endingSpace, "", now.UTC().Format(time.RFC3339) + "!"})
	if err != nil {
		return err
	}
	var failed error // an account whose document is damaged does not stop the others
	for _, row := range rows[0] {
		_, id, _ := strings.Cut(row.Key, " ")
		err := b.ChangeOne(ctx, now, id, func(a *Account) error {
			if len(a.Log) == 0 { // deleted, or with another end
				return store.ErrNotFound
			}
			return nil
		})
		if err == nil || errors.Is(err, store.ErrNotFound) {
			err = commitOne(ctx, b.Engine, endingSpace, []Write{{Row: Row{Key: row.Key}}})
		}
		if errors.Is(err, store.ErrUnavailable) {
			return err
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("account %s: %w", id, err))
		}
	}
	return failed
}

// renew makes the plan that follows one which has ended the plan of the account.
func (a *Account) renew(now time.Time) {
	if next := a.Terms.Plan(a.Plan, now); !a.PlanUntil.IsZero() && !now.Before(a.PlanUntil) {
		a.Plan, a.PlanUntil, a.Then = next, time.Time{}, ""
	}
}

// endPlan is renew that also adds an entry to the log.
func (a *Account) endPlan(now time.Time) {
	before, end := a.Plan, a.PlanUntil
	if a.renew(now); a.PlanUntil.Equal(end) {
		return
	}
	state := map[string]any{"account": a.ID, "plan": a.Plan, "disabled": a.Disabled}
	after, _ := json.Marshal(state) // texts and times always encode
	state["plan"], state["plan_until"] = before, end
	ended, _ := json.Marshal(state)
	a.Record(store.Entry{At: now.UTC().Truncate(time.Millisecond), ActorKind: "admin", ActorID: "plan_until", Action: "account.set", Before: ended, After: after})
}
