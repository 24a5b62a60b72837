package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/backup"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

const first = `{"tollgate_backup":1,"at":"2026-11-23T10:00:00Z"}`

// Rows of a file that was changed: no gate has written such values, and a
// restored store could be unable to read them.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	const (
		account = `{"account":{"id":"a","plan":"free"%s}}`
		key     = `{"key":{"id":"key_1","account":"a","kind":"key","hash":"` + hash + `"%s}}`
		call    = `{"call":{"account":"a","endpoint":"convert","method":"GET","path":"/","status":200,"duration_ns":1%s}}`
		entry   = `{"audit":{"id":"1-0","actor_kind":"admin","action":"key.create"%s}}`
		event   = `{"event":{"id":"evt_1"%s}}`
		count   = `{"count":{"account":"a","day":"2026-11-23","endpoint":"convert","used":1%s}}`
		refused = `{"refused":{"day":"2026-11-23","account":"a","code":"no","calls":1%s}}`
		limits  = `"limits":[{"endpoint":"convert","period":"day","limit":1},{"endpoint":"convert","period":"day","limit":2}]`
	)
	long := func(n int) string { return strings.Repeat("x", n) }
	many := func(n int, format string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return strings.Join(list, ",")
	}
	for _, test := range []struct {
		row, member, want string // a later member replaces an earlier one
	}{
		{account, `"id":""`, `invalid account ""`},
		{account, `"id":"a\u0000b"`, `invalid account "a\x00b"`},
		{account, `"id":"a b"`, `invalid account "a b"`},
		{account, `"id":"` + long(65) + `"`, "invalid account"},
		{account, `"plan":"a b"`, `invalid plan "a b"`},
		{account, `"label":"` + long(201) + `"`, "invalid label"},
		{account, `"created_at":"1969-12-31T23:59:59Z"`, "invalid time"},
		{account, `"created_at":"2262-01-01T00:00:00Z"`, "invalid time"},
		{account, `"created_at":"0001-01-01T00:00:00+01:00"`, "invalid time"},
		{account, `"overrides":[{"endpoint":"x","period":"day","limit":-1}]`, `invalid limit "-1"`},
		{account, `"overrides":[{"endpoint":"x","period":"day","limit":1000000000000001}]`, "invalid limit"},
		{account, `"overrides":[{"endpoint":"x","period":"hour","limit":0}]`, `invalid limit "0"`},
		{account, `"overrides":[{"endpoint":"x:y","period":"day","limit":1}]`, `invalid endpoint "x:y"`},
		{account, `"overrides":[{"endpoint":"x","period":"day","limit":1,"of_key":true}]`, "invalid override of a key"},
		{account, `"overrides":[{"endpoint":"x","period":"day","limit":1,"reason":"` + long(201) + `"}]`, "invalid reason"},
		{account, `"overrides":[{"endpoint":"x","period":"day","limit":1,"expires_at":"9999-01-01T00:00:00Z"}]`, "invalid time"},
		{account, `"overrides":[` + many(65, `{"endpoint":"e%d","period":"day","limit":1}`) + `]`, `invalid number of overrides "65"`},
		{key, `"id":"key\u0000"`, `invalid key`},
		{key, `"account":""`, `invalid account`},
		{key, `"name":"` + long(65) + `"`, "invalid name"},
		{key, `"abilities":["a b"]`, `invalid ability "a b"`},
		{key, `"hint":"` + long(201) + `"`, "invalid hint"},
		{key, `"expires_at":"2300-01-01T00:00:00Z"`, "invalid time"},
		{key, `"addresses":[""]`, "invalid addresses"},
		{key, `"addresses":[` + many(33, `"10.0.0.%d/32"`) + `]`, `invalid number of addresses "33"`},
		{key, `"limits":[` + many(33, `{"endpoint":"e%d","period":"day","limit":1}`) + `]`, `invalid number of limits "33"`},
		{key, limits, `invalid second limit of "convert"`},
		{key, `"root":"a\u0001b"`, "invalid root"},
		{call, `"account":"/"`, "invalid account"},
		{call, `"key":" "`, "invalid key"},
		{call, `"key_name":"` + long(65) + `"`, "invalid name"},
		{call, `"endpoint":""`, "invalid endpoint"},
		{call, `"method":"` + long(201) + `"`, "invalid method"},
		{call, `"status":99`, `invalid status "99"`},
		{call, `"status":1000`, `invalid status "1000"`},
		{call, `"at":"2262-04-12T00:00:00Z"`, "invalid time"},
		{entry, `"id":"9223372036854775807-9223372036854775807"`, `invalid id "9223372036854775807"`},
		{entry, `"id":"1-4503599627370497"`, "invalid id"},
		{entry, `"id":"0-0"`, `invalid id "0-0"`},
		{entry, `"at":"2262-01-01T00:00:00Z"`, "invalid time"},
		{entry, `"actor_kind":"robot"`, `invalid kind of actor "robot"`},
		{entry, `"actor_id":"` + long(201) + `"`, "invalid actor"},
		{entry, `"action":""`, "invalid action"},
		{entry, `"account":"a b"`, "invalid account"},
		{entry, `"target":"` + long(201) + `"`, "invalid target"},
		{entry, `"before":"{"`, `invalid document "{"`},
		{entry, `"after":"x"`, `invalid document "x"`},
		{event, `"id":""`, "invalid id"},
		{event, `"id":"evt\u0000"`, "invalid id"},
		{event, `"type":"a b"`, "invalid type"},
		{event, `"attempts":-1`, `invalid number of attempts "-1"`},
		{event, `"attempts":9223372036854775807`, "invalid number of attempts"},
		{event, `"known_until":"2262-01-01T00:00:00Z"`, "invalid time"},
		{event, `"due":"1969-01-01T00:00:00Z"`, "invalid time"},
		{count, `"account":"a\u0001key_1"`, "invalid account"},
		{count, `"key":"a:b"`, "invalid key"},
		{count, `"endpoint":"*"`, `invalid endpoint "*"`},
		{count, `"used":-1`, `invalid count "-1"`},
		{count, `"day":"0000-01-01"`, `invalid day "0000-01-01"`},
		{count, `"day":"9999-12-31"`, `invalid day "9999-12-31"`},
		{refused, `"calls":-1`, `invalid number of calls "-1"`},
		{refused, `"account":"a\u0000b"`, "invalid account"},
		{refused, `"endpoint":"a\u0000b"`, "invalid endpoint"},
		{refused, `"code":""`, "invalid code"},
		{refused, `"day":"1969-12-30"`, "invalid day"},
	} {
		t.Run(test.want+" "+test.member[:min(40, len(test.member))], func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "backup")
			if got, _, err := read(path, pack(t, first, fmt.Sprintf(test.row, ""), "end")); err != nil || len(got) != 1 {
				t.Fatalf("the row without the member: got %v, %v", got, err)
			}
			_, _, err := read(path, pack(t, first, fmt.Sprintf(test.row, ","+test.member), "end"))
			if err == nil || !strings.Contains(err.Error(), "row 1: "+test.want) {
				t.Errorf("got %v, want row 1: %s", err, test.want)
			}
		})
	}
}

// hash is the hash of a key in a file.
const hash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func TestTooManyEvents(t *testing.T) {
	t.Parallel()
	lines := []string{first}
	for i := range store.MaxQueued + 1 {
		lines = append(lines, fmt.Sprintf(`{"event":{"id":"evt_%d","queued":true}}`, i))
	}
	_, _, err := read(filepath.Join(t.TempDir(), "backup"), pack(t, append(lines, "end")...))
	if err == nil || !strings.Contains(err.Error(), "row 10001: more than 10000 events wait") {
		t.Errorf("got %v", err)
	}
}

// All that a store has passes the checks.
func TestBackupOfStore(t *testing.T) {
	t.Parallel()
	opened, err := badgerstore.Open(t.TempDir(), badgerstore.Options{Reserve: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	storetest.Fill(t, opened)
	var out bytes.Buffer
	if err := backup.Write(context.Background(), &out, time.Now(), opened); err != nil {
		t.Fatal(err)
	}
	got, _, err := read(filepath.Join(t.TempDir(), "backup"), out.Bytes())
	if want := storetest.Export(t, opened); err != nil || len(got) != len(want) {
		t.Errorf("got %d items, %v, want %d", len(got), err, len(want))
	}
}
