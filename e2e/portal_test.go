package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestPortal: a customer who is signed in at another site comes to the web
// pages by the program examples/portal.py. Neither account nor
// password is in upstream.
func TestPortal(t *testing.T) { stack.Forms(t, portal) }

func portal(t *testing.T, form ...string) {
	s := stack.Start(t, stack.Shipped(t), form...)
	s.Tollgate("account", "set", "acc_1", "--plan", "starter", "--label", "Ada Lovelace")
	site := startSite(t, s)
	jar, err := cookiejar.New(nil)
	must(t, err)
	browser := &http.Client{Jar: jar}
	open := func(url string) (*http.Response, string) {
		t.Helper()
		request, err := http.NewRequest(http.MethodGet, url, nil)
		must(t, err)
		if strings.HasPrefix(url, site) {
			request.Header.Set("Cookie", "session=of-ada")
		}
		response, err := browser.Do(request)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return response, string(body)
	}
	response, body := open(site + "/usage")
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Request.URL.String(), s.Address+"/settings/keys") || !strings.Contains(body, "Ada Lovelace") {
		t.Errorf("the site led to %s: %d %s", response.Request.URL, response.StatusCode, body)
	}
	if response, body := open(s.Address + "/usage"); response.StatusCode != http.StatusOK || !strings.Contains(body, "convert") {
		t.Errorf("My usage: %d %s", response.StatusCode, body)
	}
	// The operator's pages are unknown to this visit, in each spelling.
	for path, want := range map[string]int{"/operator": 404, "/operator/accounts/acc_1/link": 404, "/%6fperator/accounts": 404, "/OPERATOR": 404, "//operator": 400, "/x/..%2foperator": 400, "/operator;x": 404} {
		if response, body := open(s.Address + path); response.StatusCode != want || strings.Contains(body, "Audit") {
			t.Errorf("%s: got %d, want %d", path, response.StatusCode, want)
		}
	}
	spent := regexp.MustCompile(`\S+/portal\?link=\S+`).FindString(s.Tollgate("account", "link", "acc_1"))
	if response, _ := open(spent); response.StatusCode != http.StatusOK {
		t.Errorf("the link of the command got %d", response.StatusCode)
	}
	if response, _ := open(spent); response.StatusCode != http.StatusGone {
		t.Errorf("a spent link got %d", response.StatusCode)
	}
	s.Stop()
	_, token, _ := strings.Cut(spent, "link=")
	if log := read(t, s.AccessLog()) + s.Log(); token == "" || strings.Contains(log, token) {
		t.Errorf("a log has the link %q", spent)
	}
}

// startSite runs examples/portal.py until the test ends.
func startSite(t *testing.T, s *stack.Stack) (address string) {
	t.Helper()
	port := stack.FreePorts(t, 1)[0]
	cmd := exec.Command("python3", filepath.Join(stack.Root(), "examples", "portal.py"))
	cmd.Env = append(os.Environ(), "PORT="+port, "SESSION=of-ada", "TOLLGATE_SECRET="+stack.Secret, "TOLLGATE_CONTROL="+strings.TrimPrefix(s.Control(), "http://"))
	output := &stack.Output{}
	cmd.Stdout, cmd.Stderr = output, output
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the output of the site:\n%s", output)
		}
	})
	address = "http://127.0.0.1:" + port
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get(address)
		if err == nil {
			response.Body.Close()
			if response.StatusCode != http.StatusNotFound {
				t.Errorf("without a session, the site answered %d", response.StatusCode)
			}
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("the site does not answer: %v", err)
		}
	}
}

// Threat: a stranger opens links that no gate made, and each makes upstream ask the
// gate for its keys.
func TestForgedPortalLinksDoNotKeepTheGateBusy(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	s.Tollgate("account", "set", "acc_1", "--plan", "starter")
	control, err := url.Parse(s.Control())
	must(t, err)
	var fetched atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(control)
	counting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tollgate/jwks.json" {
			fetched.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(counting.Close)
	s.StopUpstream()
	s.Set("TOLLGATE_CONTROL", counting.Listener.Addr().String())
	s.StartUpstream()
	open := func(link string, want int) {
		t.Helper()
		response, body := s.Call("GET", "/portal?link="+link, "", nil)
		if response.StatusCode != want {
			t.Errorf("got %d, want %d: %s", response.StatusCode, want, body)
		}
	}
	forge := func(n int, at time.Time) string {
		link, _ := signer(t, fmt.Sprint(strings.Repeat("forged ", 6), n)).Portal(s.Address+"/portal", "acc_1", at)
		return link
	}
	for n := range 20 {
		open(forge(n, time.Now().Add(-assertion.Lifetime)), http.StatusGone)
		open(forge(n, time.Now().Add(time.Hour)), http.StatusGone)
		open(fmt.Sprint("garbage.of.", n), http.StatusGone)
	}
	if n := fetched.Load(); n != 0 {
		t.Errorf("expired and malformed links made %d fetches", n)
	}
	began := time.Now()
	for n := range 60 {
		open(forge(n, time.Now()), http.StatusGone)
	}
	if n, most := fetched.Load(), 1+int64(time.Since(began)/(2*time.Second)); n < 1 || n > most {
		t.Errorf("60 forged links made %d fetches, want 1 to %d", n, most)
	}
	_, link, _ := strings.Cut(strings.TrimSpace(s.Tollgate("account", "link", "acc_1")), "link=")
	open(link, http.StatusSeeOther)
}
