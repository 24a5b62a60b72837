package backup

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// row is one line: exactly one member is set. The types of rows are not those
// of the store, so that a change there changes no file.
type row struct {
	Account *accountRow `json:"account,omitempty"`
	Key     *keyRow     `json:"key,omitempty"`
	Count   *countRow   `json:"count,omitempty"`
	Call    *callRow    `json:"call,omitempty"`
	Refused *refusedRow `json:"refused,omitempty"`
	Entry   *entryRow   `json:"audit,omitempty"`
	Event   *eventRow   `json:"event,omitempty"`
}

// errKind means that a row or an item has no part, several, or one that this
// version does not know.
var errKind = errors.New("not exactly one kind of data in a row")

func rowOf(item store.Item) (r row, err error) {
	set := 0
	if item.Account != nil {
		set, r.Account = set+1, accountRowOf(item.Account)
	}
	if item.Key != nil {
		set, r.Key = set+1, keyRowOf(item.Key)
	}
	if c := item.Count; c != nil {
		set, r.Count = set+1, &countRow{c.Account, c.Key, day(c.Day), c.Endpoint, c.Used}
	}
	if item.Call != nil {
		set, r.Call = set+1, callRowOf(item.Call)
	}
	if f := item.Refused; f != nil {
		set, r.Refused = set+1, &refusedRow{day(f.Day), f.Account, f.Endpoint, f.Code, f.Calls}
	}
	if item.Entry != nil {
		set, r.Entry = set+1, entryRowOf(item.Entry)
	}
	if e := item.Event; e != nil {
		set, r.Event = set+1, &eventRow{e.ID, e.Type, e.At.UTC(), e.Body, e.Queued, e.Known.UTC(), e.Attempts, e.Due.UTC()}
	}
	if set != 1 {
		return row{}, errKind
	}
	return r, nil
}

// item returns the item of a row.
func (r *row) item() (item store.Item, err error) {
	set := 0
	if r.Account != nil {
		set++
		item.Account, err = r.Account.account()
	}
	if r.Key != nil {
		set++
		item.Key, err = r.Key.key()
	}
	if c := r.Count; c != nil {
		set, item.Count = set+1, &store.StoredCount{Account: c.Account, Key: c.Key,
			Count: store.Count{Day: calendar.Day(c.Day), Endpoint: c.Endpoint, Used: c.Used}}
	}
	if r.Call != nil {
		set, item.Call = set+1, r.Call.record()
	}
	if f := r.Refused; f != nil {
		set, item.Refused = set+1, &store.Refused{Day: calendar.Day(f.Day), Account: f.Account, Endpoint: f.Endpoint, Code: f.Code, Calls: f.Calls}
	}
	if r.Entry != nil {
		set++
		item.Entry, err = r.Entry.entry()
	}
	if e := r.Event; e != nil {
		set, item.Event = set+1, &store.Event{ID: e.ID, Type: e.Type, At: e.At, Body: e.Body, Queued: e.Queued, Known: e.Known, Attempts: e.Attempts, Due: e.Due}
	}
	if err == nil && set != 1 {
		err = errKind
	}
	return item, err
}

type accountRow struct {
	ID        string        `json:"id"`
	Plan      string        `json:"plan"`
	Label     text          `json:"label,omitzero"`
	Disabled  bool          `json:"disabled,omitempty"`
	CreatedAt time.Time     `json:"created_at,omitzero"`
	Overrides []overrideRow `json:"overrides,omitempty"`
}

