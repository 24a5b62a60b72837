package caddymodule_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
)

// send writes raw lines behind a request line, and a Host, to the site.
func send(t *testing.T, s *site, first, lines, body string) string {
	t.Helper()
	return s.raw(t, first+"\r\nHost: gate.test\r\nConnection: close\r\n"+lines+"\r\n"+body)
}

// TestLargestHeaders: Caddy refuses larger headers before the gate reads them.
func TestLargestHeaders(t *testing.T) {
	s := start(t, setup{})
	for size, want := range map[int]string{15 << 10: "HTTP/1.1 200", 24 << 10: "HTTP/1.1 431"} {
		if answer := send(t, s, "GET /page HTTP/1.1", "X-Long: "+strings.Repeat("x", size)+"\r\n", ""); !strings.HasPrefix(answer, want) {
			t.Errorf("headers of %d bytes got %.40s, want %s", size, answer, want)
		}
	}
}

// A client sends the identity of another account, in every spelling that a server
// might take for the gate's headers: only what the gate says may arrive.
func TestIdentityCannotBeSpoken(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	id, bearer := s.account(t, "small")
	var lines strings.Builder
	for _, name := range []string{"Account", "Plan", "Key", "Abilities", "Assertion", "Role"} {
		for _, spelling := range []string{
			"Tollgate-%s", "tollgate-%s", "TOLLGATE-%s", "tOLLgATE-%s", "Tollgate_%s", "tollgate_%s", "TOLLGATE_%s",
			"Tollgate.%s", "Tollgate--%s", "Tollgate-_%s", "Tollgate-.%s", "Tollgate-X-%s",
		} {
			fmt.Fprintf(&lines, spelling+": evil\r\n", name)
		}
	}
	for target, want := range map[string]string{convert: id, "/page": ""} {
		answer := send(t, s, "GET "+target+" HTTP/1.1", lines.String()+"Authorization: Bearer "+bearer+"\r\n", "")
		if !strings.HasPrefix(answer, "HTTP/1.1 200") {
			t.Fatalf("%s: got %s", target, answer)
		}
		r, _ := s.upstream.last(t)
		if got := strings.Join(r.Header["Tollgate-Account"], "|"); got != want {
			t.Errorf("%s: the upstream got the account %q, want %q", target, got, want)
		}
		if text := fmt.Sprint(r.Header, r.Trailer); strings.Contains(text, "evil") {
			t.Errorf("%s: the upstream got %s", target, text)
		}
	}
}

// Connection names headers that a proxy is to drop (RFC 9110, 7.6.1). A
// client that names the gate's would become nobody, or everybody.
func TestIdentityCannotBeDropped(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	id, bearer := s.account(t, "starter")
	for _, connection := range []string{
		"Tollgate-Account", "tollgate-account, close", "close, Tollgate-Plan, Tollgate-Key, Tollgate-Abilities, Tollgate-Assertion",
		"close,,Tollgate-Account", "keep-alive\r\nConnection: Tollgate-Account", "Tollgate-Account\r\nConnection: Upgrade\r\nUpgrade: h2c",
		"\tTollgate-Account\t", "X-Forwarded-For, Tollgate-Assertion", `"close", Tollgate-Account`,
	} {
		answer := s.raw(t, "GET "+convert+" HTTP/1.1\r\nHost: gate.test\r\nConnection: close\r\nConnection: "+connection+"\r\nAuthorization: Bearer "+bearer+"\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 200") {
			t.Fatalf("%q: got %s", connection, answer)
		}
		r, _ := s.upstream.last(t)
		for _, name := range []string{"Account", "Plan", "Key", "Abilities", "Assertion"} {
			if len(r.Header["Tollgate-"+name]) != 1 {
				t.Errorf("%q: the upstream got Tollgate-%s %q", connection, name, r.Header["Tollgate-"+name])
			}
		}
		if r.Header.Get("Tollgate-Account") != id || r.Header.Get("Upgrade") != "" || r.Header.Get("X-Forwarded-For") == "" {
			t.Errorf("%q: the upstream got %v", connection, r.Header)
		}
	}
}

