package e2e_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// used returns the count of an endpoint from the command of the operator.
func used(t *testing.T, s *stack.Stack, account, endpoint string) int64 {
	t.Helper()
	usage := decode[struct {
		Endpoints []struct {
			Endpoint string
			Used     int64
		}
	}](t, s.Tollgate("usage", "show", account, "--json"))
	for _, e := range usage.Endpoints {
		if e.Endpoint == endpoint {
			return e.Used
		}
	}
	t.Fatalf("no endpoint %s in the usage of %s", endpoint, account)
	return 0
}

// noAnswer is the status of a call without an answer.
const noAnswer = -1

// load calls an endpoint from several goroutines until stop is closed. It
// counts the answers by status.
func load(s *stack.Stack, token string, callers int, stop <-chan struct{}) (counts func() map[int]int64) {
	return repeat(callers, stop, func() (*http.Response, string, error) {
		return s.TryCall("GET", ratesPath, token, nil)
	})
}

// answered makes a call right after a reload, and repeats it until there is an
// answer. The server that a reload stops can close a new or idle connection, also
// without a gate.
func answered(t *testing.T, s *stack.Stack, method, path, token, body string) (response *http.Response, text string) {
	t.Helper()
	eventually(t, "an answer to "+method+" "+path, func() (err error) {
		var content io.Reader
		if body != "" {
			content = strings.NewReader(body)
		}
		response, text, err = s.TryCall(method, path, token, content)
		return err
	})
	return response, text
}

// repeat makes a call from several goroutines until stop is closed. It
// counts the answers by status.
func repeat(callers int, stop <-chan struct{}, call func() (*http.Response, string, error)) (counts func() map[int]int64) {
	var mu sync.Mutex
	var group sync.WaitGroup
	answers := map[int]int64{}
	for range callers {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				status := noAnswer
				if response, _, err := call(); err == nil {
					status = response.StatusCode
				}
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	return func() map[int]int64 {
		group.Wait()
		return answers
	}
}

// TestKillUnderLoad kills Caddy while clients call with a key that has a limit
// of its own. After the restart, account and key have counted the same calls in
// each limit: each one that was answered, and at most those in progress besides.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	const callers = 8
	s := stack.Start(t, stack.Shipped(t, "rates 1000\n", "rates 1000000\n\t\t\trates 2000000 month\n\t\t\t* 3000000 month\n"))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := decode[issued](t, s.Tollgate("key", "create", account, "--name", "ci", "--limit", "rates 1000000 day", "--json"))
	var answered, atMost int64
	for range 3 {
		stop := make(chan struct{})
		counts := load(s, key.Token, callers, stop)
		before := answered
		eventually(t, "calls in progress", func() error {
			if used(t, s, account, "rates") <= before {
				return errors.New("none is counted")
			}
			return nil
		})
		s.KillCaddy()
		close(stop)
		answers := counts()
		answered += answers[http.StatusOK]
		atMost += answers[http.StatusOK] + callers
		s.StartCaddy()
		text := s.Tollgate("usage", "show", account, "--json")
		usage := decode[api.UsageDocument](t, text)
		got := used(t, s, account, "rates")
		if got < answered || got > atMost || *usage.Limits[0].Used != got || len(usage.Keys) != 1 || *usage.Keys[0].Limits[0].Used != got {
			t.Fatalf("counted %d, want %d to %d in each limit: %s", got, answered, atMost, text)
		}
	}
}

// TestSecondProcess starts a second Caddy on the same store. The error names
// the directory, and the first process continues.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	key := newKey(t, s, newAccount(t, s, "ada@example.com", "starter"), "ci")
	if _, err := s.Try("caddy", "", "validate", "--config", s.Caddyfile, "--adapter", "caddyfile"); err != nil {
		t.Errorf("validating beside the first process: %v", err)
	}
	other := stack.Shipped(t, "{$TOLLGATE_ADDRESS:http://localhost:8080}", "http://127.0.0.1:0", "http://{$TOLLGATE_CONTROL::8081}", "http://127.0.0.1:0")
	s.Configure(strings.Replace(other, "{\n", "{\n\tadmin off\n", 1))
	_, err := s.Try("caddy", "", "run", "--config", s.Caddyfile, "--adapter", "caddyfile")
	if err == nil || !strings.Contains(err.Error(), s.Data+"/gate") || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("got error %v, want one that names the directory", err)
	}
	if response, _ := s.Call("GET", "/api/rates/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
		t.Errorf("the first process answers %d", response.StatusCode)
	}
}

