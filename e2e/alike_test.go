package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// normalisations are all differences between the two forms that the
// comparison ignores: what a proxy adds, and values that are new each time.
var normalisations = []struct {
	pattern *regexp.Regexp
	by      string
}{
	// Caddy's proxy replaces Server (RFC 9110, 7.6.3).
	{regexp.MustCompile(`(?m)^Via: 1\.1 Caddy\r\n`), "Server: Caddy\r\n"},
	{regexp.MustCompile(`(?m)^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n`), "Date: TIME\r\n"},
	// Waits, resets and lives in seconds.
	{regexp.MustCompile(`private, max-age=\d+`), "private, max-age=SECONDS"},
	{regexp.MustCompile(`;t=\d+`), ";t=SECONDS"},
	{regexp.MustCompile(`(?m)^Retry-After: \d\d+\r\n`), "Retry-After: SECONDS\r\n"},
	// Random tokens and ids.
	{regexp.MustCompile(`tgl_[0-9A-Za-z]{49}`), "tgl_TOKEN"},
	{regexp.MustCompile(`(tg[kl]_…)[0-9A-Za-z]{4}`), "${1}HINT"},
	{regexp.MustCompile(`,"request_id":"[0-9a-f-]{36}"`), ""}, // only of refusals of the gate
	{regexp.MustCompile(`acc_[0-9A-Za-z]{20}`), "acc_ID"},
	{regexp.MustCompile(`key_[0-9A-Za-z]{16}`), "key_ID"},
	{regexp.MustCompile(`(?m)^(Set-Cookie: tollgate=)[0-9A-Za-z_-]{43}; Path=/; Expires=[^;]+;`), "${1}COOKIE; Path=/; Expires=TIME;"},
	// Times and durations of recent calls, keys and sessions, as JSON and on
	// pages.
	{regexp.MustCompile(`(name="session" value=")[0-9A-Za-z_-]{43}"`), `${1}ID"`},
	{regexp.MustCompile(`"at":"[^"]+"`), `"at":"TIME"`},
	{regexp.MustCompile(`"duration_ms":[0-9.]+`), `"duration_ms":N`},
	{regexp.MustCompile(`<time datetime="[^"]+" title="[^"]+">[^<]+</time>`), "<time>TIME</time>"},
	{regexp.MustCompile(`<td class="number">[0-9.,]+ m?s`), "<td>N ms"},
}

// interim is the status line of an answer before a body.
const interim = "HTTP/1.1 100 Continue"

// differing are the requests whose answers differ otherwise, and the part
// that does.
var differing = map[string]difference{
	"malformed chunk": {regexp.MustCompile(`Content-Length: .*\n|Vary: Accept\n|"message":"[^"]+"`),
		"with a proxy, the gate reports the body that the proxy cannot read; without, the API does"},
	"HEAD of usage":               {regexp.MustCompile(`Content-Length: .*\n`), "the durations of the recent calls have more or fewer digits"},
	"OpenAPI":                     portOfSite,
	"OpenAPI from another origin": portOfSite,
	"calls page":                  {regexp.MustCompile(`Content-Length: .*\n`), "the durations of the recent calls have more or fewer digits"},
	"usage page": {regexp.MustCompile(`Content-Length: .*\n|aria-label="Calls a day[^"]*"|<path class="refused"[^>]*>|Refused <strong>\d+</strong>|<tr><th scope="row">.*\n`),
		"the malformed chunk counts as refused where the gate refuses it"},
	"long batch":         unread,
	"batch as text":      unread,
	"long batch as text": unread,
	"huge batch as text": unread,
	"compressed batch":   unread,
}

type difference struct {
	ignored *regexp.Regexp
	reason  string
}

var portOfSite = difference{regexp.MustCompile(`Etag: .*\n`), "the document has the port of the site"}

var unread = difference{regexp.MustCompile(`Connection: close\n`),
	"a proxy has read the body to its end, and the API has not: the gate then closes the connection"}

// side is one of the two forms, with the values of its placeholders.
type side struct {
	*stack.Stack
	host   string
	values *strings.Replacer
}

// TestOneProcessAnswersAlike sends the same requests to gate and upstream in
// two processes and in one. It compares the answers byte by byte, except for
// the normalisations, the order of fields and the chunks of a body.
func TestOneProcessAnswersAlike(t *testing.T) {
	t.Parallel()
	two, one := newSide(t), newSide(t, stack.OneProcess)
	for _, r := range alike {
		t.Run(r.name, func(t *testing.T) {
			proxied, direct := two.exchange(t, r.text), one.exchange(t, r.text)
			if d, found := differing[r.name]; found {
				proxied, direct = d.ignored.ReplaceAllString(proxied, ""), d.ignored.ReplaceAllString(direct, "")
			}
			if proxied != direct {
				t.Errorf("%.300s\nonly in two processes:\n%.9000s\nonly in one process:\n%.9000s", r.text, without(proxied, direct), without(direct, proxied))
			}
			if _, status, _ := strings.Cut(direct, " "); !strings.HasPrefix(status, r.status) {
				t.Errorf("%.300s\ngot %.300s, want status %s", r.text, direct, r.status)
			}
		})
	}
}

// without returns the lines of a text that another one does not have.
func without(text, other string) string {
	others := strings.Split(other, "\n")
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(others, line) }), "\n")
}

