package book

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Bill is what an account called of an endpoint on a day.
type Bill struct {
	Account string
	Label   string // empty for a closed account
	Plan    string // the current one, or that of the closed account
	Closed  bool   // of an account that was closed
	Day     calendar.Day
	// Period is the first day of the account's month that has the Day.
	Period   calendar.Day
	Endpoint string
	// Calls is the calls by their cost, and Credited how many of them were
	// given back by credits. What limits see is the difference. Overage is how
	// many of the calls were above a soft limit when they were made.
	Calls, Credited, Overage int64
}

// closedSpace has a row for each id of an account that was closed in the last
// store.CountsFor days: the accounts that had the id, in the order in which they
// were closed. The key is the id.
var closedSpace = Space{Name: "closed"}

// maxClosed is how many closed accounts of an id are told apart at most: the row
// has to fit into memory. The calls of older ones are those of the oldest.
const maxClosed = 100

// Closed is what is kept of a closed account besides its counts.
type Closed struct {
	Plan string    `cbor:"1,keyasint" json:"plan"`
	At   time.Time `cbor:"2,keyasint" json:"closed_at"`
	// CreatedAt is that of the account.
	CreatedAt time.Time `cbor:"3,keyasint" json:"created_at"`
	// Day is the day on which it was closed. Clocks of gates differ, so it can
	// have calls on the next day.
	Day calendar.Day `cbor:"4,keyasint" json:"day"`
	// Before is what closed accounts of the id had called before, on the days that
	// this account can share with the one before it: its Day and those beside it.
	Before []Called `cbor:"5,keyasint,omitempty" json:"before,omitempty"`
	// Billing is that of the account.
	Billing store.Billing `cbor:"6,keyasint,omitzero" json:"billing,omitzero"`
}

// Called is what was called of an endpoint on a day, as in Bill.
type Called struct {
	Day      calendar.Day `cbor:"1,keyasint" json:"day"`
	Endpoint string       `cbor:"2,keyasint" json:"endpoint"`
	Calls    int64        `cbor:"3,keyasint" json:"calls"`
	Credited int64        `cbor:"4,keyasint,omitempty" json:"credited,omitempty"`
	Overage  int64        `cbor:"5,keyasint,omitempty" json:"overage,omitempty"`
}

// ClosedAccounts are the closed accounts of an id. The one that was closed first
// is the first.
type ClosedAccounts []Closed

// without returns the list without an account that is not closed yet.
func (l ClosedAccounts) without(a *Account) ClosedAccounts {
	if n := len(l); n > 0 && l[n-1].CreatedAt.Equal(a.CreatedAt) {
		return l[:n-1]
	}
	return l
}

// row returns the row of an id with the list.
func (l ClosedAccounts) row(id string) Row {
	if len(l) == 0 {
		return Row{Key: id}
	}
	return Row{Key: id, Value: encode(l), Expires: l[len(l)-1].At.AddDate(0, 0, store.CountsFor)}
}

// divide divides what the accounts of the list called of an endpoint on a day, and
// calls fn with the number of each that called it and its part. today is how
// endpoints are named. A credit that was made after an account was closed is that
// of the last one with calls for it.
func (l ClosedAccounts) divide(all Called, today func(string) string, fn func(number int, part Called)) {
	for i := len(l) - 1; i >= 0; i-- {
		var before Called // of the accounts before
		switch {
		case i > 0 && all.Day < l[i-1].Day-1:
			before = all
		case i > 0 && all.Day <= l[i-1].Day+1:
			for _, c := range l[i].Before {
				if c.Day == all.Day && today(c.Endpoint) == all.Endpoint {
					before.Calls, before.Credited, before.Overage = before.Calls+c.Calls, before.Credited+c.Credited, before.Overage+c.Overage
				}
			}
		}
		part := all
		part.Calls = max(0, all.Calls-before.Calls)
		part.Credited = min(part.Calls, max(0, all.Credited-before.Credited))
		part.Overage = max(0, all.Overage-before.Overage)
		if part.Calls > 0 {
			fn(i, part)
		}
		all.Calls, all.Credited, all.Overage = all.Calls-part.Calls, all.Credited-part.Credited, all.Overage-part.Overage
	}
}

