package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
)

// rulesTime matches the times in rules.yml that a test cannot wait for.
var rulesTime = regexp.MustCompile(`(for: |\[|> )(?:\d+ \* 60|\d+[mhd])\b`)

// quickRules returns the alerts with short times: an alert fires when its
// state has lasted for 3 seconds, and rates are those of 6 seconds. The tests of
// docs/monitoring check the real times.
func quickRules(t *testing.T) string {
	t.Helper()
	return rulesTime.ReplaceAllStringFunc(documentation(t, "rules.yml"), func(old string) string {
		switch old[0] {
		case 'f':
			return "for: 3s"
		case '[':
			return "[6s"
		}
		return "> 3"
	})
}

// awaitState waits until each alert has a state.
func (p *prometheus) awaitState(t *testing.T, state string, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, name+" "+state, func() error {
			if a := p.alerts(t)[name]; a.Health != "ok" || a.State != state {
				return fmt.Errorf("got %+v, want %s", a, state)
			}
			return nil
		})
	}
}

// publication is a file of the bank with %s for its day. It has the newest of
// the embedded rates: one with few currencies would be refused.
func publication(t *testing.T) string {
	t.Helper()
	embedded, err := ecb.Embedded()
	must(t, err)
	newest, err := embedded.Latest()
	must(t, err)
	var quotes strings.Builder
	for code, value := range newest.Values() {
		fmt.Fprintf(&quotes, `<Cube currency="%s" rate="%s"/>`, code, value)
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
<Cube><Cube time="%s">` + quotes.String() + `</Cube></Cube></gesmes:Envelope>`
}

// service is a server of the test that works, or fails.
func service(t *testing.T, works *atomic.Bool, failing http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !works.Load() {
			failing(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// steadily makes a call at each interval until it is ended.
func steadily(every time.Duration, call func() (*http.Response, string, error)) (end func()) {
	stop, tick := make(chan struct{}), time.NewTicker(every)
	answers := repeat(1, stop, func() (*http.Response, string, error) {
		<-tick.C
		return call()
	})
	return func() {
		close(stop)
		answers()
		tick.Stop()
	}
}

// TestIncidents provokes incidents. Prometheus fires the alerts of each, and
// ends them when it is over.
func TestIncidents(t *testing.T) {
	t.Parallel()
	fail := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	var receiverWorks, serviceWorks, bankWorks atomic.Bool
	var calls atomic.Int64
	receiver := service(t, &receiverWorks, fail)
	rates := service(t, &serviceWorks, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1)%3 > 0 {
			fail(w, r)
		}
	})
	published := publication(t)
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bankWorks.Load() || !strings.HasSuffix(r.URL.Path, ".xml") {
			fail(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, published, time.Now().UTC().Format(time.DateOnly)) // an error fails the test
	}))
	t.Cleanup(bank.Close)
	server := redistest.Start(t)
	target := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	s := stack.Start(t, stack.Shipped(t,
		`store badger "{$TOLLGATE_DATA:./data}/gate"`, "store redis "+server.URL(),
		"per_client 5 1m", "per_client 1000 1m", "rates 100000\n", "rates unlimited\n",
		"guard /api/\n", fmt.Sprintf("guard /api/\nwebhook %s {\nsecret %s\n}\n", receiver.URL, webhookSecret),
		"\ttollgate\n", "\ttollgate\n\treverse_proxy /api/rates/* "+rates.URL+"\n",
	)+block(t, "caddyfile", "127.0.0.1:9180", target), "TOLLGATE_RATES="+bank.URL)
	key := newKey(t, s, newAccount(t, s, "ada@example.com", "business"), "ci")
	// A client calls until the end of the test, 20 times a second.
	end := steadily(50*time.Millisecond, func() (*http.Response, string, error) { return s.TryCall("GET", ratesPath, key.Token, nil) })
	defer end()
	p := monitor(t, s, target, "1s", quickRules(t))

	// Two of three calls, the webhook and the bank fail, and there is no backup.
	first := []string{"TollgateCallsFail", "TollgateUpstreamFails", "TollgateWebhookFails", "TollgateBackupOld", "TollgateAccountsBackupOld", "TollgateRatesMissed", "TollgateRatesOld"}
	p.awaitState(t, "firing", first...)
	p.awaitState(t, "inactive", "TollgateDown", "TollgateStoreDown", "TollgateLoginUnavailable", "TollgateEventsLost")
	serviceWorks.Store(true)
	receiverWorks.Store(true)
	bankWorks.Store(true)
	s.Tollgate("backup", filepath.Join(t.TempDir(), "gate.backup"))
	s.Upstream("", "backup", filepath.Join(t.TempDir(), "accounts.db"))
	s.StopUpstream()
	s.StartUpstream()
	p.awaitState(t, "inactive", first...)

	// Upstream is away.
	s.StopUpstream()
	endLogins := steadily(100*time.Millisecond, func() (*http.Response, string, error) {
		return s.TryCall("POST", "/api/login", "", strings.NewReader(`{"email":"ada@example.com","password":"wrong"}`))
	})
	p.awaitState(t, "firing", "TollgateLoginUnavailable", "TollgateDown")
	endLogins()
	s.StartUpstream()

	// The store is away.
	must(t, server.Stop())
	p.awaitState(t, "firing", "TollgateStoreDown", "TollgateCallsFail")
	must(t, server.Restart())
	p.awaitState(t, "inactive", "TollgateStoreDown", "TollgateCallsFail", "TollgateLoginUnavailable", "TollgateDown")
}
