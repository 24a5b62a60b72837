package badgerstore

import (
	"errors"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

func drawTime(t *rapid.T, name string) time.Time {
	return fromNanos(rapid.Int64Range(-1e18, 4e18).Draw(t, name))
}

func drawRecord(t *rapid.T) store.Record {
	text := rapid.String()
	return store.Record{
		Account: "acc_1", Key: text.Draw(t, "key"), KeyName: text.Draw(t, "name"), At: drawTime(t, "at"),
		Endpoint: text.Draw(t, "endpoint"), Method: text.Draw(t, "method"), Path: text.Draw(t, "path"),
		Status: rapid.IntRange(0, 999).Draw(t, "status"), Duration: time.Duration(rapid.Int64().Draw(t, "duration")),
		Code: rapid.SampledFrom([]string{"", "quota_exceeded", "insufficient_scope"}).Draw(t, "code"),
	}
}

func drawLimit(t *rapid.T) store.Limit {
	l := store.Limit{
		Endpoint: rapid.String().Draw(t, "endpoint"), Period: store.Period(rapid.Uint8Range(uint8(store.Second), uint8(store.Month)).Draw(t, "period")),
		Max: rapid.Int64Min(0).Draw(t, "max"), OfKey: rapid.Bool().Draw(t, "of key"),
	}
	if l.Period.IsPace() {
		l.Max = max(1, l.Max)
	}
	return l
}

func drawOverride(t *rapid.T) store.Override {
	return store.Override{
		Limit: drawLimit(t), ExpiresAt: drawTime(t, "expires"), Reason: rapid.String().Draw(t, "reason"), CreatedAt: drawTime(t, "created"),
	}
}

func drawAddr(t *rapid.T) netip.Addr {
	size := rapid.SampledFrom([]int{4, 16}).Draw(t, "size")
	addr, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "address"))
	return addr
}

func drawNetwork(t *rapid.T) netip.Prefix {
	addr := drawAddr(t)
	return netip.PrefixFrom(addr, rapid.IntRange(0, addr.BitLen()).Draw(t, "bits"))
}

// drawList draws nil or a list.
func drawList[E any](t *rapid.T, draw func(*rapid.T) E) (list []E) {
	for range rapid.IntRange(0, 3).Draw(t, "length") {
		list = append(list, draw(t))
	}
	return list
}

