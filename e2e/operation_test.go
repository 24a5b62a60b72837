package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestReloadUnderLoad reloads the configuration while clients call. Every
// answer is 200, and the count is exact. A server that stops can close a new
// or idle connection during a request, also without a gate. Such a call may
// count or not.
func TestReloadUnderLoad(t *testing.T) {
	stack.SkipInOneProcess(t, "TestOneProcessReload does more")
	s := stack.Start(t, stack.Shipped(t, "rates 1000\n", "rates unlimited\n"))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	stop := make(chan struct{})
	counts := load(s, key.Token, 8, stop)
	for i := range 20 {
		s.Configure(stack.Shipped(t, "rates 1000\n", fmt.Sprintf("rates %d\n", 1_000_000+i)))
		if err := s.Reload(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	answers := counts()
	answered, cut := answers[http.StatusOK], answers[noAnswer]
	delete(answers, http.StatusOK)
	delete(answers, noAnswer)
	if len(answers) > 0 || answered == 0 || cut > answered/100 {
		t.Errorf("got %d answers with 200, %d broken connections and %v, want nothing but 200", answered, cut, answers)
	}
	if got := used(t, s, account, "rates"); got < answered || got > answered+cut {
		t.Errorf("counted %d calls, clients got %d, and %d broke", got, answered, cut)
	}
}

// TestKillUnderLoad kills Caddy while clients call. After the restart, every
// answered call is counted, and at most the calls in progress besides.
func TestKillUnderLoad(t *testing.T) {
	s := stack.Start(t, stack.Shipped(t, "rates 1000\n", "rates unlimited\n"))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	killUnderLoad(t, s, key.Token, func(answered, atMost int64) {
		if got := used(t, s, account, "rates"); got < answered || got > atMost {
			t.Fatalf("counted %d calls, want %d to %d", got, answered, atMost)
		}
	})
}

// killUnderLoad kills Caddy three times while callers call it. After each
// restart it calls check with the calls that were answered, and with those
// and the calls that were in progress.
func killUnderLoad(t *testing.T, s *stack.Stack, bearer string, check func(answered, atMost int64)) {
	t.Helper()
	const callers = 8
	var answered, atMost int64
	for range 3 {
		stop := make(chan struct{})
		counts := load(s, bearer, callers, stop)
		time.Sleep(300 * time.Millisecond) // so that calls are in progress
		s.KillCaddy()
		close(stop)
		answers := counts()
		answered += answers[http.StatusOK]
		atMost += answers[http.StatusOK] + callers
		s.StartCaddy()
		check(answered, atMost)
	}
	if answered == 0 {
		t.Error("no call was answered")
	}
}

// TestWrongConfiguration loads invalid configurations into a running Caddy.
// The error names the line, and the running configuration continues.
func TestWrongConfiguration(t *testing.T) {
	s := stack.Start(t, stack.Shipped(t))
	key := newKey(t, s, newAccount(t, s, "ada@example.com", "starter"), "ci")
	mistakes := []struct{ name, old, wrong, want string }{
		{"unknown endpoint in a plan", "batch 50\n", "betch 50\n", "betch"},
		{"zone", "timezone {$TOLLGATE_TIMEZONE:UTC}", "timezone Mars/Olympus", "Mars/Olympus"},
		{"short secret", "secret {env.TOLLGATE_SECRET}", "secret short", "secret"},
		{"duplicate endpoint", "endpoint rates GET /api/rates/{base}", "endpoint convert GET /api/rates/{base}", `duplicate endpoint \"convert\"`},
	}
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			text := stack.Shipped(t, m.old, m.wrong)
			line := 1 + strings.Count(text[:strings.Index(text, m.wrong)], "\n")
			s.Configure(text)
			err := s.Reload()
			where := fmt.Sprintf("%s:%d", s.Caddyfile, line)
			if err == nil || !strings.Contains(err.Error(), m.want) || !strings.Contains(err.Error(), where) {
				t.Errorf("got error %v, want one with %q and %q", err, m.want, where)
			}
			if response, _ := s.Call("GET", "/api/rates/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
				t.Errorf("the running configuration answers %d", response.StatusCode)
			}
		})
	}
}

