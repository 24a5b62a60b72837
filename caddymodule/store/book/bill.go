package book

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Bill is what an account called of an endpoint on a day.
type Bill struct {
	Account  string
	Label    string // empty for a closed account
	Plan     string // the current one, or that of the closed account
	Closed   bool   // of an account that was closed
	Day      calendar.Day
	Endpoint string
	// Calls is the calls by their cost, and Credited how many of them were
	// given back by credits. What limits see is the difference.
	Calls, Credited int64
}

// closedSpace has a row for each account that was closed in the last
// store.CountsFor days. The key is its id.
var closedSpace = Space{Name: "closed"}

// Closed is what is kept of a closed account besides its counts.
type Closed struct {
	Plan string    `cbor:"1,keyasint" json:"plan"`
	At   time.Time `cbor:"2,keyasint" json:"closed_at"`
}

// CloseAccount deletes an account with its keys. What it called stays for
// store.CountsFor days: see Bills. Nothing stays of an account without calls.
// record is called in the same step, with what the account called on the days
// from first to today. Calls that are in flight meanwhile are only in Bills. The
// error is store.ErrNotFound without an account.
func (b *Book) CloseAccount(ctx context.Context, at time.Time, id string, first, today calendar.Day, record func(a *Account, called []Bill)) error {
	a, err := b.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		// An earlier try may have deleted it, but not durably.
		return b.ChangeOne(ctx, at, id, func(*Account) error { return store.ErrNotFound })
	}
	if err == nil {
		err = b.AsStored().moveCredits(ctx, a, totalPrefix)
	}
	if err != nil {
		return err
	}
	called, err := b.billsOf(ctx, []string{id}, map[string]*Account{id: a}, nil, first, today)
	if err != nil {
		return err
	}
	called = slices.DeleteFunc(called, func(bill Bill) bool { return bill.Closed })
	// First, so that no account is missing in Bills. The row of an account that
	// is not deleted changes nothing.
	row := Row{Key: id, Value: encode(Closed{a.Plan, at}), Expires: at.AddDate(0, 0, store.CountsFor)}
	if err := commitOne(ctx, b.Engine, closedSpace, []Write{{Row: row}}); err != nil {
		return err
	}
	err = b.ChangeOne(ctx, at, id, func(a *Account) error {
		if !a.Exists {
			return store.ErrNotFound
		}
		record(a, called)
		a.Exists = false
		return nil
	})
	if err != nil {
		return err
	}
	counts, err := b.CountsOfAccounts(ctx, []string{id}, today-store.CountsFor, today+1)
	if err != nil || len(counts) > 0 {
		return err
	}
	err = commitOne(ctx, b.Engine, closedSpace, []Write{{Row: Row{Key: id}, Check: true, Old: row.Value}})
	if errors.Is(err, ErrConflict) { // another account of the id was closed
		err = nil
	}
	return err
}

// Bills returns what up to limit accounts called on the days from first to
// last, those with ids greater than after, also closed ones. They are in
// ascending order of account, day and endpoint. next is the last of these
// accounts, empty if there are no more.
func (b *Book) Bills(ctx context.Context, after string, limit int, first, last calendar.Day) (list []Bill, next string, err error) {
	// An account that is closed after this is in the rows.
	found, err := b.List(ctx, after, limit+1, false)
	if err != nil {
		return nil, "", err
	}
	rows, err := b.Scan(ctx, limit+1, Range{closedSpace, after + "\x00", ""})
	if err != nil {
		return nil, "", err
	}
	var ids []string
	accounts, closed := map[string]*Account{}, map[string]Closed{}
	for _, a := range found {
		ids = append(ids, a.ID)
		accounts[a.ID] = a
	}
	for _, row := range rows[0] {
		var c Closed
		if err := decode(row.Value, &c); err != nil {
			return nil, "", err
		}
		ids = append(ids, row.Key)
		closed[row.Key] = c
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > limit {
		ids = ids[:limit]
		next = ids[limit-1]
	}
	list, err = b.billsOf(ctx, ids, accounts, closed, first, last)
	return list, next, err
}

// billsOf returns the bills of some ids, in ascending order. Those of a closed
// account come before those of the account that has the id now.
func (b *Book) billsOf(ctx context.Context, ids []string, accounts map[string]*Account, closed map[string]Closed, first, last calendar.Day) (list []Bill, err error) {
	counts, err := b.CountsOfAccounts(ctx, ids, first, last)
	if err != nil {
		return nil, err
	}
	bills := map[Bill]*Bill{} // by the bill without calls
	for _, c := range counts {
		a, key := accounts[c.Account], Bill{Account: c.Account, Day: c.Day, Endpoint: c.Endpoint}
		if key.Closed = a == nil || c.Key == store.Closed || c.Key == store.ClosedCredited; key.Closed {
			key.Plan = closed[c.Account].Plan
		} else {
			key.Label, key.Plan = a.Label, a.Plan
		}
		bill := bills[key]
		if bill == nil {
			bill = new(key)
			bills[key] = bill
		}
		bill.Calls += c.Used
		if c.Key == store.Credited || c.Key == store.ClosedCredited {
			bill.Credited += c.Used
		}
	}
	for _, bill := range bills {
		list = append(list, *bill)
	}
	closedFirst := map[bool]int{true: -1}
	slices.SortFunc(list, func(a, b Bill) int {
		return cmp.Or(
			cmp.Compare(a.Account, b.Account), cmp.Compare(closedFirst[a.Closed], closedFirst[b.Closed]),
			cmp.Compare(a.Day, b.Day), cmp.Compare(a.Endpoint, b.Endpoint),
		)
	})
	return list, nil
}

// dumpClosed calls write with the counts of closed accounts. If another account
// has got an id since the dump began, they have what it called until now.
func (b *Book) dumpClosed(ctx context.Context, ids []string, write func(Piece) error) error {
	last := calendar.UTCDay(b.now()) + 1
	for some := range slices.Chunk(ids, store.MaxBatch) {
		counts, err := b.CountsOfAccounts(ctx, some, last-store.CountsFor-31, last)
		if err != nil {
			return err
		}
		for _, c := range counts {
			if err := write(Piece{Count: &c}); err != nil {
				return err
			}
		}
	}
	return nil
}