// TestRowsRoundTrip: decoding a row returns what was encoded.
func TestRowsRoundTrip(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[a-z]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		account := store.Account{ID: word.Draw(t, "id"), Plan: rapid.String().Draw(t, "plan"), Label: rapid.String().Draw(t, "label"), Disabled: rapid.Bool().Draw(t, "disabled"), CreatedAt: drawTime(t, "created"), Overrides: drawList(t, drawOverride)}
		if got, err := decodeAccount(account.ID, encodeAccount(account)); err != nil || !reflect.DeepEqual(got, account) {
			t.Errorf("account: got %+v, %v, want %+v", got, err, account)
		}

		key := keyRow{Key: store.Key{
			ID: word.Draw(t, "key"), Account: account.ID, Kind: rapid.SampledFrom([]token.Kind{token.Key, token.Login}).Draw(t, "kind"),
			Name: rapid.String().Draw(t, "name"), Abilities: rapid.SliceOfN(word, 1, 5).Draw(t, "abilities"), Hint: rapid.String().Draw(t, "hint"),
			CreatedAt: drawTime(t, "created"), ExpiresAt: drawTime(t, "expires"), RevokedAt: drawTime(t, "revoked"),
			Limits: drawList(t, drawLimit), Addresses: drawList(t, drawNetwork), Root: rapid.StringMatching(`[a-z]{0,4}`).Draw(t, "root"),
		}}
		copy(key.hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		got, err := decodeKey(keyKey(key.Account, key.ID), encodeKey(key))
		if err != nil || !reflect.DeepEqual(got, key) {
			t.Errorf("key: got %+v, %v, want %+v", got, err, key)
		}

		use := keyUse{key: key.ID, at: drawTime(t, "used")}
		if rapid.Bool().Draw(t, "known") {
			use.from = drawAddr(t)
		}
		if got, err := decodeUse(key.ID, encodeUse(use)); err != nil || !reflect.DeepEqual(got, use) {
			t.Errorf("last use: got %+v, %v, want %+v", got, err, use)
		}

		number := rapid.Uint64().Draw(t, "number")
		var calls []store.Record
		for range rapid.IntRange(1, recentPerSlot).Draw(t, "calls") {
			calls = append(calls, drawRecord(t))
		}
		slot, err := decodeSlot(encodeSlot(number, calls))
		if err != nil || slot.number != number {
			t.Errorf("slot: got %+v, %v, want number %d", slot, err, number)
		}
		if got, err := slot.calls.decode("acc_1"); err != nil || !reflect.DeepEqual(got, calls) {
			t.Errorf("calls: got %+v, %v, want %+v", got, err, calls)
		}

		call := store.Call{Account: account.ID, Endpoint: word.Draw(t, "endpoint"), Day: calendar.Day(rapid.Int32Range(0, 1<<20).Draw(t, "day"))}
		holder := ledger.Holder(call.Account, rapid.SampledFrom([]string{"", "key_1"}).Draw(t, "key"))
		name, endpoint, err := parseCountKey(appendCountKey(nil, call.Day, holder, call.Endpoint))
		if err != nil || name != holder || endpoint != call.Endpoint {
			t.Errorf("count: got %q, %q, %v, want %q, %+v", name, endpoint, err, holder, call)
		}
	})
}

// TestSlotBombs: a slot that would decompress to a huge size is refused before
// memory is allocated for it.
func TestSlotBombs(t *testing.T) {
	t.Parallel()
	bomb := encodeSlot(1, []store.Record{{Path: strings.Repeat("/", maxSlotCalls)}})
	if _, err := decodeSlot(bomb); !errors.Is(err, errCorrupt) {
		t.Errorf("got %v, want %v", err, errCorrupt)
	}
}

// TestInvalidFields: a row with a field that no store writes is refused.
func TestInvalidFields(t *testing.T) {
	t.Parallel()
	for _, limit := range []store.Limit{
		{Period: 0, Max: 1}, {Period: store.Month + 1, Max: 1}, {Period: 255, Max: 1},
		{Period: store.Day, Max: -1}, {Period: store.Second, Max: math.MinInt64},
		{Period: store.Second}, {Period: store.Minute}, {Period: store.Hour},
	} {
		if _, err := decodeAccount("acc_1", encodeAccount(store.Account{Overrides: []store.Override{{Limit: limit}}})); !errors.Is(err, errCorrupt) {
			t.Errorf("an override with limit %d for each period %d: got %v, want %v", limit.Max, uint8(limit.Period), err, errCorrupt)
		}
		if _, err := decodeKey(keyKey("acc_1", "key_1"), encodeKey(keyRow{Key: store.Key{Limits: []store.Limit{limit}}})); !errors.Is(err, errCorrupt) {
			t.Errorf("a key with limit %d for each period %d: got %v, want %v", limit.Max, uint8(limit.Period), err, errCorrupt)
		}
	}
	if _, err := decodeKey(keyKey("acc_1", "key_1"), encodeKey(keyRow{Key: store.Key{Addresses: make([]netip.Prefix, 1)}})); !errors.Is(err, errCorrupt) {
		t.Errorf("a key with an invalid network: got %v, want %v", err, errCorrupt)
	}
	none := store.Limit{Period: store.Day}
	if got, err := decodeAccount("acc_1", encodeAccount(store.Account{Overrides: []store.Override{{Limit: none}}})); err != nil || got.Overrides[0].Limit != none {
		t.Errorf("an override that admits no call: got %+v, %v", got, err)
	}
	e := newEncoder()
	e.string("starter")
	e.uint(2)
	e.time(time.Unix(1, 0))
	e.string("")
	if _, err := decodeAccount("acc_1", e.buf); !errors.Is(err, errCorrupt) {
		t.Errorf("an account with disabled 2: got %v, want %v", err, errCorrupt)
	}
	e = newEncoder()
	e.time(time.Unix(1, 0))
	e.string("192.0.2.256")
	if _, err := decodeUse("key_1", e.buf); !errors.Is(err, errCorrupt) {
		t.Errorf("a last use with an invalid address: got %v, want %v", err, errCorrupt)
	}
}

