// Package event makes, stores, publishes and posts events: an account reaches a
// limit, or an account or a key changes.
//
// An Emitter of an open store makes them: of limits as calls reach them, and of
// changes from the audit log, so none of these is missing. It adds those for the
// webhook to a Queue, and posts what any gate added. Of several gates on a store,
// one posts at a time.
//
// An event has an id that is derived from what happened, so that the same event
// has the same id after a restart and on every gate.
package event

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// The types of events. They are names of Caddy's event system, too.
const (
	QuotaWarning   = "tollgate.quota_warning"
	QuotaExceeded  = "tollgate.quota_exceeded"
	KeyCreated     = "tollgate.key_created"
	KeyRotated     = "tollgate.key_rotated"
	KeyRevoked     = "tollgate.key_revoked"
	KeyExpiring    = "tollgate.key_expiring"
	AccountChanged = "tollgate.account_changed"
	PlanEnded      = "tollgate.plan_ended"
)

// Types lists all types of events.
var Types = []string{QuotaWarning, QuotaExceeded, KeyCreated, KeyRotated, KeyRevoked, KeyExpiring, AccountChanged, PlanEnded}

// Quota is a store.Quota as an event.
type Quota store.Quota

// knownFor is how long the store knows an event at least, after the end of
// its period or after its change.
const knownFor = 7 * 24 * time.Hour

// newEvent returns an event. Its id is derived from the parts, which have no
// NUL. over is the end of its period, or the time of its change.
func newEvent(kind string, at, over time.Time, data map[string]any, parts ...string) *store.Event {
	body, err := json.Marshal(struct {
		Type      string         `json:"type"`
		Timestamp time.Time      `json:"timestamp"`
		Data      map[string]any `json:"data"`
	}{kind, at.UTC(), data})
	if err != nil {
		panic("event: encoding an event: " + err.Error()) // times, numbers and texts always encode
	}
	sum := sha256.Sum256([]byte(kind + "\x00" + strings.Join(parts, "\x00")))
	id := "evt_" + hex.EncodeToString(sum[:16])
	return &store.Event{ID: id, Type: kind, At: at, Body: body, Data: data, Known: over.Add(knownFor)}
}

// exceeded is the threshold of QuotaExceeded in an event. All of the limit
// is used, or the call costs more than what is left.
const exceeded = 100

// quotaKey identifies the event of a quota.
type quotaKey struct {
	kind, account, endpoint string
	period                  store.Period
	start                   int64
	threshold               int
	soft, calls             bool
	limit                   int64 // of a total, which does not renew, but can be raised
}

func (q Quota) key() quotaKey {
	k := quotaKey{QuotaWarning, q.Account, cmp.Or(q.Oldest, q.Endpoint), q.Period, q.Start.Unix(), q.Threshold, q.Soft, q.Calls, 0}
	if q.Threshold == 0 {
		k.kind, k.threshold = QuotaExceeded, exceeded
	}
	if q.Period == store.Total {
		k.limit = q.Limit
	}
	return k
}

// event returns the event of a quota. The name of the period is a part of its
// id: a day and a month can begin at the same time. That of a total is known for as
// long as its calls are counted by day.
func (q Quota) event() *store.Event {
	k, over := q.key(), q.End
	data := map[string]any{
		"account": q.Account, "plan": q.Plan, "endpoint": q.Endpoint, "period": q.Period.String(), "limit": q.Limit,
		"used": q.Used, "threshold": k.threshold, "resets_at": q.End,
	}
	if q.End.IsZero() {
		data["resets_at"], over = nil, q.At.AddDate(0, 0, store.CountsFor)
	}
	parts := []string{k.account, k.endpoint, k.period.String(), strconv.FormatInt(k.start, 10), strconv.Itoa(k.threshold)}
	if k.limit > 0 {
		parts = append(parts, strconv.FormatInt(k.limit, 10))
	}
	for name, is := range map[string]bool{"soft": q.Soft, "calls": q.Calls} { // never both
		if is {
			data[name] = true
			parts = append(parts, name)
		}
	}
	return newEvent(k.kind, q.At.Truncate(time.Millisecond), over, data, parts...)
}

// types are the types of the events of changes, by action. Other changes have
// no event.
var types = map[string]string{
	api.KeyCreate: KeyCreated, api.KeyRotate: KeyRotated, api.KeyRevoke: KeyRevoked,
	api.AccountCreate: AccountChanged, api.AccountSet: AccountChanged, api.AccountDelete: AccountChanged,
}

// ofEntry returns the events of a change. The id of the entry makes those of the
// events.
func ofEntry(e store.Entry) ([]*store.Event, error) {
	kind, text := types[e.Action], e.After
	if kind == "" {
		return nil, nil
	}
	if e.Action == api.AccountDelete {
		text = e.Before
	}
	var state struct {
		Name, Plan string
		Disabled   bool
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("entry %s of the audit log: %w", e.ID, err)
	}
	data := map[string]any{"account": e.Account}
	if kind != AccountChanged {
		data["key"], data["name"] = e.Target, state.Name
		return []*store.Event{newEvent(kind, e.At, e.At, data, e.ID.String())}, nil
	}
	data["plan"], data["disabled"] = state.Plan, state.Disabled
	if e.Action == api.AccountDelete {
		var closed api.ClosedAccount
		if err := json.Unmarshal(e.After, &closed); err != nil && e.After != nil {
			return nil, fmt.Errorf("entry %s of the audit log: %w", e.ID, err)
		}
		data["deleted"], data["month"], data["usage"] = true, closed.Month, closed.Usage
	}
	events := []*store.Event{newEvent(kind, e.At, e.At, data, e.ID.String())}
	// The first change after the end of a plan ends it, so only the entry of the
	// end has an end before it.
	var ended api.Account
	if err := json.Unmarshal(e.Before, &ended); e.Action != api.AccountSet || err != nil || ended.PlanUntil == nil || ended.PlanUntil.After(e.At) {
		return events, nil
	}
	data = map[string]any{"account": e.Account, "plan": ended.Plan, "then": state.Plan, "ended_at": *ended.PlanUntil}
	return append(events, newEvent(PlanEnded, e.At, e.At, data, e.ID.String())), nil
}
