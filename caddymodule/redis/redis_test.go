package redis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/redis"
	"github.com/caddy-tollgate/tollgate/internal/caddytest"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// Caddy has one configuration for the process: no test that loads one runs in
// parallel with others.

const secret = caddytest.Secret

// Names of the harness that several tests use.
var adapt, load, eventually = caddytest.Adapt, caddytest.Load, caddytest.Eventually

// odd is a password that must be escaped in a URL.
const odd = "p@ss:w/o%72d?&#[x]{y}+=,!~"

// onRedis is a Caddyfile whose store is redis with these arguments.
func onRedis(arguments string) string {
	return fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n\ttollgate {\n\t\tstore redis %s\n\t\tsecret %s\n\t}\n}\n", arguments, secret)
}

// loadRedis loads a configuration until the test ends, and returns its store.
func loadRedis(t *testing.T, arguments string) *book.Book {
	t.Helper()
	caddytest.Start(t, onRedis(arguments))
	return opened(t)
}

// opened returns the store in force.
func opened(t *testing.T) *book.Book { return caddytest.Store(t).Book }

func awaitStore(t *testing.T) {
	t.Helper()
	db := opened(t)
	eventually(t, "a store that works", func() bool { return db.Check(t.Context()) == nil })
}

// TestCaddyfile: what a Caddyfile says is in the JSON.
func TestCaddyfile(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"redis://10.0.0.5": `{"module":"redis","url":"redis://10.0.0.5"}`,
		"redis://gate:{env.REDIS_PASSWORD}@10.0.0.5:6379/0 {\nprefix gate\ntimeout 500ms\nin_flight 4096\nwait_replicas 1\nallow_eviction on\n}": `{"allow_eviction":true,"in_flight":4096,"module":"redis","prefix":"gate","timeout":500000000,` +
			`"url":"redis://gate:{env.REDIS_PASSWORD}@10.0.0.5:6379/0","wait_replicas":1}`,
		"redis://10.0.0.5 {\nallow_eviction\n}":                              `{"allow_eviction":true,"module":"redis","url":"redis://10.0.0.5"}`,
		"redis://10.0.0.5 {\nwait_replicas 0\nallow_eviction off\n}":         `{"module":"redis","url":"redis://10.0.0.5"}`,
		"{file./run/secrets/redis}":                                          `{"module":"redis","url":"{file./run/secrets/redis}"}`,
		"redis+cluster://gate:{env.REDIS_PASSWORD}@10.0.0.5,10.0.0.6":        `{"module":"redis","url":"redis+cluster://gate:{env.REDIS_PASSWORD}@10.0.0.5,10.0.0.6"}`,
		"redis+sentinel://10.0.0.5,10.0.0.6:26380/tollgate":                  `{"module":"redis","url":"redis+sentinel://10.0.0.5,10.0.0.6:26380/tollgate"}`,
		"unix:///run/redis/redis.sock?db=1":                                  `{"module":"redis","url":"unix:///run/redis/redis.sock?db=1"}`,
		"rediss://10.0.0.5 {\nca {env.DIR}/ca.pem\ncert a.pem\nkey a.key\n}": `{"ca":"{env.DIR}/ca.pem","cert":"a.pem","key":"a.key","module":"redis","url":"rediss://10.0.0.5"}`,
	} {
		text, err := adapt(onRedis(arguments))
		if err != nil {
			t.Errorf("%s: %v", arguments, err)
			continue
		}
		var config struct {
			Apps struct {
				Tollgate struct{ Store json.RawMessage }
			}
		}
		if err := json.Unmarshal(text, &config); err != nil || string(config.Apps.Tollgate.Store) != want {
			t.Errorf("%s: got %s, %v; want %s", arguments, config.Apps.Tollgate.Store, err, want)
		}
	}
}