// A login carries an assertion. A client must not be able to drop it, nor
// to send one.
func TestAssertionOfLogin(t *testing.T) {
	s := start(t, setup{upstream: code(401)})
	answer := send(t, s, "POST /api/login HTTP/1.1", "Connection: Tollgate-Assertion\r\nTollgate-Assertion: 0\r\nContent-Type: application/json\r\nContent-Length: 25\r\n", `{"email":"a@example.com"}`)
	r, _ := s.upstream.last(t)
	claims, err := verifier(t, "gate.test").Verify(strings.Join(r.Header["Tollgate-Assertion"], "|"), assertion.Login)
	if !strings.HasPrefix(answer, "HTTP/1.1 401") || err != nil || claims.Account != "" || claims.Purpose != "login" {
		t.Errorf("got %s, the upstream got %v: %v", answer, r.Header, err)
	}
}

// Trailers come after everything was checked. Some servers merge them
// into the headers: an identity in one would overwrite the gate's.
func TestIdentityCannotTrail(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	_, bearer := s.account(t, "starter", "convert")
	for _, declared := range []string{"Trailer: Tollgate-Account\r\n", "Trailer: X-Sum\r\n", "Trailer: X-Sum, tollgate-plan\r\n", ""} {
		for _, target := range []string{"/api/convert/batch", "/page"} {
			answer := send(t, s, "POST "+target+" HTTP/1.1", declared+"Te: trailers\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer "+bearer+"\r\n",
				"4\r\nbody\r\n0\r\nTollgate-Account: evil\r\ntollgate_plan: evil\r\nX-Sum: 1\r\nAuthorization: evil\r\n\r\n")
			if !strings.HasPrefix(answer, "HTTP/1.1 200") {
				t.Fatalf("%q: got %s", declared, answer)
			}
			r, body := s.upstream.last(t)
			if text := fmt.Sprint(r.Header, r.Trailer); body != "body" || strings.Contains(text, "evil") {
				t.Errorf("%s with %q: the upstream got %q, %s", target, declared, body, text)
			}
			if len(r.Trailer) != 0 {
				t.Errorf("%s with %q: the upstream got trailers %v", target, declared, r.Trailer)
			}
		}
	}
}

// Servers that honour these headers would run another method, path or
// host than the one that was checked and counted.
func TestOverridesNeverArrive(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	_, bearer := s.account(t, "business")
	for _, name := range []string{
		// Methods: Symfony, Laravel, Rack, Express, ASP.NET, Google's APIs.
		"X-HTTP-Method-Override", "x-http-method-override", "X-HTTP-Method", "X-Method-Override", "X_HTTP_Method_Override",
		"X-Original-Method", "X-Forwarded-Method", "X-Envoy-Original-Method", "X-Method", "X-Request-Method", "X-Override-Method",
		// Paths: IIS, Zend, Drupal, Symfony, Spring, ASP.NET Core, Werkzeug,
		// ingress-nginx, oauth2-proxy, Traefik, Envoy, Azure, Next.js.
		"X-Original-URL", "x-original-url", "X-Original-URI", "X-Original-Path", "X-Original.URL", "X_Original_Url", "X-Original-_Url",
		"X-Rewrite-URL", "X-Rewrite-URI", "X-Rewrite-Path", "X-Rewrite", "X-Override-URL", "X-Override-Path",
		"X-Forwarded-URI", "X-Forwarded-URL", "X-Forwarded-Path", "X-Forwarded-Prefix", "X-Forwarded-Request-Uri",
		"X-Forwarded-Original-Uri", "X-Forwarded-Script-Name", "X-Forwarded-Context", "X-Script-Name", "X-Script-Path",
		"Script-Name", "SCRIPT_NAME", "Path-Info", "PATH_INFO", "X-Path-Info", "X-Request-Uri", "X-Request-Path",
		"X-Envoy-Original-Path", "X-HTTP-Path-Override", "X-HTTP-Path", "X-Auth-Request-Redirect", "X-Auth-Request-Uri",
		"X-Waws-Unencoded-Url", "X-Ms-Original-Url", "X-Replaced-Path", "X-Matched-Path", "X-Invoke-Path", "X-Middleware-Rewrite",
		"X-URL", "X-URI", "X-Path", "X-Prefix", "X-Vendor-Original-Url",
		// Words that run together, also as NiFi and ASP.NET have them.
		"X-HTTP-DestinationURL", "X-OriginalURL", "X-RewriteUrl", "X-ProxyContextPath", "X-ProxyHost", "X-Forwarded-PathBase", "X-ScriptName",
		"X-HTTPMethodOverride", "X-MethodOverride", "X-HTTP-MethodOverride", "X_OriginalURI", "X-Vendor-OriginalUrl", "X-RequestURI", "X-PathInfo",
		// Hosts.
		"X-Host", "X-Original-Host", "X-Forwarded-Original-Host", "X-HTTP-Host-Override", "X-Rewrite-Host",
		// What belongs to an upgrade that is always removed.
		"HTTP2-Settings", "Http2_Settings",
	} {
		for _, target := range []string{convert, "/page"} {
			answer := send(t, s, "GET "+target+" HTTP/1.1", name+": /api/internal/x\r\n"+name+": DELETE\r\nAuthorization: Bearer "+bearer+"\r\n", "")
			if r, _ := s.upstream.last(t); !strings.HasPrefix(answer, "HTTP/1.1 200") || strings.Contains(fmt.Sprint(r.Header), "internal") {
				t.Errorf("%s: got %s, the upstream got %v", name, answer, r.Header)
			}
		}
	}
}

