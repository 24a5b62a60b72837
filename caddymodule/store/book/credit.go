package book

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// ErrOtherCredit means that the id of a credit is that of another credit.
var ErrOtherCredit = errors.New("another credit has this id")

// Credit gives back calls of an endpoint on a day.
type Credit struct {
	Day      calendar.Day `cbor:"1,keyasint" json:"day"`
	Endpoint string       `cbor:"2,keyasint" json:"endpoint"`
	// Calls is how many calls are to be given back, by their cost.
	Calls int64 `cbor:"3,keyasint" json:"calls"`
	// Credited is how many were given back: at most those that were counted
	// and not credited yet. Book.Credit sets it.
	Credited int64 `cbor:"4,keyasint" json:"credited"`
}

// The rows of credits in an account's space. A total can be ahead of the counter
// of store.Credited: then a process ended before it had moved the counts, and
// the next credit of that endpoint and day does it.
const (
	creditPrefix = "credit "   // and the id of a credit; its value is the credit
	totalPrefix  = "credited " // day, space and endpoint; the sum of all credits
)

func totalRow(day calendar.Day, endpoint string) string {
	return totalPrefix + day.String() + " " + endpoint
}

// Credit gives calls of one day back in all limits, those of keys included.
// Paces do not change. A credit with an id that the account had before is made
// once: the result is the same credit again, or ErrOtherCredit if it was for
// another endpoint or number of calls; the day of the first one counts. Without
// an id, several credits can be made at once. record is called in the step that
// makes the credits, not for a repetition. The error is store.ErrNotFound
// without an account.
//
// The counts of an endpoint are those of its oldest name, as limits see them.
func (b *Book) Credit(ctx context.Context, at time.Time, account, id string, credits []Credit, record func(a *Account, made []Credit)) (made []Credit, err error) {
	names := b.names().Endpoints
	renamed := func(list []Credit, to func(string) string) []Credit {
		list = slices.Clone(list)
		for i := range list {
			list[i].Endpoint = to(list[i].Endpoint)
		}
		return list
	}
	err = retry(ctx, func() error {
		made, err = b.AsStored().credit(ctx, at, account, id, renamed(credits, names.Oldest), func(a *Account, made []Credit) {
			record(a, renamed(made, names.Today))
		})
		return err
	})
	return renamed(made, names.Today), err
}

// Reset is Credit for all that an account used of an endpoint on a day, or of all
// endpoints if endpoint is empty.
func (b *Book) Reset(ctx context.Context, at time.Time, account, endpoint string, day calendar.Day, record func(a *Account, made []Credit)) error {
	counts, err := b.Counts(ctx, account, "", day, day)
	if err != nil {
		return err
	}
	var credits []Credit
	for _, c := range counts {
		if endpoint == "" || c.Endpoint == endpoint {
			credits = append(credits, Credit{Day: day, Endpoint: c.Endpoint, Calls: c.Used})
		}
	}
	_, err = b.Credit(ctx, at, account, "", credits, record)
	return err
}

// credit is one try, with the names of the store.
func (b *Book) credit(ctx context.Context, at time.Time, account, id string, credits []Credit, record func(*Account, []Credit)) ([]Credit, error) {
	a, err := b.Get(ctx, account)
	if err != nil {
		return nil, err
	}
	made := slices.Clone(credits)
	before, err := b.creditOf(ctx, account, id)
	if err != nil {
		return nil, err
	}
	if before != nil {
		if len(made) != 1 || made[0].Endpoint != before.Endpoint || made[0].Calls != before.Calls {
			return nil, ErrOtherCredit
		}
		made[0] = *before
	}
	if len(made) == 0 {
		return nil, nil
	}
	totals, writes, err := b.totals(ctx, account, made, before == nil)
	if err != nil {
		return nil, err
	}
	if before == nil {
		if id != "" {
			row := Row{Key: creditPrefix + id, Value: encode(made[0]), Expires: at.AddDate(0, 0, store.CountsFor)}
			writes = append(writes, Write{Row: row, Check: true})
		}
		// That of the engine, whose ErrConflict is tried again.
		err = b.Engine.Change(ctx, at, []string{account}, func(_ int, a *Account) error {
			if !a.Exists {
				return store.ErrNotFound
			}
			a.Rows = append(a.Rows, writes...)
			record(a, made)
			return nil
		})[0]
		if err != nil {
			return nil, err
		}
	}
	return made, b.Engine.Credit(ctx, account, a.Counted(), made[0].Day, totals)
}

// creditOf returns the credit of an account with an id, nil if there is none.
func (b *Book) creditOf(ctx context.Context, account, id string) (*Credit, error) {
	if id == "" {
		return nil, nil
	}
	rows, err := b.GetRows(ctx, Space{Account: account}, creditPrefix+id)
	if err != nil || rows[0].Value == nil {
		return nil, err
	}
	credit := &Credit{}
	return credit, decode(rows[0].Value, credit)
}

// totals returns what is credited in all of the endpoints of credits. If they are
// new, it includes them: it sets how much each gives back, and returns the writes
// of the new totals.
func (b *Book) totals(ctx context.Context, account string, credits []Credit, isNew bool) (totals map[string]int64, writes []Write, err error) {
	day, keys := credits[0].Day, make([]string, len(credits))
	for i, c := range credits {
		keys[i] = totalRow(day, c.Endpoint)
	}
	rows, err := b.GetRows(ctx, Space{Account: account}, keys...)
	if err != nil {
		return nil, nil, err
	}
	counts, err := b.CountsOfAccounts(ctx, []string{account}, day, day)
	if err != nil {
		return nil, nil, err
	}
	totals = map[string]int64{}
	for i := range credits {
		c := &credits[i]
		var total, called, credited int64
		if rows[i].Value != nil {
			if err := decode(rows[i].Value, &total); err != nil {
				return nil, nil, err
			}
		}
		for _, n := range counts {
			if n.Endpoint == c.Endpoint && (n.Key == "" || n.Key == store.Credited) {
				called += n.Used
				if n.Key == store.Credited {
					credited = n.Used
				}
			}
		}
		total = max(total, credited)
		if isNew {
			c.Credited = min(c.Calls, max(0, called-total))
			total += c.Credited
			row := Row{Key: keys[i], Value: encode(total), Expires: (day + store.CountsFor + 1).UTC()}
			writes = append(writes, Write{Row: row, Check: true, Old: rows[i].Value})
		}
		totals[c.Endpoint] = total
	}
	return totals, writes, nil
}

// finishCredits moves the counts of credits that a process made and did not move
// before it ended.
func (b *Book) finishCredits(ctx context.Context, a *Account) error {
	rows, err := b.Scan(ctx, maxTotals, Range{Space{Account: a.ID}, totalPrefix, totalPrefix + "~"})
	if err != nil {
		return err
	}
	totals := map[calendar.Day]map[string]int64{}
	for _, row := range rows[0] {
		words := strings.Split(row.Key, " ")
		if len(words) != 3 {
			return fmt.Errorf("row %.80q: %w", row.Key, errUnknownPiece)
		}
		day, err := calendar.ParseDay(words[1])
		var total int64
		if err == nil {
			err = decode(row.Value, &total)
		}
		if err != nil {
			return fmt.Errorf("row %.80q: %w", row.Key, err)
		}
		if totals[day] == nil {
			totals[day] = map[string]int64{}
		}
		totals[day][words[2]] = total
	}
	for day, of := range totals {
		if err := b.Engine.Credit(ctx, a.ID, a.Counted(), day, of); err != nil {
			return err
		}
	}
	return nil
}

// maxTotals is more rows of totals than an account has.
const maxTotals = 1 << 20
