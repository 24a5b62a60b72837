package book

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// EventSpace has the rows of events, which package event writes:
//
//	k id    that the id of an event is known, until the row expires
//	q n id  an event that waits for delivery; the numbers ascend in the order in which events are added
//	x t a k that the key k of the account a, which expires, gets an event at the time t
//	c       the entry of the log up to which events were made, and the last number
//
// No row is made from others, so a backup can have rows of several instants.
var EventSpace = Space{Name: "events"}

// newEventValue returns a pointer to the type of the rows with a key, nil if
// there are no such rows.
func newEventValue(key string) any {
	switch {
	case strings.HasPrefix(key, "q "):
		return new(store.Event)
	case strings.HasPrefix(key, "k "), strings.HasPrefix(key, "x "):
		return new(string)
	case key == "c":
		return new([3]int64)
	}
	return nil
}

// QueuedEvents returns how many events wait for delivery, at most one above
// store.MaxQueued, and when the one that waits longest happened.
func (b *Book) QueuedEvents(ctx context.Context) (number int, oldest time.Time, err error) {
	found, err := b.Scan(ctx, store.MaxQueued+1, Range{EventSpace, "q ", "q!"})
	if err != nil {
		return 0, oldest, err
	}
	var first store.Event
	for _, row := range found[0] {
		if DecodeRow(row, &first) == nil { // a damaged one is dropped when it is posted
			break
		}
	}
	return len(found[0]), first.At, nil
}

// EncodeRow returns the value of a row.
func EncodeRow(value any) []byte { return encode(value) }

// DecodeRow reads the value of a row.
func DecodeRow(row Row, value any) error {
	if err := decode(row.Value, value); err != nil {
		return fmt.Errorf("row %.80q: %w", row.Key, err)
	}
	return nil
}
