package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// ahead is how long before its end a key gets an event.
const ahead = 7 * 24 * time.Hour

// Rows of book.EventSpace begin with alarm if they make Expiring look at a key.
// Follow makes one for each expiry that a key gets. So no gate has to read all
// accounts. A row can be out of date: the document of the account decides.
const alarm = "x "

// alarmRow is the key of the row for a key of an account.
func alarmRow(account, key string, expires time.Time) string {
	return alarm + expires.Add(-ahead).UTC().Format(time.RFC3339) + " " + account + " " + key
}

// alarms returns the row for the key in an entry of the log. A key that was created
// for so short a time that its event would come at once has none.
func alarms(e store.Entry) []book.Write {
	var key struct {
		CreatedAt time.Time `json:"created_at"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	switch e.Action {
	case api.KeyCreate, api.KeySet, api.KeyRotate:
	default:
		return nil
	}
	if err := json.Unmarshal(e.After, &key); err != nil || key.ExpiresAt.Sub(key.CreatedAt) <= ahead { // or it never expires
		return nil
	}
	return []book.Write{{Row: book.Row{Key: alarmRow(e.Account, e.Target, key.ExpiresAt), Value: book.EncodeRow(""), Expires: key.ExpiresAt}}}
}

// Expiring adds the events of live keys that expire within a week, once for each
// expiry, and returns those that are new. A key that was replaced has none. posted
// tells whether the webhook gets them, and more whether to call Expiring again.
func (q *Queue) Expiring(ctx context.Context, posted bool) (added []store.Event, more bool, err error) {
	now := q.now()
	found, err := q.Scan(ctx, page, book.Range{Space: book.EventSpace, From: alarm, To: alarm + now.UTC().Format(time.RFC3339) + "!"})
	if err != nil || len(found[0]) == 0 {
		return nil, false, err
	}
	var m made
	for _, row := range found[0] {
		m.writes = append(m.writes, book.Write{Row: book.Row{Key: row.Key}})
		parts := strings.SplitN(row.Key, " ", 4)
		a, err := q.Get(ctx, parts[2])
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, book.ErrDamaged) {
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("reading an account: %w", err)
		}
		k := a.Find(parts[3])
		if k == nil || !k.Live(now) || alarmRow(a.ID, k.ID, k.ExpiresAt) != row.Key ||
			slices.ContainsFunc(a.Keys, func(next *book.Key) bool { return next.Live(now) && next.Replaces(&k.Key) }) {
			continue
		}
		data := map[string]any{"account": a.ID, "key": k.ID, "name": k.Name, "expires_at": k.ExpiresAt}
		event := newEvent(KeyExpiring, now.Truncate(time.Millisecond), k.ExpiresAt, data, a.ID, k.ID, k.ExpiresAt.UTC().Format(time.RFC3339))
		event.Queued = posted
		m.events = append(m.events, *event)
	}
	added, err = q.change(ctx, func(*position) (made, error) { return m, nil })
	return added, len(found[0]) == page && err == nil, err
}