// TestLongestRows: the rows of an account and a key with all that they may
// have do not go to the value log.
func TestLongestRows(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 64)
	limit := store.Limit{Endpoint: name, Period: store.Month, Max: store.Unlimited, OfKey: true}
	override := store.Override{
		Limit: limit, ExpiresAt: fromNanos(math.MaxInt64), CreatedAt: fromNanos(math.MaxInt64),
		Reason: strings.Repeat("\U0010FFFF", 200),
	}
	account := store.Account{Plan: name, Disabled: true, CreatedAt: fromNanos(math.MaxInt64), Overrides: slices.Repeat([]store.Override{override}, store.MaxOverrides)}
	if got := len(encodeAccount(account)); got >= maxValue {
		t.Errorf("the row of an account: got %d bytes, want less than %d", got, maxValue)
	}
	key := keyRow{Key: store.Key{
		Name: strings.Repeat("\U0010FFFF", 64), Abilities: slices.Repeat([]string{name}, 100), Root: name,
		Limits:    slices.Repeat([]store.Limit{limit}, store.MaxKeyLimits),
		Addresses: slices.Repeat([]netip.Prefix{netip.MustParsePrefix("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")}, store.MaxAddresses),
	}}
	if got := len(encodeKey(key)); got >= maxValue {
		t.Errorf("the row of a key: got %d bytes, want less than %d", got, maxValue)
	}
}

// FuzzDecode: decoding any data returns a row or an error.
func FuzzDecode(f *testing.F) {
	limits := []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 5}}
	f.Add(encodeAccount(store.Account{Plan: "starter", Overrides: []store.Override{{Limit: limits[0]}}}))
	f.Add(encodeUse(keyUse{from: netip.MustParseAddr("192.0.2.1")}))
	f.Add(encodeKey(keyRow{Key: store.Key{Root: "key_1", Limits: limits, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}))
	f.Add(encodeAccount(store.Account{Plan: "starter"}))
	f.Add(encodeKey(keyRow{Key: store.Key{Name: "ci", Abilities: strings.Fields("convert rates")}}))
	f.Add(encodeSlot(3, []store.Record{{Path: "/"}, {}}))
	f.Fuzz(func(t *testing.T, value []byte) {
		if _, err := decodeAccount("acc_1", value); err == nil && len(value) == 0 {
			t.Error("an empty account was read")
		}
		if s, err := decodeSlot(value); err == nil {
			if list, err := s.calls.decode("acc_1"); err == nil && len(list) > recentPerSlot {
				t.Errorf("a slot of %d calls was read", len(list))
			}
		}
		_, _ = decodeKey([]byte("kacc_1\x00key_1"), value)
		_, _ = decodeKey(append([]byte{prefixKey}, value...), value)
		_, _ = decodeUse("key_1", value)
		_, _ = parseCount(value)
		_, _ = decodeRefused(value, value)
		_, _ = decodeEntry(entryKey(store.EntryID{}), value)
		_, _ = decodeEvent(queuedKey("evt_1"), value)
		_, _ = decodeKnown(knownKey("evt_1"), value)
		_, _, _ = parseCountKey(value)
	})
}
