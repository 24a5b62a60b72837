package book

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	// flushEvery is how long a call waits at most.
	flushEvery = 5 * time.Second

	// maxPending is how many bytes of calls are pending or being written, about.
	// With three quarters of it a flush begins at once. Further calls are
	// dropped.
	maxPending = 8 << 20

	// callSize is what a call takes besides its texts, in bytes, about, and
	// useSize what the last use of a key takes.
	callSize = 300
	useSize  = 300

	// mostCalls is how many calls of an account make its list be cut to those
	// that are kept. 100 accounts below it do not begin a flush.
	mostCalls = store.MaxRecent * 3 / 2

	// usedFor is how long the last use of a key is kept after it.
	usedFor = store.CountsFor * 24 * time.Hour

	// maxUses is how many last uses are kept of one account. With more, those
	// of keys that the document no longer has are deleted.
	maxUses = 500
)

// The rows of an account: its recent calls, and the last use of each key.
const (
	callsRow = "calls"
	usesRow  = "uses"
)

// LastUse is when and from where a key was last used. The row of uses has one
// for each id of a key.
type LastUse struct {
	At   time.Time  `cbor:"1,keyasint" json:"at"`
	From netip.Addr `cbor:"2,keyasint" json:"from,omitzero"`
}

// activity is what an account did since the last flush.
type activity struct {
	calls []store.Record     // fewer than mostCalls
	uses  map[string]LastUse // of calls that were cut from the list
	texts int                // of calls, in bytes
	// damaged gets the accounts whose rows are damaged. They stay as they are.
	damaged *outage.Log
}

// Record adds a finished call to the recent calls, and to what its key was
// used for. It never blocks. The record is durable within seconds. Calls that
// end faster than they can be written are dropped.
func (b *Book) Record(r store.Record) {
	b.recent.Add(Space{Account: r.Account, Handle: r.Handle}, func(p Part, full bool) Part {
		if full {
			return p
		}
		a, _ := p.(*activity)
		if a == nil {
			a = &activity{damaged: b.damaged}
		}
		a.add(&r)
		return a
	})
}

func (a *activity) add(r *store.Record) {
	a.calls = append(a.calls, *r)
	c := &a.calls[len(a.calls)-1]
	// They are parts of the request line, which can have a megabyte.
	c.Path, c.Method, c.Handle = strings.Clone(store.CutPath(r.Path)), ownMethod(r.Method), 0
	a.texts += len(c.KeyName) + len(c.Path) + len(c.RequestID)
	if len(a.calls) < mostCalls {
		return
	}
	a.uses = a.lastUses(a.uses)
	// About sorted, which is fast.
	slices.Reverse(a.calls)
	a.calls, a.texts = store.LastCalls(a.calls), 0
	slices.Reverse(a.calls)
	for i := range a.calls {
		a.texts += len(a.calls[i].KeyName) + len(a.calls[i].Path) + len(a.calls[i].RequestID)
	}
}

// ownMethod returns a method as a text of its own, without memory for a common one.
func ownMethod(method string) string {
	switch method {
	case http.MethodGet:
		return http.MethodGet
	case http.MethodPost:
		return http.MethodPost
	}
	return strings.Clone(method)
}

// lastUses adds the last use of each key in calls to uses.
func (a *activity) lastUses(uses map[string]LastUse) map[string]LastUse {
	if uses == nil {
		uses = map[string]LastUse{}
	}
	for i := range a.calls {
		if c := &a.calls[i]; c.Key != "" && c.At.After(uses[c.Key].At) {
			uses[c.Key] = LastUse{c.At, c.From}
		}
	}
	return uses
}

// Size implements Part. It is in bytes, about.
func (a *activity) Size() int {
	return useSize*(1+len(a.uses)) + callSize*len(a.calls) + a.texts
}

// Batch implements Part. Damaged rows stay as they are.
func (a *activity) Batch(ctx context.Context, e Engine, of Space) (Batch, Part, error) {
	b := Batch{Space: of}
	rows, err := e.GetRows(ctx, of, callsRow, usesRow)
	if err != nil {
		return b, nil, err
	}
	calls, err := decodeCalls(of.Account, rows[0])
	uses, err2 := decodeUses(of.Account, rows[1])
	if err = cmp.Or(err, err2); err != nil {
		a.damaged.Failed(slog.String("account", of.Account), slog.Any("error", err))
		return b, nil, nil
	}
	calls = store.LastCalls(append(calls, a.calls...))
	newest := calls[0].At
	put := func(row Row, value any, keep time.Duration) {
		b.Writes = append(b.Writes, Write{Row: Row{Key: row.Key, Value: encode(value), Expires: newest.Add(keep)}, Check: true, Old: row.Value})
	}
	own := a.lastUses(maps.Clone(a.uses))
	if put(rows[0], calls, store.RecentFor+24*time.Hour); len(own) == 0 {
		return b, nil, nil
	}
	for key, use := range own {
		if use.At.After(uses[key].At) {
			uses[key] = use
		}
	}
	maps.DeleteFunc(uses, func(_ string, use LastUse) bool { return newest.Sub(use.At) > usedFor })
	if len(uses) > maxUses {
		document, err := e.Get(ctx, of.Account)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrDamaged) {
			return Batch{Space: of}, nil, nil
		}
		if err != nil {
			return b, nil, err
		}
		maps.DeleteFunc(uses, func(key string, _ LastUse) bool { return document.Find(key) == nil })
	}
	put(rows[1], uses, usedFor)
	return b, nil, nil
}

// Recent returns the account's last calls, newest first, as store.LastCalls
// does, and none older than store.RecentFor. It includes the records of every
// call of Record that returned before.
func (b *Book) Recent(ctx context.Context, account string, now time.Time) ([]store.Record, error) {
	if err := b.recent.Flush(ctx, account); err != nil {
		return nil, err
	}
	rows, err := b.GetRows(ctx, Space{Account: account}, callsRow)
	if err != nil {
		return nil, err
	}
	calls, err := decodeCalls(account, rows[0])
	return slices.DeleteFunc(calls, func(r store.Record) bool { return r.At.Before(now.Add(-store.RecentFor)) }), err
}

// lastUses returns the last use of each key of an account, also of those that
// are pending.
func (b *Book) lastUses(ctx context.Context, account string) (map[string]LastUse, error) {
	if err := b.recent.Flush(ctx, account); err != nil {
		return nil, err
	}
	rows, err := b.GetRows(ctx, Space{Account: account}, usesRow)
	if err != nil {
		return nil, err
	}
	return decodeUses(account, rows[0])
}

func decodeCalls(account string, row Row) (calls []store.Record, err error) {
	if row.Value != nil {
		err = decode(row.Value, &calls)
	}
	if err != nil {
		return nil, fmt.Errorf("recent calls of %.40s: %w", account, err)
	}
	for i := range calls {
		calls[i].Account = account
	}
	return calls, nil
}

func decodeUses(account string, row Row) (uses map[string]LastUse, err error) {
	if row.Value != nil {
		err = decode(row.Value, &uses)
	}
	if err != nil {
		return nil, fmt.Errorf("last uses of keys of %.40s: %w", account, err)
	}
	if uses == nil { // also if the value is null
		uses = map[string]LastUse{}
	}
	return uses, nil
}
