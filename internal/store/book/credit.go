package book

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// ErrOtherCredit means that the id of a credit is that of another credit.
var ErrOtherCredit = errors.New("another credit has this id")

// ErrNothingLeft means that a credit would give nothing back.
var ErrNothingLeft = errors.New("no calls are left to give back")

// Credit gives back calls of an endpoint on a day.
type Credit struct {
	Day      calendar.Day `cbor:"1,keyasint" json:"day"`
	Endpoint string       `cbor:"2,keyasint" json:"endpoint"`
	// Calls is how many calls are to be given back, by their cost.
	Calls int64 `cbor:"3,keyasint" json:"calls"`
	// Credited is how many were given back: at most those that were counted
	// and not credited yet. Book.Credit sets it.
	Credited int64 `cbor:"4,keyasint" json:"credited"`
	// Called is how many calls were made, also those that were given back.
	// Book.Credit sets it. It is not stored.
	Called int64 `cbor:"-" json:"-"`
}

// The rows of credits in an account's space. They stay when the account is closed,
// for all accounts with the id. A total can be ahead of the counters of what is
// credited: then a process ended before it had moved the counts. FinishCredits and
// the next credit of that endpoint and day do it.
const (
	creditPrefix = KeptPrefix + "credit "  // and the id of a credit; its value is the credit
	totalPrefix  = KeptPrefix + "credited" // day and endpoint, each after a space; the sum of all credits
)

// movingSpace has a row for each credit whose counts may not be moved yet. The key
// is the account and a random text. The value is the time of the credit.
var movingSpace = Space{Name: "moving"}

// movingFor is how long a credit takes at most.
const movingFor = time.Minute

// totalsOn is what the keys of the totals of a day begin with, before a space.
func totalsOn(day calendar.Day) string { return totalPrefix + " " + day.String() }

// Credit gives calls of one day back in all limits, those of keys included.
// Paces do not change. A credit with an id that the account had before is made
// once: the result is the same credit again, or ErrOtherCredit if it was for
// another endpoint or number of calls; the day of the first one counts. Without an
// id, several credits can be made at once. Credits that would give nothing back are
// not made: they are returned with ErrNothingLeft. record is called in the step that
// makes the credits, not for a repetition. The error is store.ErrNotFound without an
// account, unless one with the id was closed and has called.
//
// The calls of closed accounts with the id are given back as well, after those of
// the account that has it.
//
// The counts of an endpoint are those of its oldest name, as limits see them.
func (b *Book) Credit(ctx context.Context, at time.Time, account, id string, credits []Credit, record func(a *Account, made []Credit)) (made []Credit, err error) {
	names := b.names.Endpoints
	renamed := func(list []Credit, to func(string) string) []Credit {
		list = slices.Clone(list)
		for i := range list {
			list[i].Endpoint = to(list[i].Endpoint)
		}
		return list
	}
	err = retry(ctx, func() error {
		made, err = b.credit(ctx, at, account, id, renamed(credits, names.Oldest), func(a *Account, made []Credit) {
			record(a, renamed(made, names.Today))
		})
		return err
	})
	return renamed(made, names.Today), err
}

// Reset is Credit for all that an account used of an endpoint on a day, or of all
// endpoints if endpoint is empty. It has no calls of closed accounts. Without calls
// that count it does nothing.
func (b *Book) Reset(ctx context.Context, at time.Time, account, endpoint string, day calendar.Day, record func(a *Account, made []Credit)) error {
	if _, err := b.Get(ctx, account); err != nil {
		return err
	}
	counts, err := b.Counts(ctx, account, "", day, day)
	if err != nil {
		return err
	}
	used := map[string]int64{}
	for _, c := range counts {
		used[b.names.Endpoints.Today(c.Endpoint)] += c.Used
	}
	var credits []Credit
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if used[name] > 0 && (endpoint == "" || name == endpoint) {
			credits = append(credits, Credit{Day: day, Endpoint: name, Calls: used[name]})
		}
	}
	if _, err = b.Credit(ctx, at, account, "", credits, record); errors.Is(err, ErrNothingLeft) {
		return nil // another reset was faster
	}
	return err
}

