package book

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
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

// batch returns the writes to the rows of an account.
func (a *activity) batch(ctx context.Context, of Space, p *pending) (Batch, error) {
	b := Batch{Space: of}
	rows, err := a.engine.GetRows(ctx, of, callsRow, usesRow)
	if err != nil {
		return b, err
	}
	calls, err := decodeCalls(of.Account, rows[0].Value)
	if err != nil {
		return b, err
	}
	uses, err := decodeUses(of.Account, rows[1].Value)
	if err != nil {
		return b, err
	}
	calls = store.LastCalls(append(calls, p.calls...))
	newest := calls[0].At
	b.Writes = []Write{{Row: Row{Key: callsRow, Value: encode(calls), Expires: newest.Add(store.RecentFor + 24*time.Hour)}, Check: true, Old: rows[0].Value}}
	if len(p.uses) == 0 {
		return b, nil
	}
	for key, use := range p.uses {
		if use.At.After(uses[key].At) {
			uses[key] = use
		}
	}
	maps.DeleteFunc(uses, func(_ string, use LastUse) bool { return newest.Sub(use.At) > usedFor })
	if len(uses) > maxUses {
		document, err := a.engine.Get(ctx, of.Account)
		if errors.Is(err, store.ErrNotFound) {
			return Batch{Space: of}, nil
		}
		if err != nil {
			return b, err
		}
		maps.DeleteFunc(uses, func(key string, _ LastUse) bool { return document.Find(key) == nil })
	}
	b.Writes = append(b.Writes, Write{Row: Row{Key: usesRow, Value: encode(uses), Expires: newest.Add(usedFor)}, Check: true, Old: rows[1].Value})
	return b, nil
}

// Recent returns the account's last calls, newest first, as store.LastCalls
// does, and none older than store.RecentFor. It includes the records of every
// call of Record that returned before.
func (b *Book) Recent(ctx context.Context, account string, now time.Time) ([]store.Record, error) {
	if err := b.activity.flush(ctx, account); err != nil {
		return nil, err
	}
	rows, err := b.GetRows(ctx, Space{Account: account}, callsRow)
	if err != nil {
		return nil, err
	}
	calls, err := decodeCalls(account, rows[0].Value)
	for i := range calls {
		calls[i].Endpoint = b.names().Endpoints.Today(calls[i].Endpoint)
	}
	return slices.DeleteFunc(calls, func(r store.Record) bool { return r.At.Before(now.Add(-store.RecentFor)) }), err
}

// lastUses returns the last use of each key of an account, also of those that
// are pending.
func (a *activity) lastUses(ctx context.Context, account string) (map[string]LastUse, error) {
	if err := a.flush(ctx, account); err != nil {
		return nil, err
	}
	rows, err := a.engine.GetRows(ctx, Space{Account: account}, usesRow)
	if err != nil {
		return nil, err
	}
	return decodeUses(account, rows[0].Value)
}

func decodeCalls(account string, value []byte) (calls []store.Record, err error) {
	if value == nil {
		return nil, nil
	}
	if err := decode(value, &calls); err != nil {
		return nil, fmt.Errorf("recent calls of %.40s: %w", account, err)
	}
	for i := range calls {
		calls[i].Account = account
	}
	return calls, nil
}

func decodeUses(account string, value []byte) (map[string]LastUse, error) {
	var uses map[string]LastUse
	if value != nil {
		if err := decode(value, &uses); err != nil {
			return nil, fmt.Errorf("last uses of keys of %.40s: %w", account, err)
		}
	}
	if uses == nil { // also if the value is null
		uses = map[string]LastUse{}
	}
	return uses, nil
}
