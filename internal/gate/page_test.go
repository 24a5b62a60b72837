package gate_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// browser is the Accept of a browser that opens a page.
const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// formType is the Content-Type of a web form.
const formType = "Content-Type: application/x-www-form-urlencoded"

// newPageWorld is a world in Berlin with a web form in front of a login.
func newPageWorld(t *testing.T) *world {
	return newWorld(t, func(c *policy.Config) {
		c.Timezone = "Europe/Berlin"
		c.Logins = append(c.Logins, "POST /login")
	})
}

// TestPages: a browser gets each refusal as a page with the status and the
// headers of the JSON, the wait in words, and a link.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newPageWorld(t)
	bearer := w.account(t, "acc_1")
	for range 5 {
		w.get(t, convert, bearer)
	}
	w.next = wrong
	for range 5 {
		if _, err := w.ask("POST", "/login", "email=a%40example.com", formType); err != nil {
			t.Fatal(err)
		}
	}
	w.next = func(_ http.ResponseWriter, r *http.Request) error {
		if r.URL.Path == "/slow" {
			return failure(http.StatusGatewayTimeout)
		}
		return failure(http.StatusBadGateway)
	}
	token := "Authorization: Bearer " + bearer
	const start, form = `<a href="/">To the start page</a>`, `<a href="">Back to the form</a>`
	for name, c := range map[string]struct {
		method, target, body string
		header               []string
		status               int
		says                 []string
	}{
		"no token":            {"GET", convert, "", nil, 401, []string{"An API key is required", "Send an API key", start}},
		"unknown path":        {"GET", "/api/nothing", "", nil, 404, []string{"Page not found", start}},
		"bad path":            {"GET", "/a/../b", "", nil, 400, []string{"This request is not valid", "read in more than one way", start}},
		"quota":               {"GET", convert, "", []string{token}, 429, []string{"Daily limit reached", "The limit is 5 calls a day to convert.", "Try again at midnight (Europe/Berlin), in about 11 hours.", start}},
		"throttled form":      {"POST", "/login", "email=b%40example.com", []string{formType}, 429, []string{"Too many attempts", "Try again in 60 seconds.", form}},
		"form too long":       {"POST", "/login", "email=" + strings.Repeat("x", 5000), []string{formType}, 413, []string{"The form is too long", form}},
		"form not readable":   {"POST", "/login", "email=%zz", []string{formType}, 400, []string{"The form could not be read", form}},
		"upstream of a call":  {"GET", "/api/rates/EUR", "", []string{token}, 502, []string{"Back in a moment", start}},
		"text of the request": {"GET", `/api/<script>alert(1)</script>`, "", []string{"Referer: <script>alert(2)</script>"}, 404, []string{"Page not found", start}},
	} {
		t.Run(name, func(t *testing.T) {
			program, err := w.ask(c.method, c.target, c.body, c.header...)
			if err != nil {
				t.Fatal(err)
			}
			person, err := w.ask(c.method, c.target, c.body, append(c.header, browser)...)
			if err != nil {
				t.Fatal(err)
			}
			if program.Code != c.status || person.Code != c.status || !strings.HasPrefix(program.Body.String(), `{"message":`) {
				t.Fatalf("got %d %s and %d %s, want %d as JSON and as a page", program.Code, program.Body, person.Code, person.Body, c.status)
			}
			checkPage(t, program, person)
			if head, err := w.ask("HEAD", c.target, "", append(c.header, browser)...); c.method == "GET" && (err != nil || head.Code != c.status || head.Body.Len() > 0 || head.Header().Get("Content-Length") != person.Header().Get("Content-Length")) {
				t.Errorf("HEAD: got %d %v %s, %v", head.Code, head.Header(), head.Body, err)
			}
			for _, words := range c.says {
				if !strings.Contains(person.Body.String(), words) {
					t.Errorf("no %q in %s", words, person.Body)
				}
			}
		})
	}
}

var styleElement = regexp.MustCompile(`(?s)<style>(.*)</style>`)

// checkPage compares a page with the JSON of the same refusal, and wants a
// policy that allows the page's own style and nothing else.
func checkPage(t *testing.T, program, person *httptest.ResponseRecorder) {
	t.Helper()
	h, body := person.Header(), person.Body.String()
	for name, values := range program.Header() {
		switch name {
		case "Content-Type", "Content-Length", "Vary", "Connection":
		default:
			if got := h[name]; strings.Join(got, "|") != strings.Join(values, "|") {
				t.Errorf("%s: got %q, and %q as JSON", name, got, values)
			}
		}
	}
	style := styleElement.FindStringSubmatch(body)
	if style == nil {
		t.Fatalf("no style in %s", body)
	}
	sum := sha256.Sum256([]byte(style[1]))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Length": strconv.Itoa(len(body)), "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "Content-Security-Policy": policy,
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	want := append(program.Header()["Vary"], "Accept")
	if got := h["Vary"]; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("Vary: got %q, want %q", got, want)
	}
	for _, foreign := range []string{"<script", "alert", "http:", "https:", "onclick", "ZgotmplZ"} {
		if strings.Contains(body, foreign) {
			t.Errorf("%q is in %s", foreign, body)
		}
	}
}

// TestOpenPathThatFails: outside of the guards, errors are those of the site.
func TestOpenPathThatFails(t *testing.T) {
	t.Parallel()
	w := newPageWorld(t)
	for _, status := range []failure{400, 404, 413, 499, 502, 503, 504} {
		for _, begun := range []bool{false, true} {
			w.next = func(rw http.ResponseWriter, _ *http.Request) error {
				if begun {
					rw.WriteHeader(http.StatusAccepted)
				}
				return status
			}
			answer, err := w.ask("GET", "/settings", "")
			if !errors.Is(err, status) || answer.Body.Len() > 0 || begun != (answer.Code == http.StatusAccepted) {
				t.Errorf("%d, begun %t: got %d %s, %v", status, begun, answer.Code, answer.Body, err)
			}
		}
	}
}