// credit is one try, with the names of the store.
func (b *Book) credit(ctx context.Context, at time.Time, account, id string, credits []Credit, record func(*Account, []Credit)) (made []Credit, err error) {
	a, err := b.Get(ctx, account)
	if errors.Is(err, store.ErrNotFound) {
		var list ClosedAccounts
		if found, failed := b.readRow(ctx, closedSpace, account, &list); found || failed != nil {
			a, err = &Account{Account: store.Account{ID: account}}, failed
		}
	}
	if err != nil {
		return nil, err
	}
	var before Credit
	made = slices.Clone(credits)
	repeated, err := b.readRow(ctx, Space{Account: account}, creditPrefix+id, &before) // no row without an id
	switch {
	case err != nil:
		return nil, err
	case repeated && (len(made) != 1 || made[0].Endpoint != before.Endpoint || made[0].Calls != before.Calls):
		return nil, ErrOtherCredit
	case repeated:
		made = []Credit{before}
		if _, err := b.setCalled(ctx, account, made); err != nil {
			return nil, err
		}
		return made, b.moveCredits(ctx, a, totalsOn(before.Day))
	case len(made) == 0:
		return nil, nil
	}
	writes, err := b.addToTotals(ctx, at, account, made)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(made, func(c Credit) bool { return c.Credited > 0 }) {
		return made, cmp.Or(b.moveCredits(ctx, a, totalsOn(made[0].Day)), ErrNothingLeft)
	}
	if id != "" {
		row := Row{Key: creditPrefix + id, Value: encode(made[0]), Expires: at.AddDate(0, 0, store.CountsFor)}
		writes = append(writes, Write{Row: row, Check: true})
	}
	// First, so that FinishCredits finds the credit.
	mark := Row{Key: account + " " + rand.Text(), Value: encode(b.now()), Expires: at.AddDate(0, 0, store.CountsFor)}
	if err := commitOne(ctx, b.Engine, movingSpace, []Write{{Row: mark}}); err != nil {
		return nil, err
	}
	// That of the engine, whose ErrConflict is tried again.
	err = b.Engine.Change(ctx, at, []string{account}, func(_ int, a *Account) error {
		a.Rows = append(a.Rows, writes...)
		record(a, made)
		return nil
	})[0]
	if err == nil {
		err = b.moveCredits(ctx, a, totalsOn(made[0].Day))
	}
	if err == nil || errors.Is(err, ErrConflict) {
		// A mark that stays does no harm.
		_ = commitOne(ctx, b.Engine, movingSpace, []Write{{Row: Row{Key: mark.Key}}})
	}
	return made, err
}

// FinishCredits moves the counts of credits in which a gate ended. Another gate may
// be making a credit at the same time: both move the same counts.
func (b *Book) FinishCredits(ctx context.Context) error {
	marks, err := b.Scan(ctx, maxTotals, Range{Space: movingSpace})
	if err != nil {
		return err
	}
	moved := map[string]bool{}
	for _, mark := range marks[0] {
		var began time.Time
		if err := decode(mark.Value, &began); err != nil {
			return fmt.Errorf("row %.80q: %w", mark.Key, err)
		}
		id, _, _ := strings.Cut(mark.Key, " ")
		if !moved[id] {
			a, err := b.Get(ctx, id)
			if errors.Is(err, store.ErrNotFound) {
				a, err = &Account{Account: store.Account{ID: id}}, nil
			}
			if err == nil {
				err = b.moveCredits(ctx, a, totalPrefix)
			}
			if err != nil {
				return err
			}
			moved[id] = true
		}
		if b.now().Sub(began) <= movingFor {
			continue
		}
		if err := commitOne(ctx, b.Engine, movingSpace, []Write{{Row: Row{Key: mark.Key}}}); err != nil {
			return err
		}
	}
	return nil
}

// addToTotals sets how much each of the new credits of a day gives back, and
// returns the writes of the totals with them. A total is kept longer than the
// counts of its day.
func (b *Book) addToTotals(ctx context.Context, at time.Time, account string, credits []Credit) (writes []Write, err error) {
	day, keys := credits[0].Day, make([]string, len(credits))
	for i, c := range credits {
		keys[i] = totalsOn(day) + " " + c.Endpoint
	}
	rows, err := b.GetRows(ctx, Space{Account: account}, keys...)
	if err != nil {
		return nil, err
	}
	credited, err := b.setCalled(ctx, account, credits)
	if err != nil {
		return nil, err
	}
	for i := range credits {
		c, total := &credits[i], int64(0)
		if rows[i].Value != nil {
			if err := decode(rows[i].Value, &total); err != nil {
				return nil, err
			}
		}
		total = max(total, credited[i])
		c.Credited = min(c.Calls, max(0, c.Called-total))
		row := Row{Key: keys[i], Value: encode(total + c.Credited), Expires: at.AddDate(0, 0, store.CountsFor+2)}
		writes = append(writes, Write{Row: row, Check: true, Old: rows[i].Value})
	}
	return writes, nil
}

// setCalled sets Called of credits of a day, and returns how many of these calls
// the counters have as credited.
func (b *Book) setCalled(ctx context.Context, account string, credits []Credit) (credited []int64, err error) {
	counts, err := b.CountsOfAccounts(ctx, []string{account}, credits[0].Day, credits[0].Day)
	credited = make([]int64, len(credits))
	for i := range credits {
		for _, n := range counts {
			if n.Endpoint != credits[i].Endpoint || n.Key == store.OverageKey || n.Key == store.ClosedOverage {
				continue
			}
			credits[i].Called += n.Used
			if n.Key == store.Credited || n.Key == store.ClosedCredited {
				credited[i] += n.Used
			}
		}
	}
	return credited, err
}

// moveCredits moves the counts of the credits in the totals with a prefix. Those
// that were moved before do not change.
func (b *Book) moveCredits(ctx context.Context, a *Account, prefix string) error {
	rows, err := b.Scan(ctx, maxTotals, Range{Space{Account: a.ID}, prefix + " ", prefix + "!"})
	if err != nil {
		return err
	}
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
		if err := b.Engine.Credit(ctx, a.ID, a.Counted(), day, words[2], total); err != nil {
			return err
		}
	}
	return nil
}

// maxTotals is more rows of totals than an account has.
const maxTotals = 1 << 20
