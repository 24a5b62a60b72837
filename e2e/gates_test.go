package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// redisPassword must be escaped in a URL.
const redisPassword = "p@ss:w/o%72d?&#[x]"

// gates are three gates with one upstream and one Redis server, behind a
// proxy that a test can break.
type gates struct {
	all     []*stack.Stack
	control []*client.Client // of each gate
	redis   *redistest.Server
	proxy   *redistest.Proxy
}

// startGates starts gates with the shipped Caddyfile, with each old string
// replaced by the new string after it. At the end of the test, no output has
// the password of the server.
func startGates(t *testing.T, oldnew ...string) *gates {
	t.Helper()
	g := &gates{redis: redistest.Start(t, "appendonly yes", "appendfsync always", "requirepass "+redisPassword)}
	g.proxy = redistest.StartProxy(t, g.redis.Addr())
	t.Cleanup(func() {
		for i, s := range g.all {
			for _, secret := range []string{redisPassword, strings.TrimPrefix(strings.Split(g.redis.URL(), "@")[0], "redis://:"), stack.Secret} {
				if strings.Contains(s.Log(), secret) {
					t.Errorf("the output of gate %d contains %q", i+1, secret)
				}
			}
		}
	})
	const badger = `store badger "{$TOLLGATE_DATA:./data}/gate"`
	caddyfile := stack.Shipped(t, append([]string{badger, "store redis redis://:{env.REDIS_PASSWORD}@" + g.proxy.Addr() + " {\n\t\t\ttimeout 500ms\n\t\t}"}, oldnew...)...)
	g.add(t, stack.Start(t, caddyfile, "REDIS_PASSWORD="+redisPassword))
	for range 2 {
		g.add(t, g.all[0].Join())
	}
	for i := range g.all {
		g.awaitStatus(t, i, api.Ready)
	}
	return g
}

func (g *gates) add(t *testing.T, s *stack.Stack) {
	t.Helper()
	control, err := client.New(s.Control(), stack.Secret)
	must(t, err)
	g.all, g.control = append(g.all, s), append(g.control, control)
}

// eventually waits until a condition returns no error.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// awaitStatus waits until a gate reports a status.
func (g *gates) awaitStatus(t *testing.T, gate int, want api.Status) {
	t.Helper()
	eventually(t, fmt.Sprintf("gate %d to be %s", gate+1, want), func() error {
		got, err := g.control[gate].Readiness(t.Context())
		if err == nil && got.Status != want {
			err = fmt.Errorf("it is %s", got.Status)
		}
		return err
	})
}

// account makes an account by the first gate, with a key that has these
// limits.
func (g *gates) account(t *testing.T, account, plan string, limits ...api.Limit) api.IssuedKey {
	t.Helper()
	var key api.IssuedKey
	eventually(t, "an account with a key", func() (err error) { // on a busy machine Redis can take longer than the timeout
		if _, err = g.control[0].PutAccount(t.Context(), account, api.AccountChange{Plan: &plan}); err != nil {
			return err
		}
		if key, err = g.control[0].CreateKey(t.Context(), account, api.KeyRequest{Name: "ci", Limits: limits}); err != nil {
			_ = g.control[0].DeleteAccount(t.Context(), account) // it may have a key
		}
		return err
	})
	return key
}

// patient lets calls wait for a server that a busy machine slows down.
var patient = []string{"timeout 500ms", "timeout 10s"}

const ratesPath = "/api/rates/EUR?symbols=USD"

// ask calls an endpoint through one gate. It returns the status and the code
// of a refusal, as "429 quota_exceeded", or "200".
func ask(s *stack.Stack, token string) string {
	response, text, err := s.TryCall("GET", ratesPath, token, nil)
	switch {
	case err != nil:
		return err.Error()
	case response.StatusCode == http.StatusOK:
		return "200"
	}
	var refusal struct{ Code string }
	if err := json.Unmarshal([]byte(text), &refusal); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", response.StatusCode, refusal.Code)
}