// TestMistakesInCaddyfile have a line. No error contains the password of the URL.
func TestMistakesInCaddyfile(t *testing.T) {
	t.Parallel()
	const u, forms = "redis://gate:hush@10.0.0.5", "invalid URL: use redis://, rediss://, unix://, redis+sentinel://host,host/master or redis+cluster://host,host"
	block := func(line string) string { return u + " {\n" + line + "\n}" }
	for arguments, want := range map[string]string{
		"":                                 "wrong arguments: write store redis <url>",
		u + " " + u:                        "wrong arguments: write store redis <url>",
		u + " {\n}":                        "empty block",
		`""`:                               forms,
		"10.0.0.5:6379":                    forms,
		"http" + u[5:]:                     forms,
		"unix" + u[5:]:                     forms,
		u + ",10.0.0.6":                    forms,
		"redis://a:%zz@b":                  forms,
		u + "?db=1":                        "invalid URL: unknown parameter",
		u + "/first":                       "invalid URL: the database is not a number",
		u + ":70000":                       "invalid URL: invalid host or port",
		"redis://a:hush@:1":                "invalid URL: invalid host or port",
		"redis+cluster" + u[5:] + "/1":     "invalid URL: a cluster has no databases",
		"redis+sentinel" + u[5:] + ",b":    "invalid URL: name the master: redis+sentinel://host,host/master",
		"rediss" + u[5:] + " {\ncert a\n}": "a certificate of the client needs cert and key",
		"rediss" + u[5:] + " {\nkey a\n}":  "a certificate of the client needs cert and key",
		block("ca a.pem"):                  "certificates need TLS: use rediss://",
		block("ca"):                        "write ca <file>",
		block("cert"):                      "write cert <file>",
		block("key"):                       "write key <file>",
		block("prefix"):                    "write prefix <text>",
		block(`prefix "a b"`):              `invalid prefix "a b": use 1 to 64 of`,
		block("colour red"):                `unknown option "colour": use allow_eviction, ca, cert, in_flight, key, prefix, timeout, wait_replicas`,
		block("allow_evictions"):           `unknown option "allow_evictions": did you mean allow_eviction?`,
		block("allow_eviction yes"):        `invalid value "yes" of allow_eviction: use on or off`,
		block("in_flight"):                 "write in_flight <number>",
		block("in_flight many"):            `invalid number "many" of in_flight`,
		block("in_flight 0"):               `invalid number "0" of in_flight`,
		block("in_flight 100000"):          "invalid in_flight 100000: use 1 to 65536",
		block("wait_replicas"):             "write wait_replicas <number>",
		block("wait_replicas all"):         `invalid number "all" of wait_replicas`,
		block("wait_replicas -1"):          `invalid number "-1" of wait_replicas`,
		block("wait_replicas 17"):          "invalid wait_replicas 17: use 0 to 16",
		block("timeout"):                   "write timeout <duration>",
		block("timeout soon"):              `invalid duration "soon" of timeout`,
		block("timeout -1s"):               `invalid duration "-1s" of timeout`,
		block("timeout 1ms"):               "invalid timeout 1ms: use 10ms to 10s",
		block("timeout 1m"):                "invalid timeout 1m0s: use 10ms to 10s",
		block("timeout 1s\ntimeout 2s"):    `duplicate option "timeout" (first at Caddyfile:6)`,
	} {
		_, err := adapt(onRedis(arguments))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Caddyfile:") {
			t.Errorf("%s: got %v, want %s", arguments, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the error has the password: %v", arguments, err)
		}
	}
}

// TestPlaceholders resolves placeholders of the URL and of files. A user
// and a password can have any characters.
func TestPlaceholders(t *testing.T) {
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
		t.Run(name, func(t *testing.T) {
			loadRedis(t, arguments)
			awaitStore(t)
		})
	}
}

