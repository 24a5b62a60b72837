package benchtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Content is what FillBadger writes: accounts with a key each, and a count of
// each account on some days.
type Content struct {
	Accounts int
	Plan     string
	// Days is how many days have counts. Last is the last of them.
	Days int
	Last calendar.Day
	Used int64
}

// AccountID is the id of one of the accounts. The ids ascend.
func AccountID(i int) string { return fmt.Sprintf("acc_%08d", i) }

// FillBadger writes a store to a directory that is missing or empty. It returns
// the token of each account.
func FillBadger(ctx context.Context, dir string, c Content) (tokens []string, err error) {
	err = RestoreBadger(dir, func(yield func(book.Piece, error) bool) {
		for piece, err := range c.pieces(&tokens) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(piece, err) {
				return
			}
		}
	})
	return tokens, err
}

// pieces are in the order of a dump.
func (c Content) pieces(tokens *[]string) iter.Seq2[book.Piece, error] {
	return func(yield func(book.Piece, error) bool) {
		for i := range c.Accounts {
			document, secret, err := c.account(AccountID(i))
			*tokens = append(*tokens, secret)
			if !yield(book.Piece{Document: document}, err) {
				return
			}
		}
		for day := c.Last - calendar.Day(c.Days) + 1; day <= c.Last; day++ {
			for i := range c.Accounts {
				count := store.Count{Day: day, Endpoint: "convert", Used: c.Used}
				if !yield(book.Piece{Count: &store.StoredCount{Account: AccountID(i), Count: count}}, nil) {
					return
				}
			}
		}
	}
}

// account returns an account with a key, and its token.
func (c Content) account(id string) (document *book.Account, secret string, err error) {
	t, err := token.New(token.Key, rand.Reader)
	if err != nil {
		return nil, "", err
	}
	keyID, err := token.NewID(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	key := store.Key{
		ID: keyID, Account: id, Kind: token.Key, Name: "bench", Abilities: []string{"convert"},
		Hint: token.Hint(t.Reveal()), CreatedAt: time.Now(),
	}
	return &book.Account{
		Account: store.Account{ID: id, Plan: c.Plan, Label: "somebody@example.com", CreatedAt: time.Now()},
		Exists:  true, Keys: []*book.Key{{Key: key, Hash: t.Hash()}},
	}, t.Reveal(), nil
}
