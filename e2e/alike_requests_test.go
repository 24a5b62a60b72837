package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

// request returns the text of a request.
func request(line, body string, header ...string) string {
	return strings.Join(append([]string{line, "Host: {host}"}, header...), "\r\n") + "\r\n\r\n" + body
}

// call returns the text of a request without a body and, unless key is "",
// with a key.
func call(target, key string, header ...string) string {
	method, path, found := strings.Cut(target, " ")
	if !found {
		method, path = "GET", target
	}
	if key != "" {
		header = append(header, "Authorization: Bearer {"+key+"}")
	}
	return request(method+" "+path+" HTTP/1.1", "", header...)
}

// submit returns the text of a request with a body and its length.
func submit(path, mediaType, body string, header ...string) string {
	return request("POST "+path+" HTTP/1.1", body, append(header, "Content-Type: "+mediaType, "Content-Length: "+strconv.Itoa(len(body)))...)
}

// chunked returns the text of a request with a body in chunks.
func chunked(path, mediaType, body string, header ...string) string {
	half := len(body) / 2
	text := fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", half, body[:half], len(body)-half, body[half:])
	return request("POST "+path+" HTTP/1.1", text, append(header, "Content-Type: "+mediaType, "Transfer-Encoding: chunked")...)
}

const (
	credentials = `{"email":"ada@example.com","password":"correct horse battery staple"}`
	batch       = `{"conversions":[{"id":"a","from":"USD","to":"EUR","amount":100},{"from":"USD","to":"ZZZ","amount":1}]}`
	wrong       = `{"email":"eve@example.com","password":"wrong password"}`
	signedIn    = "Cookie: {cookie}"
	fromBrowser = "Accept: " + browser
	fromHere    = "Sec-Fetch-Site: same-origin"
)

