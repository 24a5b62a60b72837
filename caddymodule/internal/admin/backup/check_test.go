package backup_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefusedValues: rows of a file that was edited, with the right checksum.
// No gate writes such values, and a restored store could be unable to read
// them.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	const (
		account = `{"account":{"id":"a","plan":"free"%s}}`
		key     = `{"key":{"id":"key_1","account":"a","kind":"key","hash":"0000000000000000000000000000000000000000000000000000000000000000"%s}}`
		call    = `{"call":{"account":"a","endpoint":"convert","method":"GET","path":"/","status":200,"duration_ns":1%s}}`
		entry   = `{"audit":{"id":"1-0","actor_kind":"admin","action":"key.create"%s}}`
		event   = `{"event":{"id":"evt_1"%s}}`
		count   = `{"count":{"account":"a","day":"2026-11-23","endpoint":"convert","used":1%s}}`
		refused = `{"refused":{"day":"2026-11-23","account":"a","code":"no","calls":1%s}}`
		limit   = `{"endpoint":"convert","period":"day","limit":1,"of_key":true}`
	)
	path := filepath.Join(t.TempDir(), "backup")
	for _, test := range []struct{ row, member, want string }{ // a later member replaces an earlier one
		{account, `"id":""`, `invalid account ""`},
		{account, `"id":"a\u0000b"`, `invalid account "a\x00b"`},
		{account, `"id":".."`, `invalid account ".."`},
		{account, `"plan":"a b"`, `invalid plan "a b"`},
		{account, `"created_at":"1969-12-31T23:59:59Z"`, "invalid time"},
		{account, `"created_at":"2262-01-01T00:00:00Z"`, "invalid time"},
		{account, `"overrides":[{"endpoint":"x","period":"day","limit":-1}]`, `invalid limit "-1"`},
		{account, `"overrides":[{"endpoint":"x","period":"day","limit":1000000000000001}]`, "invalid limit"},
		{account, `"overrides":[{"endpoint":"x","period":"hour","limit":0}]`, `invalid limit "0"`},
		{account, `"overrides":[{"endpoint":"x:y","period":"day","limit":1}]`, `invalid endpoint "x:y"`},
		{account, `"overrides":[{"endpoint":"x","period":"day","limit":1,"expires_at":"9999-01-01T00:00:00Z"}]`, "invalid time"},
		{account, `"overrides":[` + limit + `]`, "invalid override of a key"},
		{key, `"id":"key\u0000"`, `invalid id`},
		{key, `"account":""`, "invalid account"},
		{key, `"name":"` + strings.Repeat("x", 65) + `"`, "invalid name"},
		{key, `"abilities":["a b"]`, `invalid ability "a b"`},
		{key, `"expires_at":"2300-01-01T00:00:00Z"`, "invalid time"},
		{key, `"addresses":[""]`, "invalid addresses"},
		{key, `"limits":[` + limit + `,` + limit + `]`, `invalid second limit of "convert"`},
		{key, `"limits":[` + strings.Repeat(limit+",", 32) + limit + `]`, `invalid number of limits "33"`},
		{key, `"root":"a\u0001b"`, "invalid root"},
		{call, `"account":"/"`, "invalid account"},
		{call, `"key":" "`, "invalid key"},
		{call, `"endpoint":""`, "invalid endpoint"},
		{call, `"status":99`, `invalid status "99"`},
		{call, `"code":"\u0000"`, "invalid code"},
		{call, `"at":"2262-04-12T00:00:00Z"`, "invalid time"},
		{entry, `"id":"9223372036854775807-1"`, "invalid time"},
		{entry, `"id":"1-4503599627370497"`, "invalid id"},
		{entry, `"action":""`, "invalid action"},
		{entry, `"account":"a b"`, "invalid account"},
		{entry, `"before":"{"`, `invalid document "{"`},
		{entry, `"after":"x"`, `invalid document "x"`},
		{event, `"id":"evt\u0000"`, "invalid id"},
		{event, `"type":"a b"`, "invalid type"},
		{event, `"attempts":-1`, `invalid number of attempts "-1"`},
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
	} {
		valid := fmt.Sprintf(test.row, "")
		if got, _, err := read(path, pack(t, first, valid, "end")); err != nil || len(got) != 1 {
			t.Errorf("%s: got %v, %v", valid, got, err)
		}
		_, _, err := read(path, pack(t, first, valid, fmt.Sprintf(test.row, ","+test.member), "end"))
		if err == nil || !strings.Contains(err.Error(), "row 2: "+test.want) {
			t.Errorf("%s with %.60s: got %v, want row 2: %s", valid, test.member, err, test.want)
		}
	}
}
