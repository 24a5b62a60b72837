package caddymodule_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// odd is a password that must be escaped in a URL.
const odd = "p@ss:w/o%72d?&#[x]{y}+=,!~"

// onRedis is a Caddyfile whose store is redis with these arguments.
func onRedis(arguments string) string {
	return fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n\ttollgate {\n\t\tstore redis %s\n\t\tsecret %s\n\t}\n}\n", arguments, secret)
}

// loadRedis loads a configuration with the store redis until the test ends,
// and waits until the store works.
func loadRedis(t *testing.T, arguments string) {
	t.Helper()
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	if err := load(onRedis(arguments)); err != nil {
		t.Fatal(err)
	}
	awaitStore(t)
}

func awaitStore(t *testing.T) {
	t.Helper()
	db, err := app(t).Store()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a store that works", func() bool { return db.Check(t.Context()) == nil })
}

// TestRedisPlaceholders resolves placeholders of the URL and of files. A user
// and a password can have any characters.
func TestRedisPlaceholders(t *testing.T) {
	t.Setenv("TOLLGATE_TEST_PASSWORD", odd)
	t.Setenv("TOLLGATE_TEST_USER", "gate:1@x/y")
	server := redistest.Start(t, "requirepass "+odd, "user gate:1@x/y on >"+odd+" ~tollgate:* &* +@all")
	t.Setenv("TOLLGATE_TEST_URL", server.URL())
	t.Setenv("TOLLGATE_TEST_ADDRESS", server.Addr())
	socket := redistest.StartUnix(t, "requirepass "+odd)
	secured, files := redistest.StartTLS(t, "requirepass "+odd)
	t.Setenv("TOLLGATE_TEST_FILES", filepath.Dir(files.CA))
	inFiles := func(path string) string { return "{env.TOLLGATE_TEST_FILES}/" + filepath.Base(path) }
	for name, arguments := range map[string]string{
		"password":          "redis://:{env.TOLLGATE_TEST_PASSWORD}@" + server.Addr(),
		"user and password": "redis://{env.TOLLGATE_TEST_USER}:{env.TOLLGATE_TEST_PASSWORD}@" + server.Addr() + "/0",
		"address":           "redis://:{env.TOLLGATE_TEST_PASSWORD}@{env.TOLLGATE_TEST_ADDRESS}",
		"URL":               "{env.TOLLGATE_TEST_URL}",
		"socket":            "unix://:{env.TOLLGATE_TEST_PASSWORD}@" + socket.Addr(),
		"certificates": fmt.Sprintf("rediss://:{env.TOLLGATE_TEST_PASSWORD}@%s {\n\tca %s\n\tcert %s\n\tkey %s\n}",
			secured.Addr(), inFiles(files.CA), inFiles(files.Cert), inFiles(files.Key)),
	} {
		t.Run(name, func(t *testing.T) { loadRedis(t, arguments) })
	}
}

// TestRedisMistakes are found when the configuration is validated. The error
// names the option and contains no password.
func TestRedisMistakes(t *testing.T) {
	t.Setenv("TOLLGATE_TEST_PASSWORD", odd)
	t.Setenv("TOLLGATE_TEST_EMPTY", "")
	t.Setenv("TOLLGATE_TEST_URL", "http://gate:hush@10.0.0.5")
	t.Setenv("TOLLGATE_TEST_ADDRESS", "gate:hush@10.0.0.5:port")
	const usual = `"url":"redis://gate:{env.TOLLGATE_TEST_PASSWORD}@10.0.0.5"`
	for name, c := range map[string]struct{ store, want string }{
		"no URL":               {`"prefix":"x"`, "url: required"},
		"no placeholder":       {`"url":"redis://:{env.TOLLGATE_TEST_NOT_SET}@10.0.0.5"`, "url: empty or unknown placeholder"},
		"empty placeholder":    {`"url":"redis://:{env.TOLLGATE_TEST_EMPTY}@10.0.0.5"`, "url: empty or unknown placeholder"},
		"empty host":           {`"url":"redis://:hush@{env.TOLLGATE_TEST_EMPTY}"`, "url: empty or unknown placeholder"},
		"URL of a placeholder": {`"url":"{env.TOLLGATE_TEST_URL}"`, "invalid URL: use redis://"},
		"address":              {`"url":"redis://{env.TOLLGATE_TEST_ADDRESS}"`, "invalid URL"},
		"not escaped":          {`"url":"redis://gate:hush/hush@10.0.0.5"`, "invalid URL"},
		"control character":    {`"url":"redis://gate:hush\n@10.0.0.5"`, "invalid URL"},
		"kind of the URL":      {`"url":5`, "url"},
		"prefix":               {usual + `,"prefix":"a b"`, `invalid prefix "a b"`},
		"timeout":              {usual + `,"timeout":"1ms"`, "invalid timeout 1ms: use 10ms to 10s"},
		"negative timeout":     {usual + `,"timeout":-1`, "invalid timeout -1ns"},
		"in_flight":            {usual + `,"in_flight":-1`, "invalid in_flight -1: use 1 to 65536"},
		"wait_replicas":        {usual + `,"wait_replicas":17`, "invalid wait_replicas 17: use 0 to 16"},
		"eviction":             {usual + `,"allow_eviction":"on"`, "allow_eviction"},
		"unknown field":        {usual + `,"colour":"red"`, "colour"},
		"certificate":          {`"url":"rediss://10.0.0.5","cert":"gate.pem"`, "cert and key"},
		"certificate, no TLS":  {usual + `,"ca":"ca.pem"`, "use rediss://"},
		"file":                 {`"url":"rediss://10.0.0.5","ca":"{env.TOLLGATE_TEST_EMPTY}"`, "ca: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(fmt.Sprintf(`{"admin":{"disabled":true},"apps":{"tollgate":{"secret":%q,"store":{"module":"redis",%s}}}}`, secret, c.store))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			for _, password := range []string{"hush", odd, "p%40ss"} {
				if strings.Contains(err.Error(), password) {
					t.Errorf("the error contains %q: %v", password, err)
				}
			}
		})
	}
}

