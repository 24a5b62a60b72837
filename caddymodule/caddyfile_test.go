package caddymodule

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// FuzzCaddyfile: what the parser accepts is a configuration that loads,
// and what it refuses it refuses with a line.
func FuzzCaddyfile(f *testing.F) {
	const head = "store badger /srv/gate\nsecret 0123456789abcdef0123456789abcdef\n"
	for _, body := range []string{
		"", "guard /api/ /v2/", "timezone Europe/Berlin", "login POST /login {\nper_client 5 1m\nper_account 10 30s 15m\n}",
		"endpoint a GET /a/{b} {\nability c\n}\nplan p {\na 5\n}", "usage GET /u\nplan p {\nusage unlimited\n}", "plan {", "endpoint", "store badger x {\nsync on\n}",
		"refund never\nerrors pass\nlogin_ttl 2d", "plan \"a b\"", "guard {\n}", "login POST /a\nlogin POST /{b}", "secret {env.X}", "}\n{",
	} {
		f.Add(head + body)
		f.Add(body)
	}
	located := regexp.MustCompile(`Testfile:\d+`)
	f.Fuzz(func(t *testing.T, body string) {
		value, err := parseApp(caddyfile.NewTestDispenser("tollgate {\n"+body+"\n}"), nil)
		if err != nil {
			if !located.MatchString(err.Error()) {
				t.Fatalf("got %v, want a line", err)
			}
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(value.(httpcaddyfile.App).Value))
		decoder.DisallowUnknownFields()
		var app App
		if err := decoder.Decode(&app); err != nil {
			t.Fatal(err)
		}
		if _, err := policy.New(app.Config); err != nil || app.StoreRaw == nil || app.Secret == "" || checkErrors(app.Errors) != nil {
			t.Fatalf("accepted what does not load: %v", err)
		}
	})
}
