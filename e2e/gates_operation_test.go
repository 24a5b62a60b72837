package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// fetch returns the status and the body of a URL.
func fetch(ctx context.Context, url string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// expect returns an error unless a URL answers with this status and text.
func expect(ctx context.Context, url string, status int, text string) error {
	got, body, err := fetch(ctx, url)
	if err == nil && (got != status || !strings.Contains(body, text)) {
		err = fmt.Errorf("%s answers %d without %q: %s", url, got, text, body)
	}
	return err
}

// expectState waits until a gate shows whether its store works: in its health,
// its metric, and its log, which has one line for each change.
func expectState(t *testing.T, s *stack.Stack, works bool, linesWorks, linesNot int) {
	t.Helper()
	status, metric := http.StatusServiceUnavailable, "\ncaddy_tollgate_store_works 0\n"
	if works {
		status, metric = http.StatusOK, "\ncaddy_tollgate_store_works 1\n"
	}
	eventually(t, fmt.Sprintf("%s to show that its store works: %t", s.Address, works), func() error {
		for _, base := range []string{s.Admin(), s.Control()} {
			if err := expect(t.Context(), base+"/tollgate/health/ready", status, ""); err != nil {
				return err
			}
			if err := expect(t.Context(), base+"/tollgate/health/live", http.StatusOK, ""); err != nil {
				return err
			}
		}
		if err := expect(t.Context(), s.Admin()+"/metrics", http.StatusOK, metric); err != nil {
			return err
		}
		if works, not := strings.Count(s.Log(), `"msg":"redis works"`), strings.Count(s.Log(), `"msg":"redis does not work"`); works != linesWorks || not != linesNot {
			return fmt.Errorf("the log has %d and %d lines, want %d and %d", works, not, linesWorks, linesNot)
		}
		return nil
	})
}

// TestSeveralGatesHealth stops and kills redis, and starts gates while it does
// not answer. Each gate tells it by its health, its metric and one line of its
// log, answers calls with 503, and becomes ready again. The password of redis is
// in no configuration, no answer, no error and no output of a gate. startGates
// checks the outputs of all tests.
func TestSeveralGatesHealth(t *testing.T) {
	t.Parallel()
	g := startGates(t, "timeout 500ms", "timeout 2s")
	key := g.account(t, "acc_1", "starter")
	expectAll := func(works bool, linesWorks, linesNot int) {
		t.Helper()
		for _, s := range g.all {
			expectState(t, s, works, linesWorks, linesNot)
		}
	}
	expectAll(true, 1, 0)
	must(t, g.redis.Pause())
	t.Cleanup(func() { _ = g.redis.Resume() }) // also after a failure
	expectAll(false, 1, 1)
	must(t, g.redis.Resume())
	expectAll(true, 2, 1)
	must(t, g.redis.Kill())
	expectAll(false, 2, 2)
	must(t, g.redis.Restart())
	expectAll(true, 3, 2)

	for name, fail := range map[string]func(){
		"refused": func() { g.proxy.Refuse(); g.proxy.Cut() },
		"stalled": g.proxy.Stall,
	} {
		fail()
		s := g.all[0].Join()
		expectState(t, s, false, 0, 1)
		if got := ask(s, key.Token); got != "503 unavailable" {
			t.Errorf("%s: got %s", name, got)
		}
		must(t, g.proxy.Resume())
		expectState(t, s, true, 1, 1)
		if got := ask(s, key.Token); got != "200" {
			t.Errorf("%s: got %s after it", name, got)
		}
	}
	g.hidesPassword(t, key.Token)
}

// hidesPassword gives a wrong password to a gate.
func (g *gates) hidesPassword(t *testing.T, token string) {
	t.Helper()
	const placeholder, wrong = "{env.REDIS_PASSWORD}", "hush%40hush"
	s := g.all[0].Join()
	expectState(t, s, true, 1, 0)
	_, config, err := fetch(t.Context(), s.Admin()+"/config/")
	must(t, err)
	if !strings.Contains(config, placeholder) || strings.Contains(config, redisPassword) {
		t.Errorf("got the configuration %s", config)
	}
	text, err := os.ReadFile(s.Caddyfile)
	must(t, err)
	s.StopCaddy()
	s.Configure(strings.Replace(string(text), placeholder, wrong, 1))
	s.StartCaddy()
	expectState(t, s, false, 1, 1) // it worked before
	_, health, err := fetch(t.Context(), s.Admin()+"/tollgate/health/ready")
	must(t, err)
	_, refusal := s.Call("GET", ratesPath, token, nil)
	s.Configure(strings.Replace(string(text), placeholder, wrong+"/", 1))
	_, invalid := s.Try("caddy", "", "validate", "--config", s.Caddyfile, "--adapter", "caddyfile")
	if invalid == nil || !strings.Contains(invalid.Error(), "invalid URL") || !strings.Contains(invalid.Error(), s.Caddyfile+":") {
		t.Errorf("validating an invalid URL: got %v, want the reason, the file and the line", invalid)
	}
	for name, text := range map[string]string{"health": health, "refusal": refusal, "error": fmt.Sprint(invalid), "output": s.Log()} {
		for _, password := range []string{wrong, "hush@hush", "hush", redisPassword} {
			if strings.Contains(text, password) {
				t.Errorf("%s contains %q: %s", name, password, text)
			}
		}
	}
}

// TestSeveralGatesOperation upgrades and stops gates under load.
func TestSeveralGatesOperation(t *testing.T) {
	t.Parallel()
	g := startGates(t, append(patient, "rates 1000\n", "rates 1000000\n")...)
	t.Run("upgrade", g.upgradeInTurn)
	t.Run("stop", g.stopAfterCalls)
}

// upgradeInTurn stops and starts each gate in turn while clients call the
// others. All their calls are served, and the count is exact.
func (g *gates) upgradeInTurn(t *testing.T) {
	key := g.account(t, "acc_2", "starter")
	var served int64
	for i, upgraded := range g.all {
		stop := make(chan struct{})
		var counts []func() map[int]int64
		for j, s := range g.all {
			if j != i {
				counts = append(counts, load(s, key.Token, 3, stop))
			}
		}
		if code := upgraded.StopCaddy(); code != 0 {
			t.Errorf("gate %d exits with %d", i+1, code)
		}
		upgraded.StartCaddy()
		g.awaitStatus(t, i, api.Ready)
		close(stop)
		for _, count := range counts {
			answers := count()
			served += answers[http.StatusOK]
			if len(answers) != 1 || answers[http.StatusOK] == 0 {
				t.Errorf("while gate %d was upgraded: got %v, want nothing but 200", i+1, answers)
			}
		}
	}
	g.checkUsage(t, "acc_2", served)
}

// stopAfterCalls stops a gate right after calls. Other gates show the calls.
func (g *gates) stopAfterCalls(t *testing.T) {
	key := g.account(t, "acc_3", "starter")
	const calls = 20
	for range calls {
		if got := ask(g.all[0], key.Token); got != "200" {
			t.Fatalf("got %s", got)
		}
	}
	if code := g.all[0].StopCaddy(); code != 0 {
		t.Errorf("the gate exits with %d", code)
	}
	usage, err := g.control[1].Usage(t.Context(), "acc_3", 0)
	must(t, err)
	if len(usage.RecentCalls) != calls || usage.RecentCalls[0].Endpoint != "rates" {
		t.Errorf("another gate shows %d recent calls, want %d: %+v", len(usage.RecentCalls), calls, usage.RecentCalls)
	}
}
