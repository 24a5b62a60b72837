package badgerstore

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
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
	}
}

// TestRowsRoundTrip: decoding a row returns what was encoded.
func TestRowsRoundTrip(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[a-z]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		account := store.Account{ID: word.Draw(t, "id"), Plan: rapid.String().Draw(t, "plan"), Disabled: rapid.Bool().Draw(t, "disabled"), CreatedAt: drawTime(t, "created")}
		if got, err := decodeAccount(account.ID, encodeAccount(account)); err != nil || got != account {
			t.Errorf("account: got %+v, %v, want %+v", got, err, account)
		}

		key := keyRow{Key: store.Key{
			ID: word.Draw(t, "key"), Account: account.ID, Kind: rapid.SampledFrom([]token.Kind{token.Key, token.Login}).Draw(t, "kind"),
			Name: rapid.String().Draw(t, "name"), Abilities: rapid.SliceOfN(word, 1, 5).Draw(t, "abilities"), Hint: rapid.String().Draw(t, "hint"),
			CreatedAt: drawTime(t, "created"), ExpiresAt: drawTime(t, "expires"), RevokedAt: drawTime(t, "revoked"),
		}}
		copy(key.hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		got, err := decodeKey(keyKey(key.Account, key.ID), encodeKey(key))
		if err != nil || !reflect.DeepEqual(got, key) {
			t.Errorf("key: got %+v, %v, want %+v", got, err, key)
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
		name, endpoint, err := parseCountKey(appendCountKey(nil, call.Day, call.Account, call.Endpoint))
		if err != nil || name != call.Account || endpoint != call.Endpoint {
			t.Errorf("count: got %q, %q, %v, want %+v", name, endpoint, err, call)
		}
	})
}

// TestPlainSlots: slots that an older version wrote are read.
func TestPlainSlots(t *testing.T) {
	t.Parallel()
	call := store.Record{Account: "acc_1", Key: "key_1", At: time.Unix(1, 2).UTC(), Endpoint: "convert", Method: "GET", Path: "/", Status: 200, Duration: 3}
	e := newEncoder()
	e.uint(7)
	e.uint(2)
	for range 2 {
		calls := callList{buf: e.buf}
		calls.add(&call)
		e.buf = calls.buf
	}
	slot, err := decodeSlot(e.buf)
	if err != nil || slot.number != 7 {
		t.Fatalf("got slot %d, %v", slot.number, err)
	}
	if got, err := slot.calls.decode("acc_1"); err != nil || !reflect.DeepEqual(got, []store.Record{call, call}) {
		t.Errorf("got %+v, %v", got, err)
	}
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

// FuzzDecode: decoding any data returns a row or an error.
func FuzzDecode(f *testing.F) {
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
		_, _ = parseCount(value)
		_, _, _ = parseCountKey(value)
	})
}