// CloseAccount deletes an account with its keys. What it called stays for
// store.CountsFor days: see Bills. Nothing stays of an account without calls.
// record is called in the same step, with what the account called on the days
// from first to today. Calls that are in flight meanwhile are only in Bills. The
// error is store.ErrNotFound without an account, and store.ErrDeclared for one
// that the configuration file declares.
func (b *Book) CloseAccount(ctx context.Context, at time.Time, id string, first, today calendar.Day, record func(a *Account, called []Bill)) error {
	a, err := b.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		// An earlier try may have deleted it, but not durably.
		return b.ChangeOne(ctx, at, id, func(*Account) error { return store.ErrNotFound })
	}
	if err == nil && a.Declared {
		err = store.ErrDeclared
	}
	if err == nil {
		err = b.moveCredits(ctx, a, totalPrefix)
	}
	if err != nil {
		return err
	}
	called, err := b.billsOf(ctx, []string{id}, map[string]*Account{id: a}, nil, first, today)
	if err != nil {
		return err
	}
	called = slices.DeleteFunc(called, func(bill Bill) bool { return bill.Closed })
	// First, so that no account is missing in Bills. A row that lists an account
	// that exists changes nothing.
	var before, listed Row
	err = retry(ctx, func() error {
		before, listed, err = b.listClosed(ctx, a, Closed{Plan: a.Plan, At: at, CreatedAt: a.CreatedAt, Day: today, Billing: a.Billing})
		return err
	})
	if err != nil {
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
	if before.Value != nil { // what those called is told apart by the accounts after them
		return nil
	}
	counts, err := b.CountsOfAccounts(ctx, []string{id}, today-store.CountsFor, today+1)
	if err != nil || slices.ContainsFunc(counts, func(c store.StoredCount) bool { return c.Key == "" || c.Key == store.Credited }) {
		return err
	}
	err = commitOne(ctx, b.Engine, closedSpace, []Write{{Row: before, Check: true, Old: listed.Value}})
	if errors.Is(err, ErrConflict) { // another account of the id was closed
		err = nil
	}
	return err
}

