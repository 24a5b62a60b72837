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
		key     = `{"account":{"id":"a","plan":"free","keys":[{"id":"key_1","hash":"0100000000000000000000000000000000000000000000000000000000000000"%s}]}}`
		login   = `{"account":{"id":"a","plan":"free","logins":[{"id":"key_1","hash":"0100000000000000000000000000000000000000000000000000000000000000"%s}]}}`
		call    = `{"row":{"account":"a","key":"calls","value":[{"endpoint":"convert","method":"GET","path":"/","status":200,"duration_ns":1%s}]}}`
		calls   = `{"row":{"account":"a","key":"calls","value":[]%s}}`
		uses    = `{"row":{"account":"a","key":"uses","value":{"key_1":{"at":"2026-11-23T10:00:00Z"}%s}}}`
		noUses  = `{"row":{"account":"a","key":"uses","value":{}%s}}`
		ended   = `{"row":{"account":"a","key":"ended key_1","value":true%s}}`
		entry   = `{"audit":{"id":"1-0","actor_kind":"admin","action":"key.create"%s}}`
		event   = `{"row":{"space":"events","key":"q 00000000000000000000 evt_1","value":{"id":"evt_1","at":"1970-01-01T00:00:00Z"%s}}}`
		known   = `{"row":{"space":"events","key":"k evt_1","value":""%s}}`
		follow  = `{"row":{"space":"events","key":"c","value":[1,0]%s}}`
		count   = `{"count":{"account":"a","day":"2026-11-23","endpoint":"convert","used":1%s}}`
		refused = `{"row":{"space":"refused 2026-11-23","key":"a\u0000convert\u0000no","value":1%s}}`
		zone    = `{"row":{"space":"timezone","key":"timezone","value":"Europe/Berlin"%s}}`
		limit   = `{"endpoint":"convert","period":"day","limit":1,"of_key":true}`
		aCall   = `{"endpoint":"convert","method":"GET","path":"/","status":200,"duration_ns":1}`
		aKey    = `{"id":"key_2","hash":"0200000000000000000000000000000000000000000000000000000000000000"}`
	)
	var many strings.Builder
	for n := range 1001 {
		fmt.Fprintf(&many, `,"k%d":{}`, n)
	}
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
		{account, `"overrides":[{"endpoint":"x","limit":0}]`, `invalid period "0"`},
		{account, `"overrides":[{"endpoint":"x:y","period":"day","limit":1}]`, `invalid endpoint "x:y"`},
		{account, `"overrides":[{"endpoint":"x","period":"day","limit":1,"expires_at":"9999-01-01T00:00:00Z"}]`, "invalid time"},
		{account, `"overrides":[` + limit + `]`, "invalid override of a key"},
		{account, `"keys":[` + aKey + `],"logins":[` + aKey + `]`, `invalid second key "key_2"`},
		{key, `"id":"key\u0000"`, `invalid id`},
		{key, `"name":"` + strings.Repeat("x", 65) + `"`, "invalid name"},
		{key, `"abilities":["a b"]`, `invalid ability "a b"`},
		{key, `"expires_at":"2300-01-01T00:00:00Z"`, "invalid time"},
		{key, `"addresses":[""]`, "invalid addresses"},
		{key, `"limits":[` + limit + `,` + limit + `]`, `invalid second limit of "convert"`},
		{key, `"limits":[` + strings.Repeat(limit+",", 32) + limit + `]`, `invalid number of limits "33"`},
		{key, `"root":"a\u0001b"`, "invalid root"},
		{key, `"hash":"` + strings.Repeat("0", 64) + `"`, "invalid hash"},
		{login, `"id":""`, "invalid id"},
		{login, `"revoked_at":"1960-01-01T00:00:00Z"`, "invalid time"},
		{call, `"key":" "`, "invalid key"},
		{call, `"endpoint":""`, "invalid endpoint"},
		{call, `"status":99`, `invalid status "99"`},
		{call, `"code":"\u0000"`, "invalid code"},
		{call, `"at":"2262-04-12T00:00:00Z"`, "invalid time"},
		{calls, `"account":"/"`, "invalid account"},
		{calls, `"account":""`, "unknown kind of data"},
		{calls, `"space":"events"`, "unknown kind of data"},
		{calls, `"key":"calls "`, "unknown kind of data"},
		{calls, `"expires":"2262-04-12T00:00:00Z"`, "invalid time"},
		{calls, `"value":[` + strings.Repeat(aCall+",", 100) + aCall + `]`, `invalid number of calls "101"`},
		{uses, `"a b":{}`, `invalid key "a b"`},
		{uses, `"key_2":{"at":"2262-04-12T00:00:00Z"}`, "invalid time"},
		{noUses, `"value":null`, `invalid number of last uses "0"`},
		{uses, strings.TrimPrefix(many.String(), ","), `invalid number of last uses "1002"`},
		{ended, `"key":"ended "`, `invalid id ""`},
		{ended, `"key":"ended a b"`, `invalid id "a b"`},
		{ended, `"account":"a\u0000b"`, "invalid account"},
		{entry, `"id":"9223372036854775807-1"`, "invalid time"},
		{entry, `"id":"1-4503599627370497"`, "invalid id"},
		{entry, `"action":""`, "invalid action"},
		{entry, `"account":"a b"`, "invalid account"},
		{event, `"type":"a b"`, "invalid type"},
		{event, `"attempts":-1`, `invalid number of attempts "-1"`},
		{event, `"due":"1969-01-01T00:00:00Z"`, "invalid time"},
		{event, `"id":"evt_2"`, `row "q 00000000000000000000 evt_1": another event`},
		{event, `"at":"1970-01-01T00:00:01Z"`, `row "q 00000000000000000000 evt_1": another event`},
		{known, `"key":"q 00000000000000000000 evt\u0000","value":{"id":"evt\u0000","at":"1970-01-01T00:00:00Z"}`, "invalid id"},
		{known, `"key":"k evt\u0000"`, "invalid id"},
		{known, `"value":"q 00000000000000000000 evt_1"`, "a row that is made from others"},
		{known, `"key":"d 00000000000000000000 evt_1"`, "a row that is made from others"},
		{known, `"key":"n","value":1`, "a row that is made from others"},
		{follow, `"value":[1,-1]`, "invalid id"},
		{follow, `"value":[1,4503599627370497]`, "invalid id"},
		{follow, `"value":[-1,0]`, "invalid time"},
		{count, `"account":"a\u0001key_1"`, "invalid account"},
		{count, `"key":"a:b"`, "invalid key"},
		{count, `"endpoint":"*"`, `invalid endpoint "*"`},
		{count, `"used":-1`, `invalid count "-1"`},
		{count, `"day":"0000-01-01"`, `invalid day "0000-01-01"`},
		{count, `"day":"9999-12-31"`, `invalid day "9999-12-31"`},
		{zone, `"value":"Mars"`, `invalid time zone "Mars"`},
		{zone, `"value":"Local"`, `invalid time zone "Local"`},
		{zone, `"key":"zone"`, "unknown kind of data"},
		{refused, `"value":-1`, `invalid number of calls "-1"`},
		{refused, `"space":"refused today"`, `invalid space "refused today"`},
		{refused, `"space":"refused 9999-12-31"`, `invalid day "9999-12-31"`},
		{refused, `"account":"a"`, "unknown kind of data"},
		{refused, `"key":"a\u0000convert"`, "invalid key"},
		{refused, `"key":"a\u0000convert\u0000no\u0000revoked\u0000b"`, "invalid key"},
		{refused, `"key":"a\u0000convert\u0000no\u0000"`, "invalid reason"},
		{refused, `"key":"a b\u0000convert\u0000no"`, "invalid account"},
		{refused, `"key":"a\u0000b c\u0000no"`, "invalid endpoint"},
		{refused, `"key":"a\u0000convert\u0000"`, "invalid code"},
	} {
		valid := fmt.Sprintf(test.row, "")
		if _, _, err := read(path, pack(t, first, valid, "end")); err != nil {
			t.Errorf("%s: got %v", valid, err)
		}
		_, _, err := read(path, pack(t, first, valid, fmt.Sprintf(test.row, ","+test.member), "end"))
		if err == nil || !strings.Contains(err.Error(), "row 2: "+test.want) {
			t.Errorf("%s with %.60s: got %v, want row 2: %s", valid, test.member, err, test.want)
		}
	}
}