// smallest are plans. Each has all kinds of limits, one of them is small.
func smallest(limit int) (plans string) {
	kinds := []struct{ name, line string }{
		{"day", "rates %d"}, {"month", "rates %d month"}, {"all-day", "* %d day"}, {"all-month", "* %d month"}, {"pace", "rates %d hour"}, {"all-pace", "* %d hour"}, {"key", ""},
	}
	for _, small := range kinds {
		plans += "\t\tplan " + small.name + " {\n"
		for _, kind := range kinds {
			n := 100 * limit
			if kind == small {
				n = limit
			}
			if kind.line != "" {
				plans += "\t\t\t" + fmt.Sprintf(kind.line, n) + "\n"
			}
		}
		plans += "\t\t}\n"
	}
	return plans
}

// TestSeveralGatesAreExact calls through three gates at the same time, ten
// times as often as a limit allows. Exactly the limit is admitted, and
// counted in each limit. Before, each gate knows the changes of another one.
func TestSeveralGatesAreExact(t *testing.T) {
	t.Parallel()
	const limit = 20
	const wide = "\t\tplan wide {\n\t\t\trates unlimited\n\t\t\tconvert 1000\n\t\t}\n"
	g := startGates(t, append(patient, "\t\tplan free\n", "\t\tplan free\n"+wide+smallest(limit))...)
	t.Run("changes", g.knowChanges)
	rounds := 1
	if storetest.Long() {
		rounds = 100
	}
	for _, plan := range []string{"day", "month", "all-day", "all-month", "pace", "all-pace", "key"} {
		t.Run(plan, func(t *testing.T) {
			own := api.Limit{Endpoint: "rates", Period: "day", Limit: 100 * limit}
			if plan == "key" {
				own.Limit = limit
			}
			for round := range rounds {
				account := fmt.Sprintf("%s_%d", plan, round)
				key := g.account(t, account, plan, own)
				answers := g.callAtOnce(t, key.Token, 10*limit)
				if answers[http.StatusOK] != limit || answers[http.StatusTooManyRequests] != 9*limit {
					t.Errorf("round %d: got %v, want %d answers with 200, all others with 429", round, answers, limit)
				}
				g.checkUsage(t, account, limit)
			}
			if got := used(t, g.all[2], plan+"_0", "rates"); got != limit {
				t.Errorf("the command shows %d calls, want %d", got, limit)
			}
		})
	}
}

// callAtOnce makes n calls at the same time, through all gates. It counts the
// answers by status.
func (g *gates) callAtOnce(t *testing.T, token string, n int) map[int]int {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	answers, begin := map[int]int{}, make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-begin
			status := noAnswer
			if response, _, err := g.all[i%len(g.all)].TryCall("GET", ratesPath, token, nil); err == nil {
				status = response.StatusCode
			}
			mu.Lock()
			defer mu.Unlock()
			answers[status]++
		})
	}
	close(begin)
	group.Wait()
	return answers
}

// checkUsage checks that all gates show this number of calls in each limit of
// an account that covers the endpoint rates.
func (g *gates) checkUsage(t *testing.T, account string, want int64) {
	t.Helper()
	if got := g.counted(t, account); got != want {
		t.Errorf("the gates show %d calls of %s, want %d", got, account, want)
	}
}

// counted returns the number of calls that all gates show in each limit of an
// account that covers the endpoint rates.
func (g *gates) counted(t *testing.T, account string) int64 {
	t.Helper()
	counts := map[int64]string{}
	for i, control := range g.control {
		var usage api.UsageDocument
		eventually(t, "the usage", func() (err error) {
			usage, err = control.Usage(t.Context(), account, 0)
			return err
		})
		limits := usage.Limits
		for _, e := range usage.Endpoints {
			if e.Endpoint == "rates" {
				limits = append(limits, e.Limits...)
			}
		}
		for _, key := range usage.Keys {
			for _, limit := range key.Limits {
				limits = append(limits, limit.UsageLimit)
			}
		}
		for _, limit := range limits {
			if limit.Used != nil {
				counts[*limit.Used] = fmt.Sprintf("gate %d, %s", i+1, limit.Period)
			}
		}
	}
	if len(counts) != 1 {
		t.Fatalf("the gates show different numbers of calls of %s: %v", account, counts)
	}
	for n := range counts {
		return n
	}
	return 0
}