type overrideRow struct {
	limitRow
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Reason    text      `json:"reason,omitzero"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

func accountRowOf(a *store.Account) *accountRow {
	r := &accountRow{a.ID, a.Plan, text(a.Label), a.Disabled, a.CreatedAt.UTC(), nil}
	for _, o := range a.Overrides {
		r.Overrides = append(r.Overrides, overrideRow{limitRowOf(o.Limit), o.ExpiresAt.UTC(), text(o.Reason), o.CreatedAt.UTC()})
	}
	return r
}

func (r *accountRow) account() (*store.Account, error) {
	a := &store.Account{ID: r.ID, Plan: r.Plan, Label: string(r.Label), Disabled: r.Disabled, CreatedAt: r.CreatedAt}
	for _, o := range r.Overrides {
		limit, err := o.limit()
		if err != nil {
			return nil, err
		}
		a.Overrides = append(a.Overrides, store.Override{Limit: limit, ExpiresAt: o.ExpiresAt, Reason: string(o.Reason), CreatedAt: o.CreatedAt})
	}
	return a, nil
}

type keyRow struct {
	ID           string         `json:"id"`
	Account      string         `json:"account"`
	Kind         string         `json:"kind"`
	Name         text           `json:"name,omitzero"`
	Abilities    []string       `json:"abilities,omitempty"`
	Hint         text           `json:"hint,omitzero"`
	CreatedAt    time.Time      `json:"created_at,omitzero"`
	ExpiresAt    time.Time      `json:"expires_at,omitzero"`
	RevokedAt    time.Time      `json:"revoked_at,omitzero"`
	LastUsedAt   time.Time      `json:"last_used_at,omitzero"`
	LastUsedFrom netip.Addr     `json:"last_used_from,omitzero"`
	Limits       []limitRow     `json:"limits,omitempty"`
	Addresses    []netip.Prefix `json:"addresses,omitempty"`
	Root         string         `json:"root,omitempty"`
	Hash         string         `json:"hash"`
}

func keyRowOf(k *store.StoredKey) *keyRow {
	r := &keyRow{
		k.ID, k.Account, k.Kind.String(), text(k.Name), k.Abilities, text(k.Hint), k.CreatedAt.UTC(), k.ExpiresAt.UTC(), k.RevokedAt.UTC(),
		k.LastUsedAt.UTC(), k.LastUsedFrom, nil, k.Addresses, k.Root, hex.EncodeToString(k.Hash[:]),
	}
	for _, l := range k.Limits {
		r.Limits = append(r.Limits, limitRowOf(l))
	}
	return r
}

func (r *keyRow) key() (*store.StoredKey, error) {
	k := &store.StoredKey{Key: store.Key{
		ID: r.ID, Account: r.Account, Name: string(r.Name), Abilities: r.Abilities, Hint: string(r.Hint), CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
		RevokedAt: r.RevokedAt, LastUsedAt: r.LastUsedAt, LastUsedFrom: r.LastUsedFrom, Addresses: r.Addresses, Root: r.Root,
	}}
	switch r.Kind {
	case token.Key.String():
		k.Kind = token.Key
	case token.Login.String():
		k.Kind = token.Login
	default:
		return nil, fmt.Errorf("unknown kind of key %q", r.Kind)
	}
	for _, row := range r.Limits {
		limit, err := row.limit()
		if err != nil {
			return nil, err
		}
		k.Limits = append(k.Limits, limit)
	}
	hash, err := hex.DecodeString(r.Hash)
	if err != nil || copy(k.Hash[:], hash) != len(k.Hash) || len(hash) != len(k.Hash) {
		return nil, errors.New("invalid hash of a key")
	}
	return k, nil
}

// limitRow is a limit. Max is nil for no bound.
type limitRow struct {
	Endpoint string `json:"endpoint"`
	Period   string `json:"period"`
	Max      *int64 `json:"limit"`
	OfKey    bool   `json:"of_key,omitempty"`
}

func limitRowOf(l store.Limit) limitRow {
	r := limitRow{Endpoint: l.Endpoint, Period: l.Period.String(), OfKey: l.OfKey}
	if l.Max != store.Unlimited {
		r.Max = &l.Max
	}
	return r
}

func (r *limitRow) limit() (store.Limit, error) {
	period, known := store.ParsePeriod(r.Period)
	if !known {
		return store.Limit{}, fmt.Errorf("unknown period %q", r.Period)
	}
	l := store.Limit{Endpoint: r.Endpoint, Period: period, Max: store.Unlimited, OfKey: r.OfKey}
	if r.Max != nil {
		l.Max = *r.Max
	}
	return l, nil
}

type countRow struct {
	Account  string `json:"account"`
	Key      string `json:"key,omitempty"`
	Day      day    `json:"day"`
	Endpoint string `json:"endpoint"`
	Used     int64  `json:"used"`
}

// callRow is a recent call. The address is that of the key only.
type callRow struct {
	Account     string    `json:"account"`
	Key         string    `json:"key,omitempty"`
	KeyName     text      `json:"key_name,omitzero"`
	At          time.Time `json:"at,omitzero"`
	Endpoint    string    `json:"endpoint"`
	Method      text      `json:"method"`
	Path        text      `json:"path"`
	Status      int       `json:"status"`
	Code        string    `json:"code,omitempty"`
	Nanoseconds int64     `json:"duration_ns"`
}

func callRowOf(c *store.Record) *callRow {
	return &callRow{c.Account, c.Key, text(c.KeyName), c.At.UTC(), c.Endpoint, text(c.Method), text(c.Path), c.Status, c.Code, int64(c.Duration)}
}

func (r *callRow) record() *store.Record {
	return &store.Record{
		Account: r.Account, Key: r.Key, KeyName: string(r.KeyName), At: r.At, Endpoint: r.Endpoint,
		Method: string(r.Method), Path: string(r.Path), Status: r.Status, Code: r.Code, Duration: time.Duration(r.Nanoseconds),
	}
}

type refusedRow struct {
	Day      day    `json:"day"`
	Account  string `json:"account,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	Code     string `json:"code"`
	Calls    int64  `json:"calls"`
}