// newSide starts a form, with the accounts and keys of the requests.
func newSide(t *testing.T, form ...string) *side {
	t.Helper()
	caddyfile := stack.Shipped(t, "per_client 5 1m", "per_client 1000 1m", "per_account 10 30s 15m", "per_account 2 30s 15m",
		"convert 1000\n", "convert 1000\n\t\t\tconvert 2000 month\n", "history 10000\n", "\n")
	s := &side{Stack: stack.Start(t, caddyfile, form...)}
	s.host = strings.TrimPrefix(s.Address, "http://")
	ada, bob, eve := newAccount(t, s.Stack, "ada@example.com", "starter"), newAccount(t, s.Stack, "bob@example.com", "starter"), newAccount(t, s.Stack, "eve@example.com", "business")
	key := func(account, name string, args ...string) string {
		return decode[issued](t, s.Tollgate(append([]string{"key", "create", account, "--name", name, "--json"}, args...)...)).Token
	}
	business, revoked := key(eve, "business"), newKey(t, s.Stack, ada, "revoked")
	s.Tollgate("key", "revoke", ada, revoked.ID)
	s.Tollgate("limit", "set", eve, "rates", "1")
	free := key(bob, "free")
	s.Upstream("", "account", "set", bob, "--plan", "free")
	values := []string{
		"{host}", s.host, "{key}", key(ada, "ci"), "{narrow}", key(ada, "narrow", "--ability", "history"), "{far}", key(ada, "far", "--from", "203.0.113.0/24"),
		"{limited}", key(ada, "limited", "--limit", "currencies 1 day"), "{business}", business, "{revoked}", revoked.Token, "{free}", free,
	}
	_, front := s.Call("GET", "/", "", nil)
	values = append(values, "{css}", regexp.MustCompile(`/static/[0-9a-f]+/base\.css`).FindString(front))
	response, text := s.Call("GET", "/api/history/EUR/USD", key(ada, "setup"), nil)
	if response.Header.Get("Etag") == "" {
		t.Fatalf("got no ETag: %d %s", response.StatusCode, text)
	}
	values = append(values, "{etag}", response.Header.Get("Etag"))
	s.values = strings.NewReplacer(values...)
	login := s.send(t, submit("/login", formType, "email=ada%40example.com&password=correct+horse+battery+staple"))
	cookie := regexp.MustCompile(`Set-Cookie: ([^;]+);`).FindStringSubmatch(login)
	if cookie == nil {
		t.Fatalf("got no cookie: %s", login)
	}
	s.values = strings.NewReplacer(append(values, "{cookie}", cookie[1])...)
	return s
}

// exchange returns the normalised answer to a request: the status line, the
// fields sorted, and the body. Before it comes the line of an interim answer.
func (s *side) exchange(t *testing.T, text string) string {
	t.Helper()
	answer, continued := strings.CutPrefix(s.send(t, text), interim+"\r\n\r\n")
	head, body, _ := strings.Cut(strings.ReplaceAll(answer, s.host, "HOST"), "\r\n\r\n")
	head, length := head+"\r\n", len(body)
	for _, n := range normalisations {
		head, body = n.pattern.ReplaceAllString(head, n.by), n.pattern.ReplaceAllString(body, n.by)
	}
	// Content-Length counts what is normalised.
	head = strings.Replace(head, fmt.Sprintf("Content-Length: %d\r\n", length), fmt.Sprintf("Content-Length: %d\r\n", len(body)), 1)
	lines := strings.Split(strings.TrimSuffix(head, "\r\n"), "\r\n")
	slices.Sort(lines[1:])
	if continued {
		lines = append(lines, "after 100 Continue")
	}
	return strings.Join(lines, "\n") + "\n\n" + body
}

// send sends the text of a request with its placeholders filled, and returns
// the answer. If the connection stays open, it must be good for a second
// request.
func (s *side) send(t *testing.T, text string) string {
	t.Helper()
	conn := dial(t, s.Stack)
	defer conn.Close()
	text = s.values.Replace(text)
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	reader := newAnswers(conn, text)
	write(t, conn, head+"\r\n\r\n")
	expects := strings.Contains(head, "Expect:")
	if expects {
		// What the server answers before the body is part of the answer.
		if answer := reader.next(t); !strings.HasPrefix(answer, interim) {
			return answer
		}
	}
	write(t, conn, body)
	answer := reader.next(t)
	for strings.HasPrefix(answer, interim) {
		answer = reader.next(t) // the proxy passes on that of the upstream, too
	}
	if expects {
		answer = interim + "\r\n\r\n" + answer
	}
	if reader.last {
		if _, err := reader.ReadByte(); err == nil {
			t.Errorf("%.200s\nmore follows the last answer", text)
		}
		return answer
	}
	write(t, conn, "GET /healthz HTTP/1.1\r\nHost: "+s.host+"\r\n\r\n")
	if second := reader.next(t); !strings.HasPrefix(second, "HTTP/1.1 200") {
		t.Errorf("%.200s\nthe next request gets %s", text, second)
	}
	return answer
}

// write writes to a connection. The server may have closed it: its answer
// is what counts.
func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Logf("writing: %v", err)
	}
}

// answers reads the answers of a connection.
type answers struct {
	*bufio.Reader
	raw    bytes.Buffer // all that the server sent
	method string
	last   bool // the server closes the connection
}

func newAnswers(conn net.Conn, request string) *answers {
	a := &answers{}
	a.method, _, _ = strings.Cut(request, " ")
	a.Reader = bufio.NewReader(io.TeeReader(conn, &a.raw))
	return a
}

// next reads an answer. It returns the head as sent, and the body without
// chunks.
func (a *answers) next(t *testing.T) string {
	t.Helper()
	start := a.raw.Len() - a.Buffered()
	response, err := http.ReadResponse(a.Reader, &http.Request{Method: a.method})
	if err != nil {
		t.Fatalf("%v: %s", err, &a.raw)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%v: %s", err, &a.raw)
	}
	a.last, a.method = response.Close, http.MethodGet
	head, _, _ := strings.Cut(a.raw.String()[start:], "\r\n\r\n")
	return head + "\r\n\r\n" + string(body)
}
