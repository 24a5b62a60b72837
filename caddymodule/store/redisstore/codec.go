package redisstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Values are JSON, so that an operator can read them. Times are nanoseconds
// since 1970, 0 for none.

// state is what the hash of an account has.
type state struct {
	handle, version string // random numbers in decimal
	account         store.Account
}

// exists tells whether there is such an account.
func (s *state) exists() bool { return s.handle != "" }

// overrideRow is a store.Override.
type overrideRow struct {
	Endpoint  string       `json:"e"`
	Period    store.Period `json:"p"`
	Max       int64        `json:"m"`
	ExpiresAt int64        `json:"x,omitempty"`
	Reason    string       `json:"r,omitempty"`
	CreatedAt int64        `json:"c"`
}

// keyRow is a store.Key with the hash of its token.
type keyRow struct {
	Token     token.Hash     `json:"t"`
	Kind      token.Kind     `json:"k"`
	Name      string         `json:"n"`
	Abilities []string       `json:"a"`
	Hint      string         `json:"h"`
	CreatedAt int64          `json:"c"`
	ExpiresAt int64          `json:"x,omitempty"`
	RevokedAt int64          `json:"v,omitempty"`
	Limits    []limitRow     `json:"l,omitempty"`
	Addresses []netip.Prefix `json:"f,omitempty"`
	Root      string         `json:"r,omitempty"`
}

// limitRow is a store.Limit of a key.
type limitRow struct {
	Endpoint string       `json:"e"`
	Period   store.Period `json:"p"`
	Max      int64        `json:"m"`
	OfKey    bool         `json:"k,omitempty"`
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// encodeAccount returns the fields of an account and their values.
func encodeAccount(s *state) ([]string, error) {
	rows := []overrideRow{}
	for _, o := range s.account.Overrides {
		rows = append(rows, overrideRow{o.Endpoint, o.Period, o.Max, nanos(o.ExpiresAt), o.Reason, nanos(o.CreatedAt)})
	}
	overrides, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	disabled := "0"
	if s.account.Disabled {
		disabled = "1"
	}
	return []string{
		"i", s.handle, "v", s.version, "p", s.account.Plan, "d", disabled,
		"c", strconv.FormatInt(nanos(s.account.CreatedAt), 10), "o", string(overrides),
		"l", s.account.Label,
	}, nil
}

// decodeAccount reads the values of the fields i, v, p, d, c, o and l. Rows
// of earlier versions have no l.
func decodeAccount(id string, values []rueidis.RedisMessage) (*state, error) {
	s := &state{}
	if len(values) != 7 {
		return nil, damaged("account "+id, errShort)
	}
	if values[0].IsNil() {
		return s, nil
	}
	text := make([]string, len(values))
	for i := range values {
		if i == len(values)-1 && values[i].IsNil() {
			continue
		}
		var err error
		if text[i], err = values[i].ToString(); err != nil {
			return nil, damaged("account "+id, err)
		}
	}
	created, err := strconv.ParseInt(text[4], 10, 64)
	if err != nil {
		return nil, damaged("account "+id, err)
	}
	var rows []overrideRow
	if err := json.Unmarshal([]byte(text[5]), &rows); err != nil {
		return nil, damaged("account "+id, err)
	}
	s.handle, s.version = text[0], text[1]
	s.account = store.Account{ID: id, Plan: text[2], Label: text[6], Disabled: text[3] == "1", CreatedAt: fromNanos(created)}
	for _, r := range rows {
		s.account.Overrides = append(s.account.Overrides, store.Override{
			Limit: store.Limit{Endpoint: r.Endpoint, Period: r.Period, Max: r.Max}, ExpiresAt: fromNanos(r.ExpiresAt),
			Reason: r.Reason, CreatedAt: fromNanos(r.CreatedAt),
		})
	}
	return s, nil
}

func encodeKey(k *store.Key, hash token.Hash) (string, error) {
	row := keyRow{
		Token: hash, Kind: k.Kind, Name: k.Name, Abilities: k.Abilities, Hint: k.Hint, CreatedAt: nanos(k.CreatedAt),
		ExpiresAt: nanos(k.ExpiresAt), RevokedAt: nanos(k.RevokedAt), Addresses: k.Addresses, Root: k.Root,
	}
	for _, l := range k.Limits {
		row.Limits = append(row.Limits, limitRow{l.Endpoint, l.Period, l.Max, l.OfKey})
	}
	text, err := json.Marshal(row)
	return string(text), err
}

func decodeKey(account, id, text string) (store.Key, token.Hash, error) {
	var row keyRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return store.Key{}, row.Token, damaged("key "+id, err)
	}
	k := store.Key{
		ID: id, Account: account, Kind: row.Kind, Name: row.Name, Abilities: row.Abilities, Hint: row.Hint,
		CreatedAt: fromNanos(row.CreatedAt), ExpiresAt: fromNanos(row.ExpiresAt), RevokedAt: fromNanos(row.RevokedAt),
		Addresses: row.Addresses, Root: row.Root,
	}
	for _, l := range row.Limits {
		k.Limits = append(k.Limits, store.Limit{Endpoint: l.Endpoint, Period: l.Period, Max: l.Max, OfKey: l.OfKey})
	}
	return k, row.Token, nil
}

// encodeUse writes when a key was last used, in microseconds, and from where:
// "1795000000000000 192.0.2.1". The address may be empty.
func encodeUse(k *store.Key) string {
	text := []byte(decimal(k.LastUsedAt.UnixMicro()) + " ")
	if k.LastUsedFrom.IsValid() {
		text = k.LastUsedFrom.AppendTo(text)
	}
	return string(text)
}

// encodeDays writes the calls of a key by day, admitted and refused:
// "20780:12:3 20781:5:0".
func encodeDays(days []store.KeyDay) string {
	var text []byte
	for _, d := range days {
		text = fmt.Appendf(text, "%d:%d:%d ", int32(d.Day), d.Calls, d.Refused)
	}
	return string(bytes.TrimSpace(text))
}

// decodeUse reads what encodeUse and encodeDays write. Both are empty for a key
// that was never used. Older versions wrote no days.
func decodeUse(k *store.Key, use, days string) error {
	if use != "" {
		at, from, _ := strings.Cut(use, " ")
		us, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return damaged("last use of key "+k.ID, err)
		}
		k.LastUsedAt = time.UnixMicro(us).UTC()
		if from != "" {
			if k.LastUsedFrom, err = netip.ParseAddr(from); err != nil {
				return damaged("last use of key "+k.ID, err)
			}
		}
	}
	for field := range strings.FieldsSeq(days) {
		var d store.KeyDay
		if _, err := fmt.Sscanf(field, "%d:%d:%d", &d.Day, &d.Calls, &d.Refused); err != nil {
			return damaged("days of key "+k.ID, err)
		}
		k.Days = append(k.Days, d)
	}
	return nil
}

func damaged(what string, err error) error {
	return unavailable(fmt.Errorf("the server has damaged data: %s: %w", what, err))
}
