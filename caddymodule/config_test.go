package caddymodule_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/internal/caddytest"
)

// fullJSON is a configuration as JSON.
const fullJSON = `{"admin":{"disabled":true,"config":{"persist":false}},"apps":{"tollgate":{
	"store":{"module":"badger","directory":"DIR","sync":true},
	"secret":"0123456789abcdef0123456789abcdef",
	"timezone":"Europe/Berlin",
	"guard":["/api/","/v2/"],
	"logins":["POST /api/login","POST /login"],
	"login_throttle":{"per_client":7,"window":"2m0s","free_failures":12,"first_wait":"20s","max_wait":3600000000000},
	"login_ttl":"48h",
	"usage":"GET /api/usage",
	"endpoints":[{"name":"rates","patterns":["GET /api/rates/{base}"],"cost_answer":{"header":"tollgate-cost","scale":1.5,"reserve":50}},{"name":"batch","patterns":["POST /api/batch"],"ability":"rates","upgrade":true,"cost_member":"items","cost_body":1024},
		{"name":"history","patterns":["GET /api/history"],"cost":5}],
	"plans":[{"name":"free"},{"name":"starter","limits":{"rates":100,"batch":"unlimited","usage":0,"history":null},
		"more_limits":[{"endpoint":"history","period":"month","limit":500},{"endpoint":"all","period":"second","limit":10},{"endpoint":"history","period":"day","limit":50}]}],
	"refund":"server_errors",
	"errors":"pass"}}}`

// TestMistakesInJSON are found without a Caddyfile as well.
func TestMistakesInJSON(t *testing.T) {
	if err := validate(strings.ReplaceAll(fullJSON, "DIR", t.TempDir())); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown field":       {`"refund":"server_errors"`, `"refunds":"x"`, "refunds"},
		"unknown store field": {`"sync":true`, `"sink":true`, "sink"},
		"unknown store":       {`"module":"badger"`, `"module":"paper"`, `store: unknown store "paper": use badger, other, test`},
		"another module":      {`"module":"badger"`, `"module":"other"`, "store: the module tollgate.stores.other is not a store"},
		"no store":            {`"store":{"module":"badger","directory":"DIR","sync":true},`, ``, "store: required"},
		"no directory":        {`"directory":"DIR",`, ``, "directory: required"},
		"secret":              {`"secret":"0123456789abcdef0123456789abcdef"`, `"secret":"short"`, "at least 32"},
		"secret not there":    {`"secret":"0123456789abcdef0123456789abcdef"`, `"secret":"{env.TOLLGATE_TEST_NOT_SET}"`, "secret: {env.TOLLGATE_TEST_NOT_SET} has no value: set the variable TOLLGATE_TEST_NOT_SET where Caddy is started"},
		"introspection":       {`"timezone"`, `"introspection_secret":"{env.TOLLGATE_TEST_NOT_SET}","timezone"`, "introspection_secret: {env.TOLLGATE_TEST_NOT_SET} has no value: set the variable TOLLGATE_TEST_NOT_SET where Caddy is started"},
		"unknown in a limit":  {`"limit":500`, `"limit":500,"per":"day"`, "per"},
	} {
		config := strings.Replace(fullJSON, c.old, c.new, 1)
		if config == fullJSON {
			t.Fatalf("%s: nothing to replace", name)
		}
		err := validate(strings.ReplaceAll(config, "DIR", t.TempDir()))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func validate(config string) error { return caddytest.Validate([]byte(config)) }

// TestStoreByOtherNames: a store is one, by whatever links its directory
// is reached, also before it is made.
func TestStoreByOtherNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "data"), 0o700), os.Symlink("data", link)); err != nil {
		t.Fatal(err)
	}
	key := func(directory string) string {
		b := &caddymodule.BadgerStore{Directory: directory}
		if err := b.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
		return b.Key()
	}
	for _, below := range []string{"", "gate", "not/yet"} {
		if got, want := key(filepath.Join(link, below)), key(filepath.Join(dir, "data", below)); got != want {
			t.Errorf("got %s and %s", got, want)
		}
	}
	if key(filepath.Join(dir, "data")) == key(filepath.Join(dir, "other")) {
		t.Error("two directories are taken for one store")
	}
}
