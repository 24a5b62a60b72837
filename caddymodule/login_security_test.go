package caddymodule_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"strings"
	"testing"
	"unicode/utf16"
)

// Each of these attacks tries to guess at an account without the gate
// counting it for that account: gate and upstream are to read different
// e-mails out of one request. None may reach the upstream at all.
func TestLoginSmuggling(t *testing.T) {
	const mail, pass = "email=a%40example.com", "password=x"
	const plain = `{"email":"a@example.com","password":"x"}`
	s := start(t, setup{upstream: password, gate: loose})
	for _, c := range []struct {
		threat, target, body string
		headers              []string
		status               int
		code                 string
	}{
		// Parsers differ in which of two members wins.
		{"duplicate member", "", `{"email":"b@example.com","email":"a@example.com"}`, json1, 400, "invalid_request"},
		{"duplicate password", "", `{"email":"a@example.com","password":"x","password":"y"}`, json1, 400, "invalid_request"},
		{"duplicate member, escaped", "", `{"email":"b@example.com","\u0065mail":"a@example.com"}`, json1, 400, "invalid_request"},
		// Parsers that ignore case take the last of these.
		{"duplicate member in capitals", "", `{"email":"b@example.com","EMAIL":"a@example.com"}`, json1, 400, "invalid_request"},
		{"duplicate elsewhere", "", `{"email":"a@example.com","x":{"y":1,"y":2}}`, json1, 400, "invalid_request"},
		{"duplicate field", "/login", mail + "&email=b%40example.com", form1, 400, "invalid_request"},
		{"duplicate field in capitals", "/login", mail + "&Email=b%40example.com", form1, 400, "invalid_request"},
		// PHP drops spaces before a name.
		{"duplicate field behind a space", "/login", mail + "&+email=b%40example.com", form1, 400, "invalid_request"},
		{"duplicate field encoded", "/login", mail + "&%65mail=b%40example.com", form1, 400, "invalid_request"},
		{"semicolons between fields", "/login", "email=b%40example.com;" + mail, form1, 400, "invalid_request"},
		{"broken escape", "/login", "email=%zz", form1, 400, "invalid_request"},
		{"invalid UTF-8 in a form", "/login", "email=%ff%40example.com", form1, 400, "invalid_request"},
		// Servers that merge query and form let either of them win.
		{"account in the query of a form", "/login?" + mail, pass, form1, 400, "invalid_request"},
		{"account in the query of JSON", "/api/login?" + mail, plain, json1, 400, "invalid_request"},
		{"account in the query, encoded", "/api/login?%65mail=x", plain, json1, 400, "invalid_request"},
		{"password in the query", "/api/login?Password=x", plain, json1, 400, "invalid_request"},
		{"query with a semicolon", "/api/login?a=1;email=x", plain, json1, 400, "invalid_request"},
		// Some servers read only the first value, others only the last.
		{"trailing data", "", plain + plain, json1, 400, "invalid_request"},
		{"trailing NUL", "", plain + "\x00", json1, 400, "invalid_request"},
		{"comment", "", `{/* */"email":"a@example.com"}`, json1, 400, "invalid_request"},
		{"byte order mark", "", "\ufeff" + plain, json1, 400, "invalid_request"},
		{"array", "", `[` + plain + `]`, json1, 400, "invalid_request"},
		{"null", "", `null`, json1, 400, "invalid_request"},
		{"empty", "", ``, json1, 400, "invalid_request"},
		{"cut off", "", plain[:20], json1, 400, "invalid_request"},
		{"email as null", "", `{"email":null}`, json1, 400, "invalid_request"},
		{"email as array", "", `{"email":["a@example.com"]}`, json1, 400, "invalid_request"},
		{"email as object", "", `{"email":{"$ne":""}}`, json1, 400, "invalid_request"},
		{"email as number", "", `{"email":1}`, json1, 400, "invalid_request"},
		{"password as object", "", `{"email":"a@example.com","password":{"$ne":""}}`, json1, 400, "invalid_request"},
		{"invalid UTF-8", "", "{\"email\":\"\xff@example.com\"}", json1, 400, "invalid_request"},
		{"half a surrogate", "", `{"email":"\ud800@example.com"}`, json1, 400, "invalid_request"},
		// A bomb: nesting, and numbers that take a big machine's time.
		{"deep nesting", "", `{"x":` + strings.Repeat("[", 4000), json1, 400, "invalid_request"},
		{"too large", "", `{"x":"` + strings.Repeat("a", 4<<10) + `"}`, json1, 413, "body_too_large"},
		{"far too large", "", strings.Repeat("a", 1<<20), json1, 413, "body_too_large"},
		// Encodings under which the bytes mean something else.
		{"gzip", "", squeezed(plain), []string{json1[0], "Content-Encoding: gzip"}, 415, "unsupported_media_type"},
		{"gzip behind an empty field", "", squeezed(plain), []string{json1[0], "Content-Encoding: ", "Content-Encoding: gzip"}, 415, "unsupported_media_type"},
		{"gzip behind identity", "", squeezed(plain), []string{json1[0], "Content-Encoding: identity, gzip"}, 415, "unsupported_media_type"},
		{"UTF-16", "", wide(plain), []string{"Content-Type: application/json; charset=utf-16"}, 415, "unsupported_media_type"},
		{"UTF-16 unannounced", "", wide(plain), json1, 400, "invalid_request"},
		{"UTF-7", "", plain, []string{"Content-Type: application/json; charset=utf-7"}, 415, "unsupported_media_type"},
		{"two charsets", "", plain, []string{"Content-Type: application/json; charset=utf-8; charset=utf-7"}, 415, "unsupported_media_type"},
		{"empty charset", "", plain, []string{`Content-Type: application/json; charset=""`}, 415, "unsupported_media_type"},
		{"two content types", "", plain, []string{asJSON, asForm}, 415, "unsupported_media_type"},
		{"no content type", "", plain, nil, 415, "unsupported_media_type"},
		{"text", "", plain, []string{"Content-Type: text/plain"}, 415, "unsupported_media_type"},
		{"multipart", "", "--x\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\na\r\n--x--\r\n", []string{"Content-Type: multipart/form-data; boundary=x"}, 415, "unsupported_media_type"},
		{"XML", "", "<email>a</email>", []string{"Content-Type: application/xml"}, 415, "unsupported_media_type"},
		{"a list of content types", "", plain, []string{"Content-Type: application/json, application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
	} {
		t.Run(c.threat, func(t *testing.T) {
			before := s.upstream.seen()
			got := s.ask(t, "POST", cmp.Or(c.target, "/api/login"), c.body, c.headers...)
			if got.status != c.status || got.code() != c.code {
				t.Errorf("got %d %s, want %d %s", got.status, got.body, c.status, c.code)
			}
			if n := s.upstream.seen() - before; n != 0 {
				t.Errorf("the upstream saw %d requests", n)
			}
		})
	}
}

var json1, form1 = []string{asJSON}, []string{asForm}

func squeezed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return b.String()
}

func wide(text string) string {
	b := []byte{0xfe, 0xff}
	for _, unit := range utf16.Encode([]rune(text)) {
		b = append(b, byte(unit>>8), byte(unit))
	}
	return string(b)
}

// Framing is taken from whatever the client sent to what the gate has
// read: the upstream cannot be told of another length.
func TestLoginFraming(t *testing.T) {
	const body = `{"email":"a@example.com"}`
	s := start(t, setup{upstream: password, gate: strings.Replace(loose, "per_account 3", "per_account 100", 1)})
	for threat, c := range map[string]struct{ head, body, want string }{
		"chunked":             {"Transfer-Encoding: chunked\r\n", "19\r\n" + body + "\r\n0\r\n\r\n", "401"},
		"chunks and trailers": {"Transfer-Encoding: chunked\r\nTrailer: Tollgate-Account\r\n", "19\r\n" + body + "\r\n0\r\nTollgate-Account: acc_1\r\nX-Other: 1\r\n\r\n", "401"},
		// net/http goes by the chunks (RFC 9112, 6.3) and forgets the length.
		"both lengths":  {"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "19\r\n" + body + "\r\n0\r\n\r\n", "401"},
		"gzip, chunked": {"Transfer-Encoding: gzip, chunked\r\n", "19\r\n" + body + "\r\n0\r\n\r\n", "501"},
		"upgrade":       {"Content-Length: 25\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\n", body, "401"},
	} {
		t.Run(threat, func(t *testing.T) {
			before := s.upstream.seen()
			got := s.raw(t, "POST /api/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"+c.head+"\r\n"+c.body)
			if !strings.HasPrefix(got, "HTTP/1.1 "+c.want) || strings.Count(got, "HTTP/1.1 ") != 1 {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if s.upstream.seen() == before {
				return
			}
			r, seen := s.upstream.last(t)
			if seen != body || r.ContentLength != int64(len(body)) || len(r.TransferEncoding)+len(r.Trailer) != 0 || r.Header.Get("Upgrade") != "" {
				t.Errorf("the upstream got %q, length %d, %v, trailers %v, %v", seen, r.ContentLength, r.TransferEncoding, r.Trailer, r.Header)
			}
		})
	}
}

// Whether an e-mail has an account must not show: known and unknown ones
// are held up alike, byte for byte.
func TestLoginTellsNothing(t *testing.T) {
	s := start(t, setup{upstream: password, gate: loose})
	if got := logIn(t, s, "known@example.com", true); got.status != 200 {
		t.Fatalf("got %+v", got)
	}
	var texts []string
	for _, email := range []string{"known@example.com", "unknown@example.com"} {
		var got answered
		for range 4 {
			got = logIn(t, s, email, false)
		}
		if got.status != 429 {
			t.Errorf("%s: got %+v", email, got)
		}
		texts = append(texts, got.body)
	}
	if texts[0] != texts[1] {
		t.Errorf("got %q and %q", texts[0], texts[1])
	}
}

// Threat: an upstream that is lenient with paths takes another spelling of
// the login for the login. Beside the guard that would be a way to guess
// which the gate does not count.
func TestDisguisedLogin(t *testing.T) {
	s := start(t, setup{upstream: password, gate: loose})
	for _, target := range []string{"/LOGIN", "/Login/", "/login/", "/login;x=1", "/login;", "/lo%67in;/", "/lo%2567in", "/login%3Fx", "/login%23x", "/login%253Fx"} {
		got := s.ask(t, "POST", target, "email=a%40example.com&password=x", form1...)
		if got.status != 404 && got.status != 400 {
			t.Errorf("%s: got %d %s, want a refusal", target, got.status, got.body)
		}
	}
	for _, method := range []string{"post", "Post"} {
		if got := s.raw(t, method+" /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\nemail=a&p=x"); !strings.HasPrefix(got, "HTTP/1.1 404") {
			t.Errorf("%s: got %s, want 404", method, got)
		}
	}
	if n := s.upstream.seen(); n != 0 {
		t.Errorf("the upstream saw %d guesses", n)
	}
	for _, c := range [][2]string{{"GET", "/LOGIN"}, {"POST", "/logins"}, {"POST", "/login/help"}} {
		if got := s.ask(t, c[0], c[1], "x=y", form1...); got.status == 404 {
			t.Errorf("%s %s is no login, and got %d %s", c[0], c[1], got.status, got.body)
		}
	}
}
