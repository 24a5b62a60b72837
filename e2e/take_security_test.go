package e2e_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

const introspecting = "the secret of an end-to-end test that introspects"

// TestTakeAttacks: take_secret opens the two operations of programs and nothing
// else, and nothing else opens them, whatever is sent to the control listener. No
// attack counts a call.
func TestTakeAttacks(t *testing.T) {
	t.Parallel()
	oldnew := withStorm("127.0.0.1:1", 100)
	oldnew[1] += "\n\t\tintrospection_secret \"" + introspecting + "\""
	oldnew[1] = strings.Replace(oldnew[1], "{env.TOLLGATE_SECRET}", "{env.TOLLGATE_SECRET} \"an older secret of an end-to-end test\"", 1)
	s := stack.Start(t, stack.Shipped(t, oldnew...))
	s.Tollgate("account", "set", "acc_1", "--plan", "taken")
	token := newKey(t, s, "acc_1", "ci").Token
	host := strings.TrimPrefix(s.Control(), "http://")
	const take, settle, body = "/tollgate/take", "/tollgate/calls/call_x/settle", `{"account":"acc_1","endpoint":"rates"}`
	bearer := "Bearer " + stormSecret
	// request has the fields of the header one in a line.
	request := func(method, target string, fields ...string) string {
		return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%s\r\n\r\n",
			method, target, host, strings.Join(append(fields, fmt.Sprint("Content-Length: ", len(body)), "Connection: close"), "\r\n")) + body
	}
	own := func(method, target string, fields ...string) string {
		return request(method, target, append(fields, "Authorization: "+bearer)...)
	}
	chunked := "POST " + take + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/json\r\nAuthorization: " + bearer + "\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
	basic := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("service:"+stormSecret))
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"no secret":                   {request("POST", take), 401},
		"no secret for a settlement":  {request("POST", settle), 401},
		"an empty secret":             {request("POST", take, "Authorization: Bearer "), 401},
		"a part of it":                {request("POST", take, "Authorization: "+bearer[:20]), 401},
		"more than it":                {request("POST", take, "Authorization: "+bearer+"x"), 401},
		"the secret of the control":   {request("POST", take, "Authorization: Bearer "+stack.Secret), 401},
		"that one for a settlement":   {request("POST", settle, "Authorization: Bearer "+stack.Secret), 401},
		"the old secret":              {request("POST", take, "Authorization: Bearer an older secret of an end-to-end test"), 401},
		"the one of introspection":    {request("POST", take, "Authorization: Bearer "+introspecting), 401},
		"a key":                       {request("POST", take, "Authorization: Bearer "+token), 401},
		"a key for a settlement":      {request("POST", settle, "Authorization: Bearer "+token), 401},
		"Basic":                       {request("POST", take, basic), 401},
		"two fields":                  {own("POST", take, "Authorization: "+bearer), 401},
		"two fields, one wrong":       {own("POST", take, "Authorization: Bearer x"), 401},
		"two secrets in a field":      {request("POST", take, "Authorization: "+bearer+", "+bearer), 401},
		"a folded field":              {request("POST", take, "Authorization: Bearer x", " "+stormSecret), 401},
		"in the proxy's field":        {request("POST", take, "Proxy-Authorization: "+bearer), 401},
		"in another field":            {request("POST", take, "X-Authorization: "+bearer), 401},
		"in the query":                {request("POST", take+"?access_token="+stormSecret[:3]), 401},
		"a space before the colon":    {request("POST", take, "Authorization : "+bearer), 400},
		"an escaped letter":           {own("POST", "/tollgate/%74ake"), 401},
		"an escaped letter of calls":  {own("POST", "/tollgate/c%61lls/call_x/settle"), 401},
		"an escaped slash":            {own("POST", "/tollgate%2ftake"), 401},
		"another case":                {own("POST", "/tollgate/Take"), 401},
		"two slashes":                 {own("POST", "//tollgate/take"), 401},
		"two slashes inside":          {own("POST", "/tollgate//take"), 401},
		"dots":                        {own("POST", "/tollgate/x/../take"), 401},
		"a path behind it":            {own("POST", take+"/"), 401},
		"a parameter":                 {own("POST", take+";x"), 401},
		"dots behind calls":           {own("GET", "/tollgate/calls/../plans"), 404},
		"escaped dots":                {own("GET", "/tollgate/calls/%2e%2e/plans"), 404},
		"an escaped path behind it":   {own("GET", "/tollgate/calls/..%2fplans"), 404},
		"a path over settle":          {own("POST", "/tollgate/calls/../take"), 404},
		"another operation":           {own("GET", "/tollgate/calls/openapi.json"), 404},
		"calls":                       {own("GET", "/tollgate/calls"), 401},
		"GET":                         {own("GET", take), 405},
		"HEAD":                        {own("HEAD", take), 405},
		"PUT of a settlement":         {own("PUT", settle), 405},
		"a method of another field":   {own("GET", take, "X-HTTP-Method-Override: POST"), 405},
		"a call of no name":           {own("POST", "/tollgate/calls//settle"), 404},
		"an absolute target":          {request("POST", s.Control()+take), 401},
		"an absolute one elsewhere":   {own("POST", s.Control()+"/tollgate/plans"), 401},
		"no JSON":                     {strings.Replace(own("POST", take), "application/json", "text/plain", 1), 415},
		"a body without a length":     {chunked + "\r\n" + "5\r\nhello\r\n0\r\n\r\n", 400},
		"two lengths":                 {own("POST", take, "Content-Length: 5"), 400},
		"a length and chunks":         {chunked + "Content-Length: 5\r\n\r\n" + "5\r\nhello\r\n0\r\n\r\n", 400},
		"a large body":                {strings.Replace(own("POST", take), fmt.Sprint("Content-Length: ", len(body)), "Content-Length: 20000", 1) + strings.Repeat(" ", 20000), 413},
		"a large body in chunks":      {chunked + "\r\n" + strings.Repeat("1000\r\n"+strings.Repeat(" ", 4096)+"\r\n", 5) + "0\r\n\r\n", 413},
		"a body after the wrong word": {request("POST", take, "Authorization: Token "+stormSecret), 401},
	} {
		if got := sendRaw(t, host, c.text); got.StatusCode != c.status {
			t.Errorf("%s: got %d %s, want %d", name, got.StatusCode, got.text, c.status)
		} else if challenge := got.Header.Get("WWW-Authenticate"); got.StatusCode == 401 && challenge != `Bearer realm="tollgate"` {
			t.Errorf("%s: got the challenge %q", name, challenge)
		}
	}
	if used := used(t, s, "acc_1", "rates"); used != 0 {
		t.Errorf("%d calls are counted", used)
	}
	for name, text := range map[string]string{
		"a request": own("POST", take), "bearer": request("POST", take, "authorization: bearer "+stormSecret), "an absolute target": own("POST", s.Control()+take),
		"in chunks": chunked + fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
	} {
		if got := sendRaw(t, host, text); got.StatusCode != 200 || !strings.Contains(got.text, `"admitted":true`) {
			t.Errorf("%s: got %d %s", name, got.StatusCode, got.text)
		}
	}
	if used := used(t, s, "acc_1", "rates"); used != 4 {
		t.Errorf("%d calls are counted, want 4", used)
	}
	opensNothingElse(t, s, host)

	// A program that sends no body keeps no call, and the gate does not wait for ever.
	conn, err := net.Dial("tcp", host)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, strings.TrimSuffix(own("POST", take), body))
	must(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("without a body: got %v, %v", response, err)
	}
	// Neither the site nor the admin endpoint takes calls.
	if got := sendRaw(t, strings.TrimPrefix(s.Address, "http://"), own("POST", take)); got.StatusCode != 404 {
		t.Errorf("the site: got %d %s", got.StatusCode, got.text)
	}
	admin := strings.TrimPrefix(s.Admin(), "http://")
	if got := sendRaw(t, admin, strings.Replace(own("POST", take), "Host: "+host, "Host: "+admin, 1)); got.StatusCode != 404 {
		t.Errorf("the admin endpoint: got %d %s", got.StatusCode, got.text)
	}
}

