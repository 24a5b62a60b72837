package store

import (
	"context"
	"encoding/json"
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
	// ID orders the entries: of two, the later one has the greater
	// position. It is the Unix time in milliseconds and a number, such as
	// "1795426000123-0". The store sets it.
	ID string
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

// Audit keeps the changes of accounts and keys, for ReportsFor days.
type Audit interface {
	// AddEntries appends entries and sets their ids. They are durable when
	// it returns.
	AddEntries(ctx context.Context, entries []Entry) error

	// ListEntries returns up to limit entries, oldest first: those since a
	// time, after the entry with the id after unless that is empty, and of
	// one account unless that is empty.
	ListEntries(ctx context.Context, account string, since time.Time, after string, limit int) ([]Entry, error)
}

// Event is something that others want to know, such as a used-up quota.
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
	// Known is until when the store knows the ID, at least.
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
	// those that happened first before the others. They are due again after
	// lease, so that no other gate claims them meanwhile.
	ClaimEvents(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]Event, error)

	// RetryEvent makes a queued event due at another time. It does nothing
	// if the event is not queued.
	RetryEvent(ctx context.Context, id string, due time.Time) error

	// RemoveEvent removes an event from the queue. Its ID stays known.
	RemoveEvent(ctx context.Context, id string) error

	// QueuedEvents returns how many events are queued.
	QueuedEvents(ctx context.Context) (int, error)
}