// alike are the requests of TestOneProcessAnswersAlike, with the status that
// both forms answer. They are sent in this order.
var alike = []struct{ name, status, text string }{
	{"currencies", "200", call("/api/currencies", "key")},
	{"convert", "200", call("/api/convert/USD/100/EUR", "key")},
	{"rates", "200", call("/api/rates/EUR", "key")},
	{"rates with a query", "200", call("/api/rates/usd?symbols=GBP,EUR", "key")},
	{"history", "200", call("/api/history/EUR/USD", "key")},
	{"long history", "200", call("/api/history/EUR/USD?group=month", "key")},
	{"batch", "200", submit("/api/convert/batch", jsonType, batch, "Authorization: Bearer {key}")},
	{"batch in chunks", "200", chunked("/api/convert/batch", jsonType, batch, "Authorization: Bearer {key}")},
	{"batch with Expect", "200", submit("/api/convert/batch", jsonType, batch, "Authorization: Bearer {key}", "Expect: 100-continue")},
	{"HEAD", "200", call("HEAD /api/rates/EUR", "key")},
	{"not modified", "304", call("/api/history/EUR/USD", "key", "If-None-Match: {etag}")},
	{"other ETag", "200", call("/api/history/EUR/USD", "key", `If-None-Match: "other"`)},
	{"gzip", "200", call("/api/rates/EUR", "key", "Accept-Encoding: gzip, br, zstd")},
	{"range", "200", call("/api/rates/EUR", "key", "Range: bytes=0-9")},
	{"HTTP/1.0", "200", request("GET /api/rates/EUR HTTP/1.0", "", "Authorization: Bearer {key}")},
	{"HTTP/1.0 that keeps the connection", "200", request("GET /api/rates/EUR HTTP/1.0", "", "Authorization: Bearer {key}", "Connection: keep-alive")},
	{"connection that closes", "200", call("/api/rates/EUR", "key", "Connection: close")},
	{"absolute form", "200", call("http://{host}/api/rates/EUR", "key")},
	{"preflight", "405", call("OPTIONS /api/rates/EUR", "", "Origin: https://other.example", "Access-Control-Request-Method: GET")},
	{"from another origin", "200", call("/api/rates/EUR", "key", "Origin: https://other.example")},

	{"unknown parameter", "400", call("/api/rates/EUR?x=1", "key")},
	{"unknown currency", "404", call("/api/rates/ZZZ", "key")},
	{"escaped currency", "200", call("/api/rates/%45UR", "key")},
	{"upgrade of an endpoint", "400", call("/api/rates/EUR", "key", "Connection: upgrade", "Upgrade: websocket", "Sec-Websocket-Version: 13", "Sec-Websocket-Key: dGhlIHNhbXBsZSBub25jZQ==")},
	{"upgrade to HTTP/2", "200", call("/api/rates/EUR", "key", "Connection: upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")},
	{"malformed batch", "400", submit("/api/convert/batch", jsonType, "{", "Authorization: Bearer {key}")},
	{"malformed chunk", "400", request("POST /api/convert/batch HTTP/1.1", "zz\r\n", "Authorization: Bearer {key}", "Content-Type: "+jsonType, "Transfer-Encoding: chunked")},
	{"no token", "401", call("/api/rates/EUR", "")},
	{"no token with Expect", "401", submit("/api/convert/batch", jsonType, batch, "Expect: 100-continue")},
	{"no token with a body", "401", submit("/api/convert/batch", jsonType, batch)},
	{"no token from a browser", "401", call("/api/rates/EUR", "", fromBrowser)},
	{"revoked token", "401", call("/api/rates/EUR", "revoked")},
	{"free plan", "403", call("/api/rates/EUR", "free")},
	{"narrow key", "403", call("/api/rates/EUR", "narrow")},
	{"not an endpoint", "404", call("/api/nothing", "key")},
	{"other method", "405", call("DELETE /api/rates/EUR", "key")},
	{"TRACE", "405", call("TRACE /api/rates/EUR", "key")},
	{"CONNECT", "405", request("CONNECT {host} HTTP/1.1", "")},
	{"asterisk", "200", call("OPTIONS *", "")},
	{"not acceptable", "406", call("/api/rates/EUR", "key", "Accept: text/plain")},
	{"long batch", "413", submit("/api/convert/batch", jsonType, strings.Repeat(" ", 65<<10)+batch, "Authorization: Bearer {key}")},
	{"batch as text", "415", submit("/api/convert/batch", "text/plain", batch, "Authorization: Bearer {key}")},
	// More than net/http reads of a body after the answer.
	{"huge batch as text", "415", submit("/api/convert/batch", "text/plain", strings.Repeat(" ", 1<<20), "Authorization: Bearer {key}")},
	{"long batch as text", "415", submit("/api/convert/batch", "text/plain", strings.Repeat(" ", 100<<10), "Authorization: Bearer {key}")},
	{"compressed batch", "415", submit("/api/convert/batch", jsonType, "x", "Content-Encoding: gzip", "Authorization: Bearer {key}")},
	{"first of a limit", "200", call("/api/rates/EUR", "business")},
	{"used-up limit", "429", call("/api/rates/EUR", "business")},
	{"first of a limit of the key", "200", call("/api/currencies", "limited")},
	{"used-up limit of the key", "429", call("HEAD /api/currencies", "limited")},
	{"gRPC", "200", submit("/api/rates/EUR", "application/grpc", "")},
	{"usage", "200", call("/api/usage?days=2", "key")},
	{"HEAD of usage", "200", call("HEAD /api/usage", "key")},
	{"malformed usage", "400", call("/api/usage?days=0", "key")},

	{"login", "200", submit("/api/login", jsonType, credentials)},
	{"login in chunks", "200", chunked("/api/login", jsonType, credentials)},
	{"login with Expect", "200", submit("/api/login", jsonType, credentials, "Expect: 100-continue")},
	{"malformed login", "400", submit("/api/login", jsonType, "{")},
	{"login with a long body", "413", submit("/api/login", jsonType, strings.Repeat(" ", 5000))},
	{"login as text", "415", submit("/api/login", "text/plain", credentials)},
	{"login without a plan", "403", submit("/api/login", jsonType, strings.Replace(credentials, "ada", "bob", 1))},
	{"wrong password", "401", submit("/api/login", jsonType, wrong)},
	{"wrong password again", "401", submit("/api/login", jsonType, wrong)},
	{"throttled", "429", submit("/api/login", jsonType, wrong)},
	{"throttled form", "429", submit("/login", formType, "email=eve%40example.com&password=wrong+password", fromBrowser)},
	{"unknown e-mail", "401", submit("/api/login", jsonType, strings.Replace(wrong, "eve", "nobody", 1))},
	{"sign-up", "404", submit("/signup", formType, "email=new%40example.com&password=correct+horse")},
	{"sign-up page", "404", call("/signup", "")},
	{"dead reset link", "410", call("/reset/unknown", "")},

	{"front page", "200", call("/", "")},
	{"HEAD of the front page", "200", call("HEAD /", "")},
	{"front page of a person", "303", call("/", "", signedIn)},
	{"login page", "200", call("/login?next=/usage", "")},
	{"wrong form", "401", submit("/login", formType, "email=x%40example.com&password=wrong+password", fromBrowser)},
	{"form", "303", submit("/login", formType, "email=ada%40example.com&password=correct+horse+battery+staple")},
	{"form of another site", "403", submit("/login", formType, "email=ada%40example.com&password=correct+horse+battery+staple", "Sec-Fetch-Site: cross-site")},
	{"page without a session", "303", call("/settings/keys", "")},
	{"page with a wrong session", "303", call("/settings/keys", "", "Cookie: tollgate=wrong")},
	{"settings", "303", call("/settings", "", signedIn)},
	{"keys", "200", call("/settings/keys", "", signedIn)},
	{"new key", "200", call("/settings/keys/new", "", signedIn)},
	{"mistake in a new key", "400", submit("/settings/keys/new", formType, "name=", signedIn, fromHere)},
	{"password page", "200", call("/settings/password", "", signedIn)},
	{"wrong current password", "401", submit("/settings/password", formType, "current=wrong&password=correct+horse+2", signedIn, fromHere)},
	{"usage page", "200", call("/usage", "", signedIn)},
	{"unknown page of a person", "404", call("/nothing", "", signedIn)},
	{"method of a page", "405", call("DELETE /usage", "", signedIn)},
	{"style", "200", call("{css}", "")},
	{"unknown asset", "404", call("/static/old/app.txt", "")},
	{"docs", "200", call("/docs", "")},
	{"docs of a language", "200", call("/docs/go", "")},
	{"docs below", "404", call("/docs/", "")},
	{"OpenAPI", "200", call("/openapi.json", "")},
	{"OpenAPI from another origin", "200", call("/openapi.json", "", "Origin: https://other.example")},
	{"health", "200", call("/healthz", "")},
	{"method of health", "405", call("POST /healthz", "")},
	{"logout", "303", submit("/logout", formType, "", signedIn, fromHere)},
	{"after the logout", "303", call("/usage", "", signedIn)},

	{"forged account", "401", call("/api/rates/EUR", "", "Tollgate-Account: acc_1", "Tollgate-Plan: business", "Tollgate_Abilities: rates", "tollgate.key: k")},
	{"forged account with a token", "200", call("/api/rates/EUR", "key", "Tollgate-Account: acc_1", "Tollgate-Plan: business")},
	{"forged assertion", "401", call("/api/rates/EUR", "", "Tollgate-Assertion: x")},
	{"forged assertion of a login", "405", call("/api/login", "", "Tollgate-Assertion: x")},
	{"identity that Connection drops", "200", call("/api/rates/EUR", "key", "Connection: Tollgate-Assertion, Tollgate-Account")},
	{"method in a header", "200", call("/healthz", "", "X-HTTP-Method-Override: DELETE", "X-Original-URL: /api/rates/EUR", "X-Rewrite-URL: /api/rates/EUR", "X-Original-Method: POST")},
	{"escaped guard", "401", call("/%61pi/rates/EUR", "")},
	{"absolute form without a token", "401", call("http://{host}/api/rates/EUR", "")},
	{"absolute form that no site has", "404", call("http://other.example/api/rates/EUR", "")}, // the last site answers
	{"absolute form with TLS", "401", call("https://{host}/api/rates/EUR", "")},
	{"HTTP/1.0 without a token", "401", request("GET /api/rates/EUR HTTP/1.0", "")},
	{"h2c without a token", "401", call("/api/rates/EUR", "", "Connection: upgrade", "Upgrade: h2c")},
	{"TRACE without a token", "405", call("TRACE /api/rates/EUR", "")},
	{"CONNECT with a path", "405", call("CONNECT /api/rates/EUR", "")},
	{"unknown method", "405", call("FETCH /api/rates/EUR", "")},
	{"length and chunks", "400", request("POST /api/login HTTP/1.1", "0\r\n\r\n", "Content-Length: 3", "Transfer-Encoding: chunked", "Content-Type: "+jsonType)},
}
