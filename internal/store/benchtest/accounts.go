package benchtest

import (
	"fmt"
	"iter"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// ID returns the id of the account i of n. Their order is not that of i.
func ID(i, n int) string { return fmt.Sprintf("acc_%08d", i*7919%n) }

// Label returns the label of the account i.
func Label(i int) string { return fmt.Sprintf("person-%d@example.com", i) }

// Accounts returns n accounts with a key each and counts on several days, one in
// a hundred disabled or on the plan business.
func Accounts(n int, today calendar.Day, created time.Time) iter.Seq2[book.Piece, error] {
	return func(yield func(book.Piece, error) bool) {
		for i := range n {
			a := &book.Account{Account: store.Account{
				ID: ID(i, n), Plan: "starter", Label: Label(i), Disabled: i%100 == 1, CreatedAt: created,
			}, Exists: true}
			if i%100 == 2 {
				a.Plan = "business"
			}
			a.Keys = []*book.Key{{Hash: token.Foreign(fmt.Sprintf("tgk_%040d", i)), Key: store.Key{
				ID: fmt.Sprintf("key_%d", i), Account: a.ID, Kind: token.Key, Name: "ci", Abilities: []string{"convert"}, Hint: fmt.Sprintf("tgk_…%04d", i%10_000), CreatedAt: created,
			}}}
			if !yield(book.Piece{Document: a}, nil) {
				return
			}
			for ago := range calendar.Day(7) {
				count := store.Count{Day: today - 3*ago, Endpoint: "convert", Used: int64(i%900 + 1)}
				if !yield(book.Piece{Count: &store.StoredCount{Account: a.ID, Count: count}}, nil) {
					return
				}
			}
		}
	}
}
