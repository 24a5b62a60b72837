package backup

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const (
	// maxName is the maximum length of the name of a key, and maxText that
	// of other texts for people, in characters. The control API has these
	// limits.
	maxName = 64
	maxText = store.MaxLabel

	// maxEntry is the maximum number of an audit entry. Redis continues it in
	// floating point, which is exact to 2^53.
	maxEntry = 1 << 52

	// The statuses of HTTP.
	minStatus, maxStatus = 100, 999

	// firstDay is that of a clock that begins with 1970, west of Greenwich.
	firstDay calendar.Day = -1
)

// Stores keep times in nanoseconds since 1970. That ends in the year 2262.
var (
	firstTime = time.Unix(0, 0)
	lastTime  = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
	lastDay   = calendar.UTCDay(lastTime)
)

// check refuses an item with values that no gate has written: a store can be
// unable to read them again.
func check(item store.Item) error {
	c := &checker{}
	switch {
	case item.Account != nil:
		c.account(item.Account)
	case item.Key != nil:
		c.key(&item.Key.Key)
	case item.Count != nil:
		c.accountID(item.Count.Account)
		c.optional("key", item.Count.Key)
		c.day(item.Count.Day)
		c.name("endpoint", item.Count.Endpoint)
		c.number("count", item.Count.Used, 0, math.MaxInt64)
	case item.Call != nil:
		c.call(item.Call)
	case item.Refused != nil:
		c.day(item.Refused.Day)
		c.optionalAccount(item.Refused.Account)
		c.optional("endpoint", item.Refused.Endpoint)
		c.name("code", item.Refused.Code)
		c.number("number of calls", item.Refused.Calls, 0, math.MaxInt64)
	case item.Entry != nil:
		c.entry(item.Entry)
	case item.Event != nil:
		c.event(item.Event)
	}
	return c.err
}

// checker keeps the first invalid value of an item.
type checker struct{ err error }

func (c *checker) valid(ok bool, what string, value any) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("invalid %s %.100q", what, fmt.Sprint(value))
	}
}

func (c *checker) account(a *store.Account) {
	c.accountID(a.ID)
	c.name("plan", a.Plan)
	c.text("label", a.Label, maxText)
	c.time(a.CreatedAt)
	c.valid(len(a.Overrides) <= store.MaxOverrides, "number of overrides", len(a.Overrides))
	var limits []store.Limit
	for _, o := range a.Overrides {
		c.valid(!o.OfKey, "override of a key", o.Endpoint)
		c.text("reason", o.Reason, maxText)
		c.time(o.ExpiresAt, o.CreatedAt)
		limits = append(limits, o.Limit)
	}
	c.limits(limits)
}

func (c *checker) key(k *store.Key) {
	c.name("key", k.ID)
	c.accountID(k.Account)
	c.text("name", k.Name, maxName)
	for _, ability := range k.Abilities {
		c.name("ability", ability)
	}
	c.text("hint", k.Hint, maxText)
	c.time(k.CreatedAt, k.ExpiresAt, k.RevokedAt, k.LastUsedAt)
	c.valid(len(k.Days) <= store.KeyDays, "number of days", len(k.Days))
	for _, d := range k.Days {
		c.day(d.Day)
		c.number("number of calls", d.Calls, 0, math.MaxInt64)
		c.number("number of calls", d.Refused, 0, math.MaxInt64)
	}
	c.valid(len(k.Limits) <= store.MaxKeyLimits, "number of limits", len(k.Limits))
	c.limits(k.Limits)
	c.valid(len(k.Addresses) <= store.MaxAddresses, "number of addresses", len(k.Addresses))
	c.valid(!slices.ContainsFunc(k.Addresses, func(p netip.Prefix) bool { return !p.IsValid() }), "addresses", k.Addresses)
	c.optional("root", k.Root)
}

func (c *checker) limits(limits []store.Limit) {
	for i, l := range limits {
		c.name("endpoint", l.Endpoint)
		c.valid(policy.CheckLimit(l) == nil, "limit", l.Max)
		c.valid(!slices.ContainsFunc(limits[:i], l.Same), "second limit of", l.Endpoint)
	}
}

// call checks a recent call. Its duration can be negative: the clock of a
// server can be set.
func (c *checker) call(r *store.Record) {
	c.accountID(r.Account)
	c.optional("key", r.Key)
	c.text("name", r.KeyName, maxName)
	c.time(r.At)
	c.name("endpoint", r.Endpoint)
	c.text("method", r.Method, maxText)
	c.number("status", int64(r.Status), minStatus, maxStatus)
	c.optional("code", r.Code)
}

func (c *checker) entry(e *store.Entry) {
	c.valid(e.ID != store.EntryID{}, "id", e.ID)
	c.number("id", e.ID.Milliseconds, 0, lastTime.UnixMilli())
	c.number("id", e.ID.Number, 0, maxEntry)
	c.time(e.At)
	c.valid(slices.Contains([]string{api.ActorAdmin, api.ActorApplication, api.ActorPerson}, e.ActorKind), "kind of actor", e.ActorKind)
	c.text("actor", e.ActorID, api.MaxActor)
	c.name("action", e.Action)
	c.optionalAccount(e.Account)
	c.text("target", e.Target, maxText)
	c.document(e.Before)
	c.document(e.After)
}

func (c *checker) event(e *store.Event) {
	c.name("id", e.ID)
	c.optional("type", e.Type)
	c.time(e.At, e.Known, e.Due)
	c.number("number of attempts", int64(e.Attempts), 0, math.MaxInt32)
}

func (c *checker) accountID(id string) { c.valid(api.ValidAccount(id), "account", id) }

func (c *checker) optionalAccount(id string) {
	c.valid(id == "" || api.ValidAccount(id), "account", id)
}

// name checks a name of the configuration, or a word or an id of the gate:
// all of them have the same characters, and can be parts of keys.
func (c *checker) name(what, name string) { c.valid(policy.ValidName(name), what, name) }

func (c *checker) optional(what, name string) {
	c.valid(name == "" || policy.ValidName(name), what, name)
}

func (c *checker) text(what, text string, most int) {
	c.valid(utf8.ValidString(text) && utf8.RuneCountInString(text) <= most, what, text)
}

func (c *checker) number(what string, n, least, most int64) {
	c.valid(least <= n && n <= most, what, n)
}

func (c *checker) day(d calendar.Day) { c.valid(firstDay <= d && d <= lastDay, "day", d) }

func (c *checker) time(times ...time.Time) {
	for _, t := range times {
		c.valid(t.IsZero() || !t.Before(firstTime) && t.Before(lastTime), "time", t)
	}
}

func (c *checker) document(text []byte) {
	c.valid(len(text) == 0 || json.Valid(text), "document", string(text))
}
