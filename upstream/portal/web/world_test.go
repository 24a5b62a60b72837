package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

const (
	password = "correct horse battery staple"
	other    = "another horse altogether"
)

// world is the web pages over a real database and a real control API.
type world struct {
	*httptest.Server
	t        testing.TB
	accounts *account.Service
	store    *database.Store
	gate     *gatetest.Gate
	clock    *clock
}

// clock is a clock that tests set.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// newWorld returns pages, with their settings changed by edit.
func newWorld(t testing.TB, edit ...func(*web.Config)) *world {
	t.Helper()
	store := accounttest.Open(t)
	w := &world{t: t, store: store, gate: gatetest.Start(t), clock: &clock{}}
	logger := slog.New(slog.DiscardHandler)
	w.accounts = account.NewService(store, w.gate.Client, accounttest.Hasher(), time.Now, logger)
	config := web.Config{
		Accounts: w.accounts, Sessions: store, Gate: w.gate.Client,
		Site: web.Site{Address: &url.URL{Scheme: "http", Host: "localhost:8080"}, Timezone: "UTC",
			Hosts: func(host string) bool { return host == "localhost" }}, Now: w.clock.now, Logger: logger,
	}
	for _, e := range edit {
		e(&config)
	}
	handler, err := web.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.Server = httptest.NewServer(handler)
	t.Cleanup(w.Close)
	return w
}

func (w *world) add(email account.Email, plan string) account.Account {
	w.t.Helper()
	a, err := w.accounts.Add(context.Background(), email, password, plan)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// keys returns the names of an account's live keys.
func (w *world) keys(id string) []string {
	w.t.Helper()
	keys, err := w.gate.Client.Keys(context.Background(), id, client.KeyFilter{})
	if err != nil {
		w.t.Fatal(err)
	}
	names := []string{}
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return names
}

// logins returns how many live login tokens an account has.
func (w *world) logins(id string) int {
	w.t.Helper()
	logins, err := w.gate.Client.Keys(context.Background(), id, client.KeyFilter{Kind: "login"})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(logins)
}

// person is a person with a browser of their own.
type person struct {
	*world
	client *http.Client
}

func (w *world) person() *person {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &person{w, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// answer is what a person got.
type answer struct {
	status   int
	location string
	header   http.Header
	body     string
}

// do makes a request with headers in pairs.
func (p *person) do(method, target string, form url.Values, header ...string) answer {
	p.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequest(method, p.URL+target, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header.Get("Location"), response.Header, string(text)}
}

func (p *person) get(target string) answer {
	p.t.Helper()
	return p.do(http.MethodGet, target, nil)
}

func (p *person) post(target string, fields ...string) answer {
	p.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return p.do(http.MethodPost, target, form)
}

// signIn signs in with the password.
func (p *person) signIn(email string) *person {
	p.t.Helper()
	if a := p.post("/login", "email", email, "password", password); a.status != http.StatusSeeOther {
		p.t.Fatalf("signing in: got %d %s", a.status, a.body)
	}
	return p
}

// signedIn reports whether the person is signed in. It is not a visit.
func (p *person) signedIn() bool {
	p.t.Helper()
	a := p.get("/settings/plan?background=1")
	if a.status != http.StatusOK && a.status != http.StatusSeeOther {
		p.t.Fatalf("got %d %s", a.status, a.body)
	}
	return a.status == http.StatusOK
}

// cookie returns the session's cookie as a header.
func (p *person) cookie() string {
	p.t.Helper()
	at, err := url.Parse(p.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range p.client.Jar.Cookies(at) {
		return c.Name + "=" + c.Value
	}
	return ""
}

// thief is an attacker with a copy of a cookie.
func (w *world) thief(cookie string) bool {
	w.t.Helper()
	return w.person().do(http.MethodGet, "/settings/plan", nil, "Cookie", cookie).status == http.StatusOK
}

// makeKey makes a key in Settings and returns its id.
func (p *person) makeKey(name string) string {
	p.t.Helper()
	a := p.post("/settings/keys/new", "name", name, "ability", "convert", "life", "90")
	if a.status != http.StatusOK {
		p.t.Fatalf("making key: got %d %s", a.status, a.body)
	}
	ids := regexp.MustCompile(`/settings/keys/(key_[0-9A-Za-z]+|[0-9A-Za-z]{8,})"`).FindAllStringSubmatch(p.get("/settings/keys").body, -1)
	if len(ids) == 0 {
		p.t.Fatal("the list has no key")
	}
	return ids[0][1]
}

func (a answer) has(t testing.TB, status int, words ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("got %d, want %d: %s", a.status, status, a.body)
	}
	for _, word := range words {
		if !strings.Contains(a.body, word) {
			t.Errorf("lacks %q: %s", word, a.body)
		}
	}
}