// TestValidateWhileRunning validates the configuration of a running Caddy,
// which has the lock of the store.
func TestValidateWhileRunning(t *testing.T) {
	s := stack.Start(t, stack.Shipped(t))
	if _, err := s.Try("caddy", "", "validate", "--config", s.Caddyfile, "--adapter", "caddyfile"); err != nil {
		t.Error(err)
	}
}

// TestSecondProcess starts a second Caddy on the same store. The error names
// the directory, and the first process continues.
func TestSecondProcess(t *testing.T) {
	s := stack.Start(t, stack.Shipped(t))
	key := newKey(t, s, newAccount(t, s, "ada@example.com", "starter"), "ci")
	other := stack.Shipped(t, "{$TOLLGATE_ADDRESS:http://localhost:8080}", "http://127.0.0.1:0", "http://{$TOLLGATE_CONTROL:127.0.0.1:8081}", "http://127.0.0.1:0")
	s.Configure(strings.Replace(other, "{\n", "{\n\tadmin off\n", 1))
	_, err := s.Try("caddy", "", "run", "--config", s.Caddyfile, "--adapter", "caddyfile")
	if err == nil || !strings.Contains(err.Error(), s.Data+"/gate") || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("got error %v, want one that names the directory", err)
	}
	if response, _ := s.Call("GET", "/api/rates/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
		t.Errorf("the first process answers %d", response.StatusCode)
	}
}

// TestDownUpstream calls while the upstream is stopped. The calls are
// refunded. Clients of the API get JSON, browsers get a page.
func TestDownUpstream(t *testing.T) {
	stack.SkipInOneProcess(t, "it stops the upstream")
	s := stack.Start(t, stack.Shipped(t))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	s.StopUpstream()
	for range 10 {
		response, text := s.Call("GET", "/api/rates/EUR", key.Token, nil)
		if response.StatusCode != http.StatusBadGateway || code(t, text) != "upstream_unreachable" {
			t.Errorf("got %d %s", response.StatusCode, text)
		}
	}
	if got := used(t, s, account, "rates"); got != 0 {
		t.Errorf("%d calls are counted, want none", got)
	}
	form := url.Values{"email": {"ada@example.com"}, "password": {"wrong password"}}.Encode()
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/usage", ""}, {"GET", "/", ""}, {"GET", "/settings", ""}, {"POST", "/login", form}, {"POST", "/signup", form},
	} {
		for accept, want := range map[string]string{browser: "<h1>Back in a moment</h1>", "*/*": `"code":"upstream_unreachable"`} {
			if got := send(t, s, c.method, c.path, c.body, accept); got.StatusCode != http.StatusBadGateway || !strings.Contains(got.text, want) {
				t.Errorf("%s %s for %s: got %d %v %s", c.method, c.path, accept, got.StatusCode, got.Header, got.text)
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
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(text)}
}

// TestNoSecrets checks that the output of the programs contains no secret.
func TestNoSecrets(t *testing.T) {
	s := stack.Start(t, stack.Shipped(t, "http://localhost:8080} {\n", "http://localhost:8080} {\n\tlog\n"))
	key := newKey(t, s, newAccount(t, s, "ada@example.com", "starter"), "ci")
	s.Call("GET", "/api/rates/EUR", key.Token, nil)
	s.Call("GET", "/api/rates/EUR", key.Token[:len(key.Token)-1]+"0", nil)
	s.Call("POST", "/api/login", "", strings.NewReader(`{"email":"ada@example.com","password":"correct horse battery staple"}`))
	form, err := http.PostForm(s.Address+"/login", url.Values{"email": {"ada@example.com"}, "password": {"wrong"}})
	if err != nil {
		t.Fatal(err)
	}
	form.Body.Close()
	if cookie := form.Header.Get("Set-Cookie"); !strings.Contains(cookie, "ada%40example.com") {
		t.Errorf("the form does not keep the e-mail, so this test shows nothing: %q", cookie)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Address+"/login", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, cookie := range form.Cookies() {
		r.AddCookie(cookie)
	}
	again, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	again.Body.Close()
	s.Stop()
	for _, secret := range []string{key.Token, stack.Secret, "correct horse", "ada@example.com", "ada%40example.com"} {
		if strings.Contains(s.Log(), secret) {
			t.Errorf("the output contains %q:\n%s", secret, s.Log())
		}
	}
	if !strings.Contains(s.Log(), `"user_id":"acc_`) {
		t.Error("the access log does not name the account")
	}
}
