package redisstore

import (
	"cmp"
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
	Limits    []store.Limit  `json:"l,omitempty"`
	Addresses []netip.Prefix `json:"f,omitempty"`
	Root      string         `json:"r,omitempty"`
}

func encode(row any) (string, error) {
	text, err := json.Marshal(row)
	return string(text), err
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
	overrides, err := encode(s.account.Overrides)
	if err != nil {
		return nil, err
	}
	disabled := "0"
	if s.account.Disabled {
		disabled = "1"
	}
	return []string{
		"i", s.handle, "v", s.version, "p", s.account.Plan, "d", disabled,
		"c", strconv.FormatInt(nanos(s.account.CreatedAt), 10), "o", overrides,
		"l", s.account.Label,
	}, nil
}

// decodeAccount reads the values of the fields i, v, p, d, c, o and l.
func decodeAccount(id string, reply rueidis.RedisMessage) (*state, error) {
	text, err := reply.AsStrSlice() // a missing field is empty
	if err != nil || len(text) != 7 {
		return nil, damaged("account "+id, cmp.Or(err, errShort))
	}
	s := &state{handle: text[0], version: text[1]}
	if !s.exists() {
		return s, nil
	}
	created, err := strconv.ParseInt(text[4], 10, 64)
	if err != nil {
		return nil, damaged("account "+id, err)
	}
	var overrides []store.Override
	if err := json.Unmarshal([]byte(text[5]), &overrides); err != nil {
		return nil, damaged("account "+id, err)
	}
	for i := range overrides {
		overrides[i].CreatedAt, overrides[i].ExpiresAt = overrides[i].CreatedAt.UTC(), overrides[i].ExpiresAt.UTC()
	}
	s.account = store.Account{ID: id, Plan: text[2], Label: text[6], Disabled: text[3] == "1", CreatedAt: fromNanos(created), Overrides: overrides}
	return s, nil
}

func encodeKey(k *store.Key, hash token.Hash) (string, error) {
	return encode(keyRow{
		hash, k.Kind, k.Name, k.Abilities, k.Hint, nanos(k.CreatedAt), nanos(k.ExpiresAt), nanos(k.RevokedAt), k.Limits, k.Addresses, k.Root,
	})
}

func decodeKey(account, id, text string) (store.Key, token.Hash, error) {
	var row keyRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return store.Key{}, row.Token, damaged("key "+id, err)
	}
	return store.Key{
		ID: id, Account: account, Kind: row.Kind, Name: row.Name, Abilities: row.Abilities, Hint: row.Hint,
		CreatedAt: fromNanos(row.CreatedAt), ExpiresAt: fromNanos(row.ExpiresAt), RevokedAt: fromNanos(row.RevokedAt),
		Limits: row.Limits, Addresses: row.Addresses, Root: row.Root,
	}, row.Token, nil
}

// encodeUse writes the last use of a key, in microseconds, and its address:
// "1795000000000000 192.0.2.1". Without an address it is "-".
func encodeUse(k *store.Key) string {
	from := "-"
	if k.LastUsedFrom.IsValid() {
		from = k.LastUsedFrom.String()
	}
	return fmt.Sprintf("%d %s", k.LastUsedAt.UnixMicro(), from)
}

// decodeUse reads what encodeUse writes. It is empty for a key that was never
// used.
func decodeUse(k *store.Key, use string) error {
	if use == "" {
		return nil
	}
	at, from, _ := strings.Cut(use, " ")
	us, err := strconv.ParseInt(at, 10, 64)
	if err == nil && from != "-" {
		k.LastUsedFrom, err = netip.ParseAddr(from)
	}
	if err != nil {
		return damaged("last use of key "+k.ID, err)
	}
	k.LastUsedAt = time.UnixMicro(us).UTC()
	return nil
}

func damaged(what string, err error) error {
	return unavailable(fmt.Errorf("the server has damaged data: %s: %w", what, err))
}