// TestMistakes are found when the configuration is validated. The error
// names the option and contains no password.
func TestMistakes(t *testing.T) {
	t.Setenv("TOLLGATE_TEST_PASSWORD", odd)
	t.Setenv("TOLLGATE_TEST_EMPTY", "")
	t.Setenv("TOLLGATE_TEST_URL", "http://gate:hush@10.0.0.5")
	t.Setenv("TOLLGATE_TEST_ADDRESS", "gate:hush@10.0.0.5:port")
	const usual = `"url":"redis://gate:{env.TOLLGATE_TEST_PASSWORD}@10.0.0.5"`
	for name, c := range map[string]struct{ store, want string }{
		"no URL":               {`"prefix":"x"`, "url: required"},
		"no placeholder":       {`"url":"redis://:{env.TOLLGATE_TEST_NOT_SET}@10.0.0.5"`, "url: {env.TOLLGATE_TEST_NOT_SET} has no value: set the variable TOLLGATE_TEST_NOT_SET"},
		"empty placeholder":    {`"url":"redis://:{env.TOLLGATE_TEST_EMPTY}@10.0.0.5"`, "url: {env.TOLLGATE_TEST_EMPTY} has no value"},
		"empty host":           {`"url":"redis://:hush@{env.TOLLGATE_TEST_EMPTY}"`, "url: {env.TOLLGATE_TEST_EMPTY} has no value"},
		"URL of a placeholder": {`"url":"{env.TOLLGATE_TEST_URL}"`, "invalid URL: use redis://"},
		"address":              {`"url":"redis://{env.TOLLGATE_TEST_ADDRESS}"`, "invalid URL"},
		"not escaped":          {`"url":"redis://gate:hush/hush@10.0.0.5"`, "invalid URL"},
		"kind of the URL":      {`"url":5`, "url"},
		"negative timeout":     {usual + `,"timeout":-1`, "invalid timeout -1ns"},
		"eviction":             {usual + `,"allow_eviction":"on"`, "allow_eviction"},
		"unknown field":        {usual + `,"colour":"red"`, "colour"},
		"file":                 {`"url":"rediss://10.0.0.5","ca":"{env.TOLLGATE_TEST_EMPTY}"`, "ca: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := caddytest.Validate(fmt.Appendf(nil, `{"admin":{"disabled":true},"apps":{"tollgate":{"secret":%q,"store":{"module":"redis",%s}}}}`, secret, c.store))
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

// TestConnectsAtStart: validating does not connect. Loading the same
// configuration again keeps the connection.
func TestConnectsAtStart(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	// A busy machine must not end a connection.
	arguments := "redis://" + proxy.Addr() + " {\n\ttimeout 10s\n}"
	config, err := adapt(onRedis(arguments))
	if err != nil {
		t.Fatal(err)
	}
	if err := caddytest.Validate(config); err != nil || proxy.Dials() != 0 {
		t.Fatalf("validating: %v, %d connections", err, proxy.Dials())
	}
	first := loadRedis(t, arguments)
	awaitStore(t)
	dials := proxy.Dials()
	for _, again := range []string{arguments, strings.Replace(arguments, "10s", "9s", 1)} {
		if err := load(onRedis(again)); err != nil {
			t.Fatal(err)
		}
		awaitStore(t)
		if opened(t).Engine != first.Engine || proxy.Dials() != dials || dials == 0 {
			t.Errorf("the store changed, or made %d connections instead of %d", proxy.Dials(), dials)
		}
	}
}

// TestAwayAtStart: a configuration loads while its server is away, and
// works when the server is there.
func TestAwayAtStart(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	proxy.Refuse()
	loadRedis(t, "redis://"+proxy.Addr()+" {\n\ttimeout 50ms\n}")
	if err := opened(t).Check(t.Context()); err == nil {
		t.Error("the store works without its server")
	}
	if err := proxy.Resume(); err != nil {
		t.Fatal(err)
	}
	awaitStore(t)
}

// dying is an engine whose process ends before it moves the counts of a credit.
type dying struct{ book.Engine }

func (dying) Credit(context.Context, string, []string, calendar.Day, string, int64) error {
	return context.Canceled
}

// TestCreditFinished: a gate ended in a credit. Another one finishes it when it
// reaches the server.
func TestCreditFinished(t *testing.T) {
	server := redistest.Start(t)
	engine, err := redisstore.Open(redisstore.Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	eventually(t, "a store that works", func() bool { return engine.Check(t.Context()) == nil })
	gate, day := book.New(dying{engine}, slog.New(slog.DiscardHandler)), calendar.UTCDay(engine.Now())
	if _, err := storetest.PutAccount(t.Context(), gate, store.Account{ID: "acc_1", Plan: "starter"}); err != nil {
		t.Fatal(err)
	}
	if ok, err := gate.Take(t.Context(), store.Call{Account: "acc_1", Endpoint: "convert", Day: day, Cost: 5}, nil, nil); !ok || err != nil {
		t.Fatal(ok, err)
	}
	_, err = gate.Credit(t.Context(), engine.Now(), "acc_1", "credit_1", []book.Credit{{Day: day, Endpoint: "convert", Calls: 4}}, func(*book.Account, []book.Credit) {})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	proxy := redistest.StartProxy(t, server.Addr())
	proxy.Refuse()
	loadRedis(t, "redis://"+proxy.Addr()+" {\n\ttimeout 50ms\n}")
	if err := proxy.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the credit", func() bool {
		bills, _, err := opened(t).Bills(t.Context(), "", 10, day, day)
		return err == nil && len(bills) == 1 && bills[0].Calls == 5 && bills[0].Credited == 4
	})
}

// TestNames: stores are one if their data is, whatever the password is.
// The name has no secrets.
func TestNames(t *testing.T) {
	t.Parallel()
	provisioned := func(r redis.Store) *redis.Store {
		if err := r.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	first := provisioned(redis.Store{URL: "redis://gate:hush@10.0.0.5/1"})
	names := map[string]bool{first.Key(): true}
	for _, same := range []redis.Store{
		{URL: "redis://gate:other@10.0.0.5/1"},
		{URL: "redis://10.0.0.5/1", Prefix: "tollgate"},
		{URL: "redis://gate:hush@10.0.0.5/1", Timeout: caddy.Duration(time.Second)},
	} {
		s := provisioned(same)
		if s.Key() != first.Key() || s.Settings() == first.Settings() {
			t.Errorf("%s and %s are two stores, or have the same settings", s.Key(), first.Key())
		}
	}
	for _, other := range []redis.Store{
		{URL: "redis://gate:hush@10.0.0.5/2"},
		{URL: "redis://gate:hush@10.0.0.6/1"},
		{URL: "redis://gate:hush@10.0.0.5/1", Prefix: "other"},
		{URL: "unix:///run/redis.sock"}, {URL: "unix:///run/redis.sock?db=1"}, {URL: "unix://gate:hush@/run/redis.sock?db=2"},
		{URL: "redis+sentinel://10.0.0.5/master/1"}, {URL: "redis+sentinel://gate:hush@10.0.0.5/master/2"},
	} {
		s := provisioned(other)
		if names[s.Key()] || strings.Contains(s.Key(), "hush") {
			t.Errorf("%s is the name of two stores, or has a password", s.Key())
		}
		names[s.Key()] = true
	}
	if strings.Contains(first.Key(), "hush") || strings.Contains(first.Key(), "gate:") {
		t.Errorf("the name %q has a secret", first.Key())
	}
}

// storeWorks returns the metric caddy_tollgate_store_works.
func storeWorks(t *testing.T) float64 {
	t.Helper()
	active := caddy.ActiveContext()
	families, err := active.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "caddy_tollgate_store_works" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no metric caddy_tollgate_store_works")
	return 0
}

// TestGauge: the metric tells the state of the store that the configuration
// uses, also if the one before closes later than this one works.
func TestGauge(t *testing.T) {
	server, next := redistest.Start(t), redistest.Start(t)
	db := loadRedis(t, server.URL())
	works := func() bool { return storeWorks(t) == 1 }
	eventually(t, "a metric of a store that works", works)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a metric of a store that does not work", func() bool { return !works() })
	// A call that must be written makes it slow to close the store.
	db.Record(store.Record{Account: "acc_1", Handle: 1, At: time.Now()})
	if err := load(onRedis(next.URL())); err != nil {
		t.Fatal(err)
	}
	awaitStore(t)
	eventually(t, "a metric of the next store", works)
}
