package backup

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// check refuses a piece with values that no gate writes. An engine may be
// unable to read them again, or mix up two accounts. The checksum does not
// help: anyone can compute that of an edited file.
func check(p book.Piece) error {
	value, err := p.Value()
	if err != nil {
		return err
	}
	if p.IsDerived() {
		return errors.New("a row that is made from others")
	}
	var c checker
	if p.Row != nil {
		c.optionalAccount(p.Space.Account)
		c.times(p.Row.Expires)
	}
	switch value := value.(type) {
	case *book.Account:
		c.document(value)
	case *store.StoredCount:
		c.account(value.Account)
		if !slices.Contains(store.OwnCounts, value.Key) {
			c.optional("key", value.Key)
		}
		c.names("endpoint", value.Endpoint)
		c.number("count", value.Day, value.Used)
	case *store.Entry:
		c.optionalAccount(value.Account)
		c.names("action", value.Action)
		c.times(value.At)
		c.position(value.ID)
	case *[]store.Record:
		c.calls(*value)
	case *map[string]book.LastUse:
		// A gate adds to the map.
		c.valid(*value != nil && len(*value) <= maxUses, "number of last uses", len(*value))
		for key, use := range *value {
			c.names("key", key)
			c.times(use.At)
		}
	case *book.Credit:
		c.names("endpoint", value.Endpoint)
		c.number("number of calls", value.Day, value.Calls)
		c.number("number of calls", value.Day, value.Credited)
	case *book.ClosedAccounts:
		c.account(p.Row.Key)
		c.closed(*value)
	case *time.Time:
		account, _, _ := strings.Cut(p.Row.Key, " ")
		c.account(account)
		c.times(*value)
	case *int64:
		if p.Space.Account != "" {
			c.credited(p.Row.Key, *value)
		} else {
			c.refused(p, *value)
		}
	case *store.Event:
		c.names("id", value.ID)
		c.optional("type", value.Type)
		c.times(value.At, value.Known, value.Due)
		c.valid(value.Attempts >= 0, "number of attempts", value.Attempts)
	case *[2]int64:
		c.position(store.EntryID{Milliseconds: value[0], Number: value[1]})
	case *book.Timezone:
		_, err := calendar.New(string(*value))
		c.valid(err == nil, "time zone", *value)
	case *bool, *string: // the key has an id
		_, id, _ := strings.Cut(p.Row.Key, " ")
		c.names("id", id)
	}
	return c.err
}

// checker keeps the first invalid value of a piece.
type checker struct{ err error }

func (c *checker) valid(ok bool, what string, value any) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("invalid %s %.100q", what, fmt.Sprint(value))
	}
}

func (c *checker) document(a *book.Account) {
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
	ids := map[string]bool{}
	for _, k := range a.Keys {
		c.valid(!ids[k.ID], "second key", k.ID)
		ids[k.ID] = true
		c.key(k)
	}
}

func (c *checker) key(k *book.Key) {
	c.names("id", k.ID)
	c.optional("root", k.Root)
	c.names("ability", k.Abilities...)
	c.valid(k.Hash != token.Hash{}, "hash", k.Hash)
	c.valid(len([]rune(k.Name)) <= 64, "name", k.Name)
	c.times(k.CreatedAt, k.ExpiresAt, k.RevokedAt)
	c.limits(k.Limits, store.MaxKeyLimits)
	c.valid(len(k.Addresses) <= store.MaxAddresses && !slices.ContainsFunc(k.Addresses, func(p netip.Prefix) bool { return !p.IsValid() }), "addresses", k.Addresses)
}

func (c *checker) calls(calls []store.Record) {
	c.valid(len(calls) <= store.MaxRecent, "number of calls", len(calls))
	for i := range calls {
		c.optional("key", calls[i].Key)
		c.names("endpoint", calls[i].Endpoint)
		c.optional("code", calls[i].Code)
		c.times(calls[i].At)
		c.valid(100 <= calls[i].Status && calls[i].Status <= 999, "status", calls[i].Status)
	}
}

func (c *checker) closed(list book.ClosedAccounts) {
	c.valid(len(list) > 0, "number of closed accounts", len(list))
	for _, closed := range list {
		c.names("plan", closed.Plan)
		c.times(closed.At, closed.CreatedAt)
		c.number("number of calls", closed.Day, 0)
		for _, called := range closed.Before {
			c.names("endpoint", called.Endpoint)
			c.number("number of calls", called.Day, called.Calls)
			c.number("number of calls", called.Day, called.Credited)
		}
	}
}

// credited checks the row of all credits, whose key has a day and an endpoint.
func (c *checker) credited(key string, calls int64) {
	words := strings.Split(key, " ")
	if c.valid(len(words) == 3, "key", key); len(words) == 3 {
		day, err := calendar.ParseDay(words[1])
		c.valid(err == nil, "day", words[1])
		c.names("endpoint", words[2])
		c.number("number of calls", day, calls)
	}
}

// refused checks the row of refused calls, whose key has an account, an
// endpoint, a code and, if there is one, a reason.
func (c *checker) refused(p book.Piece, calls int64) {
	day, isDay := book.RefusedDay(p.Space)
	c.valid(isDay, "space", p.Space.Name)
	c.number("number of calls", day, calls)
	parts := strings.Split(p.Row.Key, "\x00")
	isKey := len(parts) == 3 || len(parts) == 4
	if c.valid(isKey, "key", p.Row.Key); isKey {
		c.optionalAccount(parts[0])
		c.optional("endpoint", parts[1])
		c.names("code", parts[2])
		c.names("reason", parts[3:]...)
	}
}

// position checks a position in the log. Redis continues it, exactly up to
// 2^53.
func (c *checker) position(id store.EntryID) {
	c.times(time.UnixMilli(id.Milliseconds))
	c.valid(0 <= id.Number && id.Number <= 1<<52, "id", id)
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
	c.valid(0 <= n && n <= 1<<53, what, n) // Redis counts exactly up to it
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
		known := store.Second <= l.Period && l.Period <= store.Month
		c.valid(known, "period", uint8(l.Period))
		c.valid(!known || policy.CheckLimit(l) == nil, "limit", l.Max)
		c.valid(!slices.ContainsFunc(limits[:i], l.Same), "second limit of", l.Endpoint)
	}
}