// TestDownUpstream: while the upstream is stopped, browsers get a page.
func TestDownUpstream(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	s.StopUpstream()
	form := url.Values{"email": {"ada@example.com"}, "password": {"wrong password"}}.Encode()
	for _, path := range []string{"/usage", "/", "/settings"} { // their errors are those of the Caddyfile
		if got := send(t, s, "GET", path, "", browser); got.StatusCode != http.StatusBadGateway || !strings.HasPrefix(got.text, "This site cannot answer right now.") {
			t.Errorf("GET %s: got %d %s", path, got.StatusCode, got.text)
		}
	}
	for _, path := range []string{"/login", "/signup"} {
		for accept, want := range map[string]string{browser: "<h1>Back in a moment</h1>", "*/*": `"code":"upstream_unreachable"`} {
			if got := send(t, s, "POST", path, form, accept); got.StatusCode != http.StatusBadGateway || !strings.Contains(got.text, want) {
				t.Errorf("POST %s for %s: got %d %v %s", path, accept, got.StatusCode, got.Header, got.text)
			}
		}
	}
}

// answer is a response with its body.
type answer struct {
	*http.Response
	text string
}

// send makes a request with an Accept header.
func send(t *testing.T, s *stack.Stack, method, path, body, accept string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.Address+path, strings.NewReader(body))
	must(t, err)
	request.Header.Set("Accept", accept)
	if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return answer{response, string(text)}
}

// TestPaceOverReload: a pace is as empty after a reload as before, and full
// after a restart.
func TestPaceOverReload(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 1000\n\t\t\t* 10 hour\n"))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	refused := func(when string) {
		t.Helper()
		response, text := answered(t, s, "GET", "/api/convert/USD/100/EUR", key.Token, "")
		refusal := decode[struct{ Code, Endpoint, Period, Of string }](t, text)
		retry := response.Header.Get("Retry-After")
		if response.StatusCode != http.StatusTooManyRequests || refusal.Code != "rate_limited" || refusal.Endpoint != "all" || refusal.Period != "hour" || refusal.Of != "account" ||
			strings.Contains(text, "resets_at") || len(retry) != 3 || retry > "360" {
			t.Errorf("%s: got %d, Retry-After %s, %s", when, response.StatusCode, retry, text)
		}
	}
	for range 10 {
		if response, text := s.Call("GET", "/api/convert/USD/100/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s", response.StatusCode, text)
		}
	}
	refused("at once")
	must(t, s.Reload())
	refused("after a reload")
	if got := used(t, s, account, "convert"); got != 10 {
		t.Errorf("counted %d, want 10", got)
	}
	s.StopCaddy()
	s.StartCaddy()
	if response, text := s.Call("GET", "/api/convert/USD/100/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
		t.Errorf("after a restart: got %d %s", response.StatusCode, text)
	}
}

// TestStopWithoutDisk stops Caddy while the directory of the store is
// missing.
func TestStopWithoutDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gate")
	s := stack.Start(t, stack.Shipped(t, `"{$TOLLGATE_DATA:./data}/gate"`, dir))
	newAccount(t, s, "gone@example.com", "starter")
	must(t, os.Rename(dir, dir+".away"))
	if code := s.StopCaddy(); code != caddy.ExitCodeFailedQuit {
		t.Errorf("exit code %d, want %d", code, caddy.ExitCodeFailedQuit)
	}
	if !strings.Contains(s.Log(), "exiting with a store that cannot be closed") {
		t.Error("the log does not contain the reason")
	}
	must(t, os.Rename(dir+".away", dir))
	s.StartCaddy()
}
