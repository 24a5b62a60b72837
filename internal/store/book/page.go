package book

import (
	"context"
	"fmt"
)

// PageSize is how many accounts are read at once. It bounds the memory: only the
// counts of these accounts are kept.
const PageSize = 200

// Lister lists accounts: a Book with the names of today, an Engine with those of the
// store.
type Lister interface {
	List(ctx context.Context, after string, limit int, keys bool) ([]*Account, error)
}

// EachPage calls do with all accounts, some at a time, and with their ids.
func EachPage(ctx context.Context, from Lister, keys bool, do func(accounts []*Account, ids []string) error) error {
	for after := ""; ; {
		accounts, err := from.List(ctx, after, PageSize, keys)
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