// TestRedisMistakesInCaddyfile: no error contains the password of the URL.
func TestRedisMistakesInCaddyfile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/adapt/bad_*.caddyfiletest")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		input, _, _ := strings.Cut(string(golden), dashes)
		if !strings.Contains(input, "hush") {
			continue
		}
		found++
		if _, err := adapt(input); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v, want an error without the password", file, err)
		}
	}
	if found < 20 {
		t.Errorf("found %d files with a password", found)
	}
}

// TestRedisConnectsAtStart: validating does not connect. Loading the same
// configuration again keeps the connection.
func TestRedisConnectsAtStart(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	arguments := "redis://" + proxy.Addr()
	config, err := adapt(onRedis(arguments))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(string(config)); err != nil || proxy.Dials() != 0 {
		t.Fatalf("validating: %v, %d connections", err, proxy.Dials())
	}
	loadRedis(t, arguments)
	opened, dials := storeOf(t), proxy.Dials()
	for _, again := range []string{arguments, arguments + " {\n\ttimeout 1s\n}"} {
		if err := load(onRedis(again)); err != nil {
			t.Fatal(err)
		}
		awaitStore(t)
		if storeOf(t) != opened || proxy.Dials() != dials || dials == 0 {
			t.Errorf("the store changed, or made %d connections instead of %d", proxy.Dials(), dials)
		}
	}
}

func storeOf(t *testing.T) any {
	t.Helper()
	db, err := app(t).Store()
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestRedisAwayAtStart: a configuration loads while its server is away, and
// works when the server is there.
func TestRedisAwayAtStart(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	proxy.Refuse()
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	if err := load(onRedis("redis://" + proxy.Addr() + " {\n\ttimeout 50ms\n}")); err != nil {
		t.Fatal(err)
	}
	db, err := app(t).Store()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Check(t.Context()); err == nil {
		t.Error("the store works without its server")
	}
	if err := proxy.Resume(); err != nil {
		t.Fatal(err)
	}
	awaitStore(t)
}

// TestRedisNames: stores are one if their data is, whatever the password is.
// The name has no secrets.
func TestRedisNames(t *testing.T) {
	t.Parallel()
	provisioned := func(r caddymodule.RedisStore) *caddymodule.RedisStore {
		if err := r.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	first := provisioned(caddymodule.RedisStore{URL: "redis://gate:hush@10.0.0.5/1"})
	for _, same := range []caddymodule.RedisStore{
		{URL: "redis://gate:other@10.0.0.5/1"},
		{URL: "redis://10.0.0.5/1", Prefix: "tollgate"},
		{URL: "redis://gate:hush@10.0.0.5/1", Timeout: caddy.Duration(time.Second)},
	} {
		s := provisioned(same)
		if s.Key() != first.Key() || s.Settings() == first.Settings() {
			t.Errorf("%s and %s are two stores, or have the same settings", s.Key(), first.Key())
		}
	}
	for _, other := range []caddymodule.RedisStore{
		{URL: "redis://gate:hush@10.0.0.5/2"},
		{URL: "redis://gate:hush@10.0.0.6/1"},
		{URL: "redis://gate:hush@10.0.0.5/1", Prefix: "other"},
	} {
		if s := provisioned(other); s.Key() == first.Key() {
			t.Errorf("%s is the name of two stores", s.Key())
		}
	}
	if strings.Contains(first.Key(), "hush") || strings.Contains(first.Key(), "gate:") {
		t.Errorf("the name %q has a secret", first.Key())
	}
}