// Caddy's proxy sets X-Forwarded-Host anew under that name alone. Other
// spellings of it, where the operator lets them in, are the client's.
func TestForwardedHostInOtherSpellings(t *testing.T) {
	s := start(t, setup{zone: calmZone(), global: "servers {\nexpected_underscore_headers X_Forwarded_Host X-Forwarded_Host\nexpected_dot_headers X.Forwarded.Host\n}"})
	_, bearer := s.account(t, "business")
	for _, name := range []string{"X_Forwarded_Host", "X-Forwarded_Host", "x_forwarded_host", "X.Forwarded.Host", "x.forwarded.host"} {
		for _, target := range []string{convert, "/page"} {
			answer := send(t, s, "GET "+target+" HTTP/1.1", name+": evil\r\nAuthorization: Bearer "+bearer+"\r\n", "")
			if r, _ := s.upstream.last(t); !strings.HasPrefix(answer, "HTTP/1.1 200") || strings.Contains(fmt.Sprint(r.Header), "evil") || r.Header.Get("X-Forwarded-Host") != "gate.test" {
				t.Errorf("%s: got %s, the upstream got %v", name, answer, r.Header)
			}
		}
	}
}

// TestOtherHeadersArrive: the rule takes nothing that services need. The
// first three are Caddy's, which writes them anew.
func TestOtherHeadersArrive(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	_, bearer := s.account(t, "business")
	for name, want := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "gate.test",
		"X-Request-Id": "sent", "X-Requested-With": "sent", "X-Real-Ip": "sent", "X-Callback-Url": "sent", "X-File-Path": "sent",
		"X-Hostname": "sent", "X-Destination-Url": "sent", "X-Curl": "sent", "X-Request-Urls": "sent", "X-Originalurlx": "sent", "X-Pathology-Http": "sent",
		"X-Payment-Method": "sent", "X-Original-Filename": "sent", "X-Forwarded-Port": "sent", "X-Wopi-Override": "sent",
		"X-Security-Token": "sent", "X-Api-Version": "sent", "X-Correlation-Id": "sent", "X-B3-Traceid": "sent", "X-Request-Start": "sent",
		"X-Csrf-Token": "sent", "X-Amz-Date": "sent", "X-Goog-Api-Client": "sent", "X-Hub-Signature-256": "sent",
		"Access-Control-Request-Method": "sent", "Access-Control-Request-Headers": "sent", "Sec-Fetch-Site": "sent",
		"Prefer": "sent", "Priority": "sent", "Soapaction": "sent", "Traceparent": "sent", "Destination": "sent", "Range": "sent",
	} {
		for _, target := range []string{convert, "/page"} {
			answer := send(t, s, "GET "+target+" HTTP/1.1", name+": sent\r\nAuthorization: Bearer "+bearer+"\r\n", "")
			if r, _ := s.upstream.last(t); !strings.HasPrefix(answer, "HTTP/1.1 200") || r.Header.Get(name) != want {
				t.Errorf("%s: got %s, the upstream got %v", name, answer, r.Header)
			}
		}
	}
}

