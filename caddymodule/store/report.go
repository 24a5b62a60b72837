package store

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
)

// What a store keeps of reports, and for how long.
const (
	// ReportsFor is how many days audit entries and refused calls are kept.
	ReportsFor = 400

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
	Code  string
	Calls int64
}

// Compare orders rows by day, account, endpoint and code.
func (r Refused) Compare(other Refused) int {
	return cmp.Or(cmp.Compare(r.Day, other.Day), cmp.Compare(r.Account, other.Account),
		cmp.Compare(r.Endpoint, other.Endpoint), cmp.Compare(r.Code, other.Code))
}

// Refusals keeps how many calls were refused, for ReportsFor days.
type Refusals interface {
	// AddRefused adds the Calls of each row to what the store has of the
	// same day, account, endpoint and code. The rows differ in one of these.
	// After an error, a part of them may be added.
	AddRefused(ctx context.Context, rows []Refused) error

	// ListRefused returns up to limit rows of the days from first to last,
	// both included, that are after a row, in ascending order of day,
	// account, endpoint and code. The zero Refused is before all rows. With
	// an account, it returns the rows of that account only.
	ListRefused(ctx context.Context, account string, first, last calendar.Day, after Refused, limit int) ([]Refused, error)
}

// Entry is one change in the audit log. It has no secrets.
type Entry struct {
	// ID is the position of the entry, about at the time At. The store sets it.
	ID EntryID
	At time.Time
	// ActorKind is "admin", "application" or "person".
	ActorKind string
	// ActorID is empty if it is not known.
	ActorID string
	Action  string
	Account string
	// Target is what the change is about besides the account, such as the
	// id of a key. It may be empty.
	Target string
	// Before and After are JSON, nil if there is none.
	Before, After json.RawMessage
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

// Audit keeps the changes of accounts and keys, for ReportsFor days.
type Audit interface {
	// AddEntries appends entries and sets their ids. They are durable when
	// it returns.
	AddEntries(ctx context.Context, entries []Entry) error

	// ListEntries returns up to limit entries, oldest first: those since a
	// time, after the position after, and of one account unless account is
	// empty.
	ListEntries(ctx context.Context, account string, since time.Time, after EntryID, limit int) ([]Entry, error)

	// LastEntries is ListEntries from the end: it returns entries newest
	// first, those before a position. The zero EntryID is behind all entries.
	LastEntries(ctx context.Context, account string, since time.Time, before EntryID, limit int) ([]Entry, error)
}

// Event is what the gate publishes, such as that a limit is used up.
type Event struct {
	// ID is the same for all repetitions of an event.
	ID   string
	Type string
	// At is when it happened.
	At time.Time
	// Body is the JSON document to deliver.
	Body []byte
	// Queued makes the event wait for delivery.
	Queued bool
	// Known is the time until which the store knows the ID, at least.
	Known time.Time

	// Attempts is how often the event was claimed. The store sets it.
	Attempts int
	// Due is when the event can be claimed next. The store sets it.
	Due time.Time
}

// Events keeps events until they are delivered. It knows the ids of events
// that were added before, also after they are delivered.
type Events interface {
	// AddEvent adds an event that is due at once, unless the store knows its
	// ID. isNew tells whether it was added, dropped how many other events
	// were removed because more than MaxQueued wait. What it adds survives
	// the end of the process.
	AddEvent(ctx context.Context, event Event) (isNew bool, dropped int, err error)

	// ClaimEvents returns up to limit queued events that are due at now,
	// those that happened first before the others; of many that are due, a
	// store may look only at those that are due longest. They are due again
	// after lease, so that no other gate claims them meanwhile.
	ClaimEvents(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]Event, error)

	// RetryEvent makes a queued event due at another time. It does nothing
	// if the event is not queued.
	RetryEvent(ctx context.Context, id string, due time.Time) error

	// RemoveEvent removes an event from the queue. Its ID stays known.
	RemoveEvent(ctx context.Context, id string) error

	// QueuedEvents returns how many events are queued.
	QueuedEvents(ctx context.Context) (int, error)
}
