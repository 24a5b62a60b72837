package store

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/contract"
)

// What a store keeps of reports, and for how long.
const (
	// ReportsFor is how many days audit entries and refused calls are kept.
	ReportsFor = contract.ReportDays

	// MaxQueued is how many events wait for delivery at most. One more drops
	// the oldest.
	MaxQueued = 10_000
)

// Refused is how many calls were refused, or would have been in mode shadow.
type Refused struct {
	Day calendar.Day
	// Account is empty for requests whose account is not known.
	Account string
	// Endpoint is empty for requests to no endpoint.
	Endpoint string
	// Code is the code of the refusal.
	Code string
	// Reason is the NoGrant of a token that is not valid, if the store knows
	// the token.
	Reason string
	Calls  int64
}

// Compare orders rows by day, account, endpoint, code and reason.
func (r Refused) Compare(other Refused) int {
	return cmp.Or(cmp.Compare(r.Day, other.Day), cmp.Compare(r.Account, other.Account),
		cmp.Compare(r.Endpoint, other.Endpoint), cmp.Compare(r.Code, other.Code), cmp.Compare(r.Reason, other.Reason))
}

// Entry is one change in the audit log. It has no secrets.
type Entry struct {
	// ID is the position of the entry, about at the time At. The book sets it.
	ID EntryID   `cbor:"-" json:"id"`
	At time.Time `cbor:"1,keyasint" json:"at"`
	// ActorKind is "admin", "application" or "person".
	ActorKind string `cbor:"2,keyasint" json:"actor_kind"`
	// ActorID is empty if it is not known.
	ActorID string `cbor:"3,keyasint,omitempty" json:"actor_id,omitempty"`
	Action  string `cbor:"4,keyasint" json:"action"`
	Account string `cbor:"5,keyasint,omitempty" json:"account,omitempty"`
	// Target is what the change is about besides the account, such as the
	// id of a key. It may be empty.
	Target string `cbor:"6,keyasint,omitempty" json:"target,omitempty"`
	// Before and After are JSON, nil if there is none.
	Before json.RawMessage `cbor:"7,keyasint,omitempty" json:"before,omitempty"`
	After  json.RawMessage `cbor:"8,keyasint,omitempty" json:"after,omitempty"`
	// Reason is why the change was made. It may be empty.
	Reason string `cbor:"9,keyasint,omitempty" json:"reason,omitempty"`
}

// EntryID is the position of an entry in the audit log.
type EntryID struct {
	Milliseconds int64 // since 1970
	Number       int64 // of several in a millisecond
}

// ParseEntryID reads the text of an id.
func ParseEntryID(text string) (id EntryID, err error) {
	ms, number, found := strings.Cut(text, "-")
	if id.Milliseconds, err = strconv.ParseInt(ms, 10, 64); err == nil {
		id.Number, err = strconv.ParseInt(number, 10, 64)
	}
	if !found || err != nil || id.Milliseconds < 0 || id.Number < 0 || id.String() != text {
		return EntryID{}, ErrNotFound
	}
	return id, nil
}

// String returns the text of the id.
func (id EntryID) String() string {
	return strconv.FormatInt(id.Milliseconds, 10) + "-" + strconv.FormatInt(id.Number, 10)
}

// MarshalText implements encoding.TextMarshaler.
func (id EntryID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *EntryID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseEntryID(string(text))
	return err
}

// Compare orders ids by their position.
func (id EntryID) Compare(other EntryID) int {
	return cmp.Or(cmp.Compare(id.Milliseconds, other.Milliseconds), cmp.Compare(id.Number, other.Number))
}

// Next returns the id of an entry at a time, greater than id.
func (id EntryID) Next(at time.Time) EntryID {
	if ms := at.UnixMilli(); ms > id.Milliseconds {
		return EntryID{Milliseconds: ms}
	}
	return EntryID{id.Milliseconds, id.Number + 1}
}

// Event is what the gate publishes, such as that a limit is used up.
type Event struct {
	// ID is the same for all repetitions of an event.
	ID   string `cbor:"1,keyasint" json:"id"`
	Type string `cbor:"2,keyasint" json:"type"`
	// At is when it happened.
	At time.Time `cbor:"3,keyasint" json:"at"`
	// Body is the JSON document to deliver.
	Body json.RawMessage `cbor:"4,keyasint" json:"body"`
	// Queued makes the event wait for delivery.
	Queued bool `cbor:"-" json:"-"`
	// Data is what is new in Body. No store keeps it.
	Data map[string]any `cbor:"-" json:"-"`
	// Known is the time until which the ID is known, at least.
	Known time.Time `cbor:"5,keyasint" json:"known_until"`
}