// Two servers that frame a request differently see a second one in its
// body. net/http refuses some before any handler; the rest must reach the
// upstream as one request, with one length.
func TestSmuggling(t *testing.T) {
	const inner = "GET /api/internal/x HTTP/1.1\r\nHost: gate.test\r\nTollgate-Account: evil\r\n\r\n"
	const auth = "Authorization: Bearer TOKEN\r\n"
	s := start(t, setup{zone: calmZone()})
	var earlier []string // accounts
	for _, c := range []struct {
		threat, first, lines, body string
		status                     string
		seen                       int
	}{
		{"CL and TE", "POST /api/convert/batch HTTP/1.1", auth + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + inner, "200", 1},
		{"TE and CL", "POST /api/convert/batch HTTP/1.1", auth + "Transfer-Encoding: chunked\r\nContent-Length: 300\r\n", "0\r\n\r\n" + inner, "200", 1},
		{"two lengths", "POST /api/convert/batch HTTP/1.1", auth + "Content-Length: 0\r\nContent-Length: 80\r\n", inner, "400", 0},
		{"the same length twice", "POST /api/convert/batch HTTP/1.1", auth + "Content-Length: 4\r\nContent-Length: 4\r\n", "body" + inner, "200", 1},
		{"folded line", "GET " + convert + " HTTP/1.1", auth + "X-A: 1\r\n Tollgate-Account: evil\r\n", "", "200", 1},
		{"folded length", "POST /api/convert/batch HTTP/1.1", auth + "Content-Length:\r\n 4\r\n", inner, "200", 1},
		{"bare CR in a value", "GET " + convert + " HTTP/1.1", auth + "X-A: 1\rTollgate-Account: evil\r\n", "", "400", 0},
		{"space before the colon", "GET " + convert + " HTTP/1.1", auth + "Tollgate-Account : evil\r\n", "", "400", 0},
		{"TE in another case", "POST /api/convert/batch HTTP/1.1", auth + "Transfer-Encoding: Chunked\r\n", "0\r\n\r\n" + inner, "200", 1},
		{"TE that is none", "POST /api/convert/batch HTTP/1.1", auth + "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + inner, "501", 0},
		{"TE behind a tab", "POST /api/convert/batch HTTP/1.1", auth + "Transfer-Encoding:\tchunked\r\n", "0\r\n\r\n" + inner, "200", 1},
		{"TE with a vertical tab", "POST /api/convert/batch HTTP/1.1", auth + "Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n" + inner, "", 0},
		{"TE in HTTP/1.0", "POST /api/convert/batch HTTP/1.0", auth + "Transfer-Encoding: chunked\r\n", "0\r\n\r\n" + inner, "200", 1},
		{"chunk extension with a bare LF", "POST /api/convert/batch HTTP/1.1", auth + "Transfer-Encoding: chunked\r\n", "2;\nxx\r\n4f\r\n0\r\n\r\n" + inner, "", -1},
		{"negative chunk", "POST /api/convert/batch HTTP/1.1", auth + "Transfer-Encoding: chunked\r\n", "-1\r\n\r\n" + inner, "", -1},
		{"chunk size beyond 64 bits", "POST /api/convert/batch HTTP/1.1", auth + "Transfer-Encoding: chunked\r\n", "10000000000000000\r\n\r\n" + inner, "", -1},
		{"two hosts", "GET " + convert + " HTTP/1.1", auth + "Host: other.test\r\n", "", "400", 0},
		{"body of a GET", "GET " + convert + " HTTP/1.1", auth + fmt.Sprintf("Content-Length: %d\r\n", len(inner)), inner, "200", 1},
		{"line break in the target", "GET " + convert + "\r\nTollgate-Account: evil HTTP/1.1", auth, "", "400", 0},
		{"HTTP/2 preface", "PRI * HTTP/2.0", auth, "\r\nSM\r\n\r\n", "", 0},
		{"CONNECT", "CONNECT gate.test:80 HTTP/1.1", auth, "", "405", 0},
		{"CONNECT to a path", "CONNECT " + convert + " HTTP/1.1", auth, "", "405", 0},
		{"CONNECT with a body", "CONNECT gate.test:80 HTTP/1.1", auth + "Transfer-Encoding: chunked\r\n", "0\r\n\r\n" + inner, "405", 0},
	} {
		t.Run(c.threat, func(t *testing.T) {
			id, bearer := s.account(t, "business", "convert")
			before := s.upstream.seen()
			answer := send(t, s, c.first, strings.ReplaceAll(c.lines, "TOKEN", bearer), c.body)
			if !strings.HasPrefix(answer, "HTTP/1.1 "+c.status) && !strings.HasPrefix(answer, "HTTP/1.0 "+c.status) {
				t.Errorf("got %q, want %s", answer, c.status)
			}
			if n := strings.Count(answer, "\r\nDate: ") + strings.Count(answer, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close"); n > 1 {
				t.Errorf("got %d answers: %s", n, answer)
			}
			// The upstream may see a broken body after the client has its answer.
			reached := slices.DeleteFunc(s.upstream.all()[before:], func(r *http.Request) bool {
				return slices.Contains(earlier, r.Header.Get("Tollgate-Account"))
			})
			earlier = append(earlier, id)
			if n := len(reached); n != c.seen && c.seen >= 0 || n > 1 {
				t.Errorf("the upstream saw %d requests, want %d", n, c.seen)
			}
			if n := s.used(t, id, "batch") + s.used(t, id, "convert"); n > 1 || n < int64(c.seen) {
				t.Errorf("%d calls counted", n)
			}
			for _, r := range reached {
				if r.Header.Get("Tollgate-Account") != id || strings.Contains(r.URL.Path, "internal") || len(r.Header["Content-Length"]) > 1 {
					t.Errorf("the upstream got %s %v", r.URL, r.Header)
				}
			}
		})
	}
}

// A cache in front of the gate keys by URL. Whatever the client sends,
// and whatever the upstream says of caching, what was made for one token
// must be kept from others.
func TestCachesAreTurnedAway(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	_, bearer := s.account(t, "business")
	for theirs, want := range map[string]string{
		"":                                 "no-store",
		"public":                           "private",
		"max-age=60":                       "private, max-age=60",
		"public, max-age=31536000":         "private, max-age=31536000",
		"s-maxage=60":                      "private",
		"S-MaxAge=60, Public":              "private",
		"public; max-age=60":               "private, public; max-age=60",
		"no-cache":                         "private, no-cache",
		"no-store":                         "no-store",
		"No-Store, max-age=0":              "no-store",
		"private":                          "private",
		"private, max-age=300":             "private, max-age=300",
		`private="Set-Cookie", max-age=5`:  "private, max-age=5",
		`no-cache="Set-Cookie, X-Name"`:    `private, no-cache="Set-Cookie, X-Name"`,
		`no-cache="a, public", s-maxage=1`: `private, no-cache="a, public"`,
		`x="a\", public", s-maxage=1`:      `private, x="a\", public"`,
		"must-revalidate, proxy-revalidate, stale-while-revalidate=5": "private, must-revalidate, stale-while-revalidate=5",
		" , ,":                           "private",
		"max-age=1\x00public, max-age=2": "private, max-age=1, max-age=2",
	} {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			for value := range strings.SplitSeq(theirs, "\x00") {
				if value != "" {
					w.Header().Add("Cache-Control", value)
				}
			}
			for _, name := range []string{"CDN-Cache-Control", "Cloudflare-CDN-Cache-Control", "Surrogate-Control", "Edge-Control", "X-LiteSpeed-Cache-Control", "X-Accel-Expires"} {
				w.Header().Set(name, "public, max-age=600")
			}
		})
		got := s.get(t, convert+"/../x", bearer) // refused as well
		if got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("a refusal says %v", got.header)
		}
		got = s.ask(t, "GET", convert, "", "Authorization: Bearer "+bearer, "Cache-Control: only-if-cached", "X-Forwarded-Host: evil.test")
		if cc := strings.Join(got.header["Cache-Control"], "|"); cc != want {
			t.Errorf("%q: got Cache-Control %q, want %q", theirs, cc, want)
		}
		for name := range got.header {
			if strings.HasSuffix(name, "-Cache-Control") || name == "Surrogate-Control" || name == "Edge-Control" || name == "X-Accel-Expires" {
				t.Errorf("%q: got %s", theirs, name)
			}
		}
	}
	for theirs, want := range map[string]string{
		"":                             "Authorization",
		"Accept":                       "Accept|Authorization",
		"Accept, authorization":        "Accept, authorization",
		"*":                            "*",
		"Accept\x00Accept-Language":    "Accept|Accept-Language|Authorization",
		"X-Authorization":              "X-Authorization|Authorization",
		"Accept,\tAUTHORIZATION,Other": "Accept,\tAUTHORIZATION,Other",
	} {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			for value := range strings.SplitSeq(theirs, "\x00") {
				w.Header().Add("Vary", value)
			}
		})
		if got := strings.Join(s.get(t, convert, bearer).header["Vary"], "|"); strings.Trim(got, "|") != want {
			t.Errorf("%q: got Vary %q, want %q", theirs, got, want)
		}
	}
}