// entryRow is an audit entry. Before and After are texts, because an encoder
// changes the white space of JSON.
type entryRow struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at,omitzero"`
	ActorKind string    `json:"actor_kind"`
	ActorID   text      `json:"actor_id,omitzero"`
	Action    string    `json:"action"`
	Account   string    `json:"account,omitempty"`
	Target    text      `json:"target,omitzero"`
	Before    text      `json:"before,omitzero"`
	After     text      `json:"after,omitzero"`
}

func entryRowOf(e *store.Entry) *entryRow {
	return &entryRow{e.ID.String(), e.At.UTC(), e.ActorKind, text(e.ActorID), e.Action, e.Account, text(e.Target), text(e.Before), text(e.After)}
}

func (r *entryRow) entry() (*store.Entry, error) {
	id, err := store.ParseEntryID(r.ID)
	if err != nil {
		return nil, fmt.Errorf("invalid id %q of an audit entry", r.ID)
	}
	return &store.Entry{
		ID: id, At: r.At, ActorKind: r.ActorKind, ActorID: string(r.ActorID), Action: r.Action, Account: r.Account,
		Target: string(r.Target), Before: document(r.Before), After: document(r.After),
	}, nil
}

// document returns JSON, nil if there is none.
func document(t text) json.RawMessage {
	if t == "" {
		return nil
	}
	return json.RawMessage(t)
}

// eventRow is an event. Its body is in base64.
type eventRow struct {
	ID       string    `json:"id"`
	Type     string    `json:"type,omitempty"`
	At       time.Time `json:"at,omitzero"`
	Body     []byte    `json:"body,omitempty"`
	Queued   bool      `json:"queued,omitempty"`
	Known    time.Time `json:"known_until,omitzero"`
	Attempts int       `json:"attempts,omitempty"`
	Due      time.Time `json:"due,omitzero"`
}

// day is a calendar.Day as YYYY-MM-DD.
type day calendar.Day

// MarshalText implements encoding.TextMarshaler.
func (d day) MarshalText() ([]byte, error) { return []byte(calendar.Day(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *day) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.DateOnly, string(text))
	if err != nil {
		return fmt.Errorf("invalid day %q", text)
	}
	*d = day(calendar.UTCDay(at))
	return nil
}

// text is a string that clients can choose, such as a path. An encoder would
// replace what is not UTF-8, so such a text is hexadecimal after a NUL. A text
// that begins with NUL itself is written so as well.
type text string

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	s := string(t)
	if !utf8.ValidString(s) || strings.HasPrefix(s, "\x00") {
		s = "\x00" + hex.EncodeToString([]byte(s))
	}
	return json.Marshal(s)
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if digits, coded := strings.CutPrefix(s, "\x00"); coded {
		decoded, err := hex.DecodeString(digits)
		if err != nil {
			return err
		}
		s = string(decoded)
	}
	*t = text(s)
	return nil
}
