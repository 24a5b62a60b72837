package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Dump calls write with all that the engine keeps, with the recent calls that
// are pending, and at the end with the counts and credits of closed accounts. See Engine.Dump.
func (b *Book) Dump(ctx context.Context, write func(Piece) error) error {
	if err := b.recent.Flush(ctx, ""); err != nil {
		return err
	}
	dumped, closed := map[string]bool{}, []string(nil)
	err := b.Engine.Dump(ctx, Spaces(b.now()), func(p Piece) error {
		switch {
		case p.Document != nil:
			dumped[p.Document.ID] = true
		case p.Row != nil && p.Space.Name == closedSpace.Name:
			closed = append(closed, p.Row.Key)
		}
		return write(p)
	})
	if err != nil {
		return err
	}
	return b.dumpClosed(ctx, slices.DeleteFunc(closed, func(id string) bool { return dumped[id] }), write)
}

// Spaces returns the spaces with a name that can have rows at a time.
func Spaces(now time.Time) []Space {
	spaces := []Space{EventSpace, closedSpace, movingSpace, endingSpace, timezoneSpace}
	first, last := refusedDays(now)
	for day := first; day <= last; day++ {
		spaces = append(spaces, RefusedSpace(day))
	}
	return spaces
}

// errUnknownPiece means that a piece has no part or one that this version does
// not know.
var errUnknownPiece = errors.New("unknown kind of data")

// Value returns what a piece has: a Document, a Count, an Entry of the audit
// log, or what is in a row.
func (p Piece) Value() (any, error) {
	switch {
	case p.Document != nil:
		return p.Document, nil
	case p.Count != nil:
		return p.Count, nil
	case p.Entry != nil:
		e, err := decodeEntry(*p.Entry)
		return &e, err
	case p.Row != nil:
		value := newValue(p.Space, p.Row.Key)
		if value == nil {
			return nil, errUnknownPiece
		}
		return value, decode(p.Row.Value, value)
	}
	return nil, errUnknownPiece
}

// newValue returns a pointer to the type of the rows with a key, nil if there
// are no such rows.
func newValue(of Space, key string) any {
	of.Handle = 0
	ofAccount := of.Account != "" && of.Name == ""
	switch {
	case ofAccount && key == callsRow:
		return new([]store.Record)
	case ofAccount && key == usesRow:
		return new(map[string]LastUse)
	case ofAccount && strings.HasPrefix(key, endedPrefix):
		return new(bool)
	case ofAccount && strings.HasPrefix(key, creditPrefix):
		return new(Credit)
	case ofAccount && strings.HasPrefix(key, totalPrefix+" ") && strings.Count(key, " ") == 2:
		return new(int64)
	case ofAccount && strings.HasPrefix(key, topUpPrefix):
		return new(TopUp)
	case of == endingSpace:
		return new(bool)
	case of == movingSpace:
		return new(time.Time)
	case of == closedSpace:
		return new(ClosedAccounts)
	case of.Account == "" && strings.HasPrefix(of.Name, refusedPrefix) && (strings.Count(key, "\x00") == 2 || strings.Count(key, "\x00") == 3):
		return new(int64)
	case of == EventSpace:
		return newEventValue(key)
	case of == timezoneSpace && key == timezoneSpace.Name:
		return new(Timezone)
	}
	return nil
}

// jsonPiece is a piece in JSON.
type jsonPiece struct {
	Account *jsonDocument      `json:"account,omitempty"`
	Count   *store.StoredCount `json:"count,omitempty"`
	Row     *jsonRow           `json:"row,omitempty"`
	Audit   *store.Entry       `json:"audit,omitempty"`
}

type jsonDocument struct {
	store.Account

	Keys   []*Key `json:"keys,omitempty"`
	Logins []*Key `json:"logins,omitempty"`
}

type jsonRow struct {
	Account string          `json:"account,omitempty"`
	Space   string          `json:"space,omitempty"`
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Expires time.Time       `json:"expires,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (p Piece) MarshalJSON() ([]byte, error) {
	value, err := p.Value()
	if err != nil {
		return nil, err
	}
	var j jsonPiece
	switch value := value.(type) {
	case *Account:
		j.Account = &jsonDocument{Account: value.Account}
		for _, k := range value.Keys {
			if k.Kind == token.Login {
				j.Account.Logins = append(j.Account.Logins, k)
			} else {
				j.Account.Keys = append(j.Account.Keys, k)
			}
		}
	case *store.StoredCount:
		j.Count = value
	case *store.Entry:
		j.Audit = value
	default:
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		j.Row = &jsonRow{p.Space.Account, p.Space.Name, p.Row.Key, text, p.Row.Expires}
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements json.Unmarshaler. It refuses unknown members.
func (p *Piece) UnmarshalJSON(text []byte) error {
	var j jsonPiece
	if err := strict(text, &j); err != nil {
		return err
	}
	set := 0
	for _, is := range []bool{j.Account != nil, j.Count != nil, j.Row != nil, j.Audit != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return errUnknownPiece
	}
	*p = Piece{Count: j.Count}
	switch {
	case j.Account != nil:
		p.Document = &Account{Account: j.Account.Account, Exists: true, Keys: slices.Concat(j.Account.Keys, j.Account.Logins)}
		for i, k := range p.Document.Keys {
			if k == nil {
				return errUnknownPiece
			}
			k.Account, k.Kind = p.Document.ID, token.Key
			if i >= len(j.Account.Keys) {
				k.Kind = token.Login
			}
		}
		p.Document.sort()
	case j.Audit != nil:
		p.Entry = &LogEntry{ID: j.Audit.ID, At: j.Audit.At, Value: encode(j.Audit)}
	case j.Row != nil:
		p.Space = Space{Account: j.Row.Account, Name: j.Row.Space}
		value := newValue(p.Space, j.Row.Key)
		if value == nil {
			return errUnknownPiece
		}
		if err := strict(j.Row.Value, value); err != nil {
			return fmt.Errorf("row %.80q: %w", j.Row.Key, err)
		}
		if e, is := value.(*store.Event); is && !strings.HasSuffix(j.Row.Key, " "+e.ID) {
			return fmt.Errorf("row %.80q: another event", j.Row.Key)
		}
		p.Row = &Row{Key: j.Row.Key, Value: encode(value), Expires: j.Row.Expires}
	}
	return nil
}

// strict decodes JSON without unknown members.
func strict(text []byte, value any) error {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(value)
}
