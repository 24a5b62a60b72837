package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// exceeded is the threshold of QuotaExceeded in a message. All of the limit
// is used, or the call costs more than what is left.
const exceeded = 100

// knownFor is how long the store knows an event at least, after the end of
// its period or after its change.
const knownFor = 7 * 24 * time.Hour

// message is an event as others get it.
type message struct {
	id   string
	kind string
	at   time.Time
	// known is until when the store knows the id.
	known time.Time
	data  map[string]any
}

// quotaKey identifies the event of a quota.
type quotaKey struct {
	kind, account, endpoint string
	period                  store.Period
	start                   int64
	threshold               int
}

func (q Quota) key() quotaKey {
	k := quotaKey{QuotaWarning, q.Account, q.Endpoint, q.Period, q.Start.Unix(), q.Threshold}
	if q.Threshold == 0 {
		k.kind, k.threshold = QuotaExceeded, exceeded
	}
	return k
}

// id returns the id of the event. The name of the period is a part of it: a
// day and a month can begin at the same time.
func (k quotaKey) id() string {
	return newID(k.kind, k.account, k.endpoint, k.period.String(), strconv.FormatInt(k.start, 10), strconv.Itoa(k.threshold))
}

// newID derives an id from what makes an event unique. No part has a NUL.
func newID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "evt_" + hex.EncodeToString(sum[:16])
}

func (q Quota) message() message {
	k := q.key()
	return message{k.id(), k.kind, q.At.Truncate(time.Millisecond), q.End.Add(knownFor), map[string]any{
		"account": q.Account, "plan": q.Plan, "endpoint": q.Endpoint, "period": q.Period.String(), "limit": q.Limit,
		"used": q.Used, "threshold": k.threshold, "resets_at": q.End,
	}}
}

// id returns the id of the event. A key is created and revoked only once, so
// requests that revoke it at the same time make one event.
func (c Change) id() string {
	if c.Key != "" {
		return newID(c.Type, c.Account, c.Key)
	}
	return newID(c.Type, c.ID)
}

func (c Change) message() message {
	data := map[string]any{"account": c.Account}
	for name, value := range map[string]string{"plan": c.Plan, "key": c.Key, "name": c.KeyName} {
		if value != "" {
			data[name] = value
		}
	}
	if c.Type == AccountChanged {
		data["disabled"] = c.Disabled
	}
	if c.Deleted {
		data["deleted"] = true
	}
	return message{c.id(), c.Type, c.At, c.At.Add(knownFor), data}
}

// body returns the JSON document to deliver.
func (m message) body() ([]byte, error) {
	return json.Marshal(struct {
		Type      string         `json:"type"`
		Timestamp time.Time      `json:"timestamp"`
		Data      map[string]any `json:"data"`
	}{m.kind, m.at.UTC(), m.data})
}
