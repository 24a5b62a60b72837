package backup

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// check refuses an item with values that no gate writes. A store may be unable
// to read them again, or mix up two accounts. The checksum does not help:
// anyone can compute that of an edited file.
func check(item store.Item) error {
	var c checker
	switch {
	case item.Account != nil:
		a := item.Account
		c.account(a.ID)
		c.names("plan", a.Plan)
		c.times(a.CreatedAt)
		var limits []store.Limit
		for _, o := range a.Overrides {
			limits = append(limits, o.Limit)
			c.valid(!o.OfKey, "override of a key", o.Endpoint)
			c.times(o.ExpiresAt, o.CreatedAt)
		}
		c.limits(limits, store.MaxOverrides)
	case item.Key != nil:
		k := item.Key
		c.account(k.Account)
		c.names("id", k.ID)
		c.optional("root", k.Root)
		c.names("ability", k.Abilities...)
		c.valid(len([]rune(k.Name)) <= 64, "name", k.Name)
		c.times(k.CreatedAt, k.ExpiresAt, k.RevokedAt, k.LastUsedAt)
		c.limits(k.Limits, store.MaxKeyLimits)
		c.valid(len(k.Addresses) <= store.MaxAddresses && !slices.ContainsFunc(k.Addresses, func(p netip.Prefix) bool { return !p.IsValid() }), "addresses", k.Addresses)
	case item.Count != nil:
		c.account(item.Count.Account)
		c.optional("key", item.Count.Key)
		c.names("endpoint", item.Count.Endpoint)
		c.number("count", item.Count.Day, item.Count.Used)
	case item.Call != nil:
		c.account(item.Call.Account)
		c.optional("key", item.Call.Key)
		c.names("endpoint", item.Call.Endpoint)
		c.optional("code", item.Call.Code)
		c.times(item.Call.At)
		c.valid(100 <= item.Call.Status && item.Call.Status <= 999, "status", item.Call.Status)
	case item.Refused != nil:
		c.optionalAccount(item.Refused.Account)
		c.optional("endpoint", item.Refused.Endpoint)
		c.names("code", item.Refused.Code)
		c.number("number of calls", item.Refused.Day, item.Refused.Calls)
	case item.Entry != nil:
		e := item.Entry
		c.optionalAccount(e.Account)
		c.names("action", e.Action)
		c.times(e.At, time.UnixMilli(e.ID.Milliseconds))
		c.valid(e.ID.Number <= 1<<52, "id", e.ID) // Redis continues it, exactly up to 2^53
		c.valid(len(e.Before) == 0 || json.Valid(e.Before), "document", string(e.Before))
		c.valid(len(e.After) == 0 || json.Valid(e.After), "document", string(e.After))
	case item.Event != nil:
		c.names("id", item.Event.ID)
		c.optional("type", item.Event.Type)
		c.times(item.Event.At, item.Event.Known, item.Event.Due)
		c.valid(item.Event.Attempts >= 0, "number of attempts", item.Event.Attempts)
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

func (c *checker) account(id string) { c.valid(api.ValidAccount(id), "account", id) }

func (c *checker) optionalAccount(id string) {
	c.valid(id == "" || api.ValidAccount(id), "account", id)
}

// names checks names of the configuration, and codes, actions and ids, which
// have the same characters.
func (c *checker) names(what string, names ...string) {
	for _, name := range names {
		c.valid(policy.ValidName(name), what, name)
	}
}

func (c *checker) optional(what, name string) {
	c.valid(name == "" || policy.ValidName(name), what, name)
}

// number checks a number of a day. Stores keep times in nanoseconds since
// 1970, which ends in 2262. West of Greenwich, a clock begins a day earlier.
func (c *checker) number(what string, day calendar.Day, n int64) {
	c.valid(-1 <= day && day.UTC().Year() < 2262, "day", day)
	c.valid(n >= 0, what, n)
}

func (c *checker) times(times ...time.Time) {
	for _, t := range times {
		c.valid(t.IsZero() || t.Unix() >= 0 && t.UTC().Year() < 2262, "time", t)
	}
}

func (c *checker) limits(limits []store.Limit, most int) {
	c.valid(len(limits) <= most, "number of limits", len(limits))
	for i, l := range limits {
		c.names("endpoint", l.Endpoint)
		c.valid(policy.CheckLimit(l) == nil, "limit", l.Max)
		c.valid(!slices.ContainsFunc(limits[:i], l.Same), "second limit of", l.Endpoint)
	}
}
