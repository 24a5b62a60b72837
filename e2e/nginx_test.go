package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// asked is a gate that nginx asks. The test adds the site of nginx.conf.
const asked = `{
	tollgate {
		store badger {$TOLLGATE_DATA}/gate
		secret {env.TOLLGATE_SECRET}
		introspection_secret {env.INTROSPECTION}
		guard /api/ /v1/
		usage GET /api/usage
		endpoint item POST /v1/items/{id}
		plan starter {
			usage 100
			item 2
		}
	}
}

{$TOLLGATE_ADDRESS} {
	tollgate
}

http://{$TOLLGATE_CONTROL} {
	tollgate_control
}
`

// onlyStatus is a server of nginx whose auth_request looks at the status of the
// gate's answer and nothing else.
const onlyStatus = `server {
	listen %s;
	location / {
		auth_request /ask;
		proxy_pass %s;
	}
	location = /full {
		auth_request /429;
		proxy_pass %[2]s;
	}
	location = /429 {
		return 429;
	}
	location = /ask {
		proxy_pass %[3]s/tollgate/introspect;
		proxy_method POST;
		proxy_set_header Authorization "Bearer %[4]s";
		proxy_set_header Content-Type application/x-www-form-urlencoded;
		proxy_set_body token=wrong;
	}
}
`

// TestNginx runs docs/verify/nginx.conf with nginx and njs. A request passes
// with a valid token only, and a call within its limits only. The answers to the
// others are those of the gate.
func TestNginx(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 4)
		n, _ := r.Body.Read(body)
		fmt.Fprintf(w, "%s %s %s %q %q", r.Method, r.URL, body[:n], r.Header["Tollgate-Account"], r.Header["Authorization"])
	}))
	t.Cleanup(service.Close)
	conf := read(t, filepath.Join(stack.Root(), "docs", "verify", "nginx.conf"))
	ports, secret := stack.FreePorts(t, 3), strings.Repeat("0123456789abcdef", 4)
	site := strings.Join(regexp.MustCompile(`(?m)^\t#\t(.*\n)`).FindAllString(conf, -1), "")
	site = strings.ReplaceAll(strings.ReplaceAll(site, "\t#\t", ""), ":8080", ":"+ports[0])
	s := stack.StartGate(t, asked+site, "INTROSPECTION="+secret)
	s.Tollgate("account", "set", "acc_1", "--plan", "starter")
	token := newKey(t, s, "acc_1", "ci").Token
	listed := decode[issued](t, s.Tollgate("key", "create", "acc_1", "--name", "elsewhere", "--from", "203.0.113.9", "--json")).Token
	conf = strings.NewReplacer("listen 80;", "listen "+ports[1]+";", "127.0.0.1:8080", "127.0.0.1:"+ports[0], "http://127.0.0.1:8081", s.Control(),
		"http://127.0.0.1:3000", service.URL, "<TOLLGATE_INTROSPECTION_SECRET>", secret).Replace(conf)
	startNginx(t, "verify", conf+fmt.Sprintf(onlyStatus, ports[2], service.URL, s.Control(), secret), ports[1])
	call := func(port, path, token string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port+path, strings.NewReader("body"))
		must(t, err)
		r.Host = "api.example.com"
		r.Header.Set("Tollgate-Account", "acc_2")
		r.Header.Set("Authorization", strings.TrimSuffix("Bearer "+token, "Bearer "))
		response, err := http.DefaultClient.Do(r)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return response, string(body)
	}
	// If this changes, nginx.conf can be shorter.
	for path, want := range map[string]int{"/": 200, "/full": 500} {
		if response, body := call(ports[2], path, "wrong"); response.StatusCode != want {
			t.Errorf("auth_request with an invalid token: %s got %s %s, want %d", path, response.Status, body, want)
		}
	}
	for _, c := range []struct {
		path, token, want string
		status            int
	}{
		{"/files/a?b=c", token, `POST /files/a?b=c body ["acc_1"] []`, 200},
		{"/files/a", "", "", 401},
		{"/files/a", "tgk_wrong&token=" + token, "", 401},
		{"/files/a", token + "x", "", 401},
		{"/files/a", listed, "", 401},
		{"/v1/items/7?b=c", token, `POST /v1/items/7?b=c body ["acc_1"] []`, 200},
		{"/v1/items/7", "wrong", `"code":"invalid_token"`, 401},
		{"/v1/items/7", listed, `"code":"address_not_allowed"`, 403},
		{"/v1/other", token, `"code":"not_found"`, 404},
		{"/v1/items/7", token, `POST /v1/items/7 body ["acc_1"] []`, 200},
		{"/v1/items/7", token, `"code":"quota_exceeded"`, 429},
		{"/files/a", token, `POST /files/a body ["acc_1"] []`, 200},
	} {
		response, body := call(ports[1], c.path, c.token)
		if response.StatusCode != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s with %q: got %s %s, want %d %s", c.path, c.token, response.Status, body, c.status, c.want)
		}
		if h := response.Header; c.status == 429 && (h.Get("Retry-After") == "" || h.Get("X-Should-Retry") != "false" || !strings.HasPrefix(h.Get("RateLimit"), `"item";r=0;`)) ||
			c.status == 401 && !strings.HasPrefix(h.Get("WWW-Authenticate"), "Bearer ") || strings.HasPrefix(c.path, "/v1/items") && c.status == 200 && h.Get("RateLimit") == "" {
			t.Errorf("%s with %q: got the headers %v", c.path, c.token, h)
		}
	}
}

// startNginx starts nginx with a file of conf.d and the nginx.js of a folder of docs,
// and waits for a port.
func startNginx(t *testing.T, folder, conf, port string) {
	t.Helper()
	needPrograms(t, "nginx")
	const njs = "/usr/lib/nginx/modules/ngx_http_js_module.so"
	_, err := os.Stat(njs)
	need(t, "libnginx-mod-http-js", err)
	dir := t.TempDir()
	conf = "daemon off; master_process off;\nuser root;\npid pid;\nload_module " + njs + ";\nevents {}\nhttp {\naccess_log off;\n" +
		"client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n" + conf + "}\n"
	must(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "nginx.js"), []byte(read(t, filepath.Join(stack.Root(), "docs", folder, "nginx.js"))), 0o600))
	serve(t, "127.0.0.1:"+port, "nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr")
}