// opensNothingElse tries take_secret at each operation of the document.
func opensNothingElse(t *testing.T, s *stack.Stack, host string) {
	t.Helper()
	document := sendRaw(t, host, fmt.Sprintf("GET /tollgate/openapi.json HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", host, stack.Secret))
	paths, tried := decode[struct {
		Paths map[string]map[string]any
	}](t, document.text).Paths, 0
	for path, operations := range paths {
		target := strings.NewReplacer("{account}", "acc_1", "{", "", "}", "").Replace(path)
		for method := range operations {
			switch path {
			case "/tollgate/take", "/tollgate/calls/{call}/settle", "/tollgate/health/live", "/tollgate/health/ready", "/tollgate/jwks.json":
				continue // it opens these, or they are public
			}
			tried++
			text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", strings.ToUpper(method), target, host, stormSecret)
			if got := sendRaw(t, host, text); got.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %s: got %d %s", method, path, got.StatusCode, got.text)
			}
		}
	}
	if tried < 30 {
		t.Errorf("the document has %d operations only", tried)
	}
}

// rawAnswer is an answer with its body.
type rawAnswer struct {
	*http.Response
	text string
}

// sendRaw sends bytes and returns the first answer.
func sendRaw(t *testing.T, address, text string) rawAnswer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	go func() { _, _ = io.WriteString(conn, text) }() // the server may stop reading it
	method, _, _ := strings.Cut(text, " ")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	body, _ := io.ReadAll(response.Body) // the server may close a connection whose request it did not read
	return rawAnswer{response, string(body)}
}