// Credentials that are many or large cost the gate nothing, and no part
// of them comes back.
func TestOversizedCredentials(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	_, bearer := s.account(t, "small")
	for threat, c := range map[string]struct{ lines, status string }{
		"a token of 12 KiB":    {"Authorization: Bearer " + strings.Repeat("x", 12<<10) + "\r\n", "401"},
		"a token of 1 MiB":     {"Authorization: Bearer " + strings.Repeat("x", 1<<20) + "\r\n", "431"},
		"500 fields":           {strings.Repeat("Authorization: Bearer x\r\n", 500), "400"},
		"a token behind NUL":   {"Authorization: Bearer " + bearer + "\x00x\r\n", "400"},
		"a token and a tab":    {"Authorization: Bearer\t" + bearer + "\r\n", "401"},
		"a token and more":     {"Authorization: Bearer " + bearer + ",\r\n", "401"},
		"a token in Latin-1":   {"Authorization: Bearer " + bearer[:50] + "\xe4\r\n", "401"},
		"a folded token":       {"Authorization: Bearer\r\n " + bearer + "\r\n", "200"},
		"a second, underscore": {"Authorization: Bearer " + bearer + "\r\nAuthorization_: Bearer x\r\n", "200"},
	} {
		answer := send(t, s, "GET "+convert+" HTTP/1.1", c.lines, "")
		if !strings.HasPrefix(answer, "HTTP/1.1 "+c.status) || strings.Contains(answer, "xxxx") || strings.Contains(answer, bearer) {
			t.Errorf("%s: got %.200s, want %s", threat, answer, c.status)
		}
	}
}

// The proxy must never open a tunnel for an endpoint, even if the
// upstream agrees to one that no client may ask for.
func TestUninvitedTunnel(t *testing.T) {
	s := start(t, setup{zone: calmZone(), upstream: func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	}})
	id, bearer := s.account(t, "small")
	answer := send(t, s, "GET "+convert+" HTTP/1.1", "Upgrade: websocket\r\nAuthorization: Bearer "+bearer+"\r\n", "")
	if strings.HasPrefix(answer, "HTTP/1.1 101") {
		t.Errorf("got %s", answer)
	}
	if n := s.used(t, id, "convert"); n > 1 {
		t.Errorf("counted %d", n)
	}
}