// listClosed adds an account to the closed ones of its id. It returns the row
// without it, and the one with it. The error is ErrConflict if the row was changed
// at the same time.
func (b *Book) listClosed(ctx context.Context, a *Account, closed Closed) (before, listed Row, err error) {
	rows, err := b.GetRows(ctx, closedSpace, a.ID)
	if err != nil {
		return before, listed, err
	}
	var list ClosedAccounts
	if rows[0].Value != nil {
		if err := decode(rows[0].Value, &list); err != nil {
			return before, listed, err
		}
	}
	// An earlier try may have listed it. Those whose counts are gone are dropped.
	list = slices.DeleteFunc(list.without(a), func(c Closed) bool { return c.At.AddDate(0, 0, store.CountsFor+31).Before(closed.At) })
	if n := len(list); n > 0 {
		counts, err := b.CountsOfAccounts(ctx, []string{a.ID}, list[n-1].Day-1, list[n-1].Day+1)
		if err != nil {
			return before, listed, err
		}
		for of, c := range calledOf(counts, store.Renames{}) {
			if of.closed {
				closed.Before = append(closed.Before, c)
			}
		}
	}
	before = list.row(a.ID)
	listed = append(list[max(0, len(list)-maxClosed+1):], closed).row(a.ID)
	return before, listed, commitOne(ctx, b.Engine, closedSpace, []Write{{Row: listed, Check: true, Old: rows[0].Value}})
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
	accounts, closed := map[string]*Account{}, map[string]ClosedAccounts{}
	for _, a := range found {
		ids = append(ids, a.ID)
		accounts[a.ID] = a
	}
	for _, row := range rows[0] {
		var list ClosedAccounts
		if err := decode(row.Value, &list); err != nil {
			return nil, "", err
		}
		ids = append(ids, row.Key)
		closed[row.Key] = list
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > limit {
		ids = ids[:limit]
		next = ids[limit-1]
	}
	list, err = b.billsOf(ctx, ids, accounts, closed, first, last)
	return list, next, err
}

// counter is what calls count on: those of the account that has the id, or had it
// last, or those of the closed accounts before.
type counter struct {
	account, endpoint string
	day               calendar.Day
	closed            bool
}

// calledOf adds up the counts of calls, by the names of today.
func calledOf(counts []store.StoredCount, names store.Renames) map[counter]Called {
	sums := make(map[counter]Called, len(counts))
	for _, c := range counts {
		of := counter{c.Account, names.Today(c.Endpoint), c.Day, c.Key == store.Closed || c.Key == store.ClosedCredited || c.Key == store.ClosedOverage}
		sum := sums[of]
		sum.Day, sum.Endpoint = c.Day, of.endpoint
		switch c.Key {
		case store.OverageKey, store.ClosedOverage:
			sum.Overage += c.Used
		case store.Credited, store.ClosedCredited:
			sum.Credited += c.Used
			fallthrough
		default:
			sum.Calls += c.Used
		}
		sums[of] = sum
	}
	return sums
}

// billsOf returns the bills of some ids, in ascending order. Those of closed
// accounts come before those of the account that has the id now, in the order in
// which they were closed.
func (b *Book) billsOf(ctx context.Context, ids []string, accounts map[string]*Account, closed map[string]ClosedAccounts, first, last calendar.Day) (list []Bill, err error) {
	counts, err := b.CountsOfAccounts(ctx, ids, first, last)
	if err != nil {
		return nil, err
	}
	type numbered struct {
		Bill
		number int // of the account, of those with the id
	}
	var bills []numbered
	for of, called := range calledOf(counts, b.names.Endpoints) {
		bill := Bill{Account: of.account, Day: of.day, Endpoint: of.endpoint, Closed: true}
		before, billing := closed[of.account], store.Billing{}
		if a := accounts[of.account]; a != nil {
			before, bill.Plan, billing = before.without(a), a.Plan, a.Billing
			if !of.closed {
				bill.Label, bill.Closed = a.Label, false
			}
		} else if n := len(before) - 1; n >= 0 {
			before, bill.Plan, billing = before[:n], before[n].Plan, before[n].Billing
		}
		add := func(number int, part Called) {
			bill.Period = billing.Month(bill.Day).First
			bill.Calls, bill.Credited, bill.Overage = part.Calls, part.Credited, min(part.Calls, part.Overage)
			if part.Calls > 0 { // otherwise there is only overage, of calls that were given back
				bills = append(bills, numbered{bill, number})
			}
		}
		switch {
		case !of.closed:
			add(len(before), called)
		case len(before) == 0: // since the row was read, or it has expired
			add(-1, called)
		default:
			before.divide(called, b.names.Endpoints.Today, func(number int, part Called) {
				bill.Plan, billing = before[number].Plan, before[number].Billing
				add(number, part)
			})
		}
	}
	slices.SortFunc(bills, func(a, b numbered) int {
		return cmp.Or(
			cmp.Compare(a.Account, b.Account), cmp.Compare(a.number, b.number),
			cmp.Compare(a.Day, b.Day), cmp.Compare(a.Endpoint, b.Endpoint),
		)
	})
	for _, bill := range bills {
		list = append(list, bill.Bill)
	}
	return list, nil
}

// dumpClosed calls write with the counts and the credits of closed accounts. If another account
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
		for _, id := range some {
			of := Space{Account: id}
			rows, err := b.Scan(ctx, maxTotals, Range{Space: of, From: KeptPrefix})
			if err != nil {
				return err
			}
			for _, row := range rows[0] {
				if err := write(Piece{Space: of, Row: &row}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
