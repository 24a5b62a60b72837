package caddymodule_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/route"
)

// pieces are those of the spellings, of names and of known attacks.
var pieces = strings.Fields(`/ / / %2F %2F %2f %5C %5c %252F %255C %25252F \ . .. %2e %2E%2e %252e %252E%252e %25252e ; ;v=1 %3B %253B
	? ?x=/../ %3F %253F # %23 %2523 % %25 %2525 %61dmin admin admin owners %6fwners login x x @types node a.b caf%C3%A9 %20 %00 %2500 %c0%ae
	+ ~ : @ & = ! * ' " é API names ..a a.. test%2546.txt`)

// spellings returns different targets below and beside /api/names/.
func spellings(n int) (all []string) {
	random := rand.New(rand.NewPCG(34, 1))
	folders := []string{"/api/names/", "/api/names/", "/api/names/", "/api/names/", "/api/names", "/api/other/", "/API/names/", "/%61pi/names/", "/open/", "/"}
	seen := map[string]bool{}
	for len(all) < n {
		target := folders[random.IntN(len(folders))]
		for range 1 + random.IntN(5) {
			target += pieces[random.IntN(len(pieces))]
		}
		if !seen[target] {
			seen[target] = true
			all = append(all, target)
		}
	}
	return all
}

// readNode is a server that decodes the path once and twice. Each answer is its
// route and all that it reads. It keeps connections: a POST on one that it closes
// would get 502.
const readNode = `
const http = require('http'), path = require('path');
http.createServer((request, response) => {
	const readings = [new URL(request.url, 'http://node').pathname];
	try {
		for (let i = 0; i < 2; i++) readings.push(decodeURIComponent(readings[i]));
	} catch {} // a broken escape
	const last = readings[1] ?? readings[0];
	const route = /^\/api\/names\/(admin|login)$/.exec(last)?.[1] ?? (/^\/api\/names\/[^/]+\/owners$/.test(last) ? 'owners'
		: last.startsWith('/api/names/') ? 'names' : 'other');
	const clean = readings.slice(1).map((text) => path.posix.normalize(text.replaceAll('\\', '/')));
	response.end([route, ...clean].join('\n'));
}).listen(process.argv[1]).keepAliveTimeout = 0;`

// readNginx is a server of nginx with its usual settings.
const readNginx = `daemon off;
user root;
pid nginx.pid;
events {}
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	server {
		listen unix:%s;
		location = /api/names/admin { return 200 "admin\n$uri"; }
		location = /api/names/login { return 200 "login\n$uri"; }
		location ~ ^/api/names/[^/]+/owners$ { return 200 "owners\n$uri"; }
		location /api/names/ { return 200 "names\n$uri"; }
		location / { return 200 "other\n$uri"; }
	}
}`

// readGo is a ServeMux. Its handlers decode the path again.
func readGo() http.Handler {
	mux := http.NewServeMux()
	for pattern, name := range map[string]string{
		"/api/names/{path...}": "names", "/api/names/admin": "admin", "/api/names/login": "login", "/api/names/{x}/owners": "owners", "/": "other",
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			again, err := url.PathUnescape(r.URL.Path)
			if err != nil {
				again = r.URL.Path
			}
			io.WriteString(w, name)
			for _, read := range []string{r.URL.Path, again} {
				slash := ""
				if read = strings.ReplaceAll(read, `\`, "/"); strings.HasSuffix(read, "/") {
					slash = "/"
				}
				io.WriteString(w, "\n"+path.Clean(read)+slash)
			}
		})
	}
	return mux
}

// startReader starts a program that listens on a socket, until the test ends.
// A test without the program is skipped, in CI it fails.
func startReader(t *testing.T, socket, program string, arguments ...string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "true" {
			t.Skipf("%s is not installed", program)
		}
		t.Fatalf("the test needs %s: %v", program, err)
	}
	var out bytes.Buffer
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := command.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		_ = command.Wait() // it was interrupted
		if t.Failed() {
			t.Logf("%s wrote:\n%s", program, &out)
		}
	})
	eventually(t, "the listener of "+program, func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// beside matches the paths of the other routes.
var beside = regexp.MustCompile(`^/api/names/(admin|login|[^/]+/owners)$`)

// Threat: a spelling of a name that another server reads as another path: it
// leaves the endpoint whose limit was charged, or an open path leads below the
// guard. Request: many spellings to three kinds of servers. Expectation: each
// server routes to the endpoint that was counted, and reads no path beside it.
func TestNamesStayBelowTheirPattern(t *testing.T) {
	dir := t.TempDir()
	node, nginx, config := filepath.Join(dir, "node"), filepath.Join(dir, "nginx"), filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, readNginx, nginx), 0o600); err != nil {
		t.Fatal(err)
	}
	startReader(t, node, "node", "-e", readNode, node)
	startReader(t, nginx, "nginx", "-p", dir, "-c", config, "-e", "stderr")
	s := start(t, setup{
		zone: calmZone(), upstream: readGo().ServeHTTP,
		gate: `guard /api/
			login POST /api/names/login
			endpoint names POST /api/names/{path...}
			endpoint admin POST /api/names/admin
			endpoint owners POST /api/names/{x}/owners
			plan free
			plan all {
				names 100000
				admin 100000
				owners 100000
			}`,
		behind: fmt.Sprintf("@node header Service node\nreverse_proxy @node unix/%s\n@nginx header Service nginx\nreverse_proxy @nginx unix/%s\nreverse_proxy UPSTREAM", node, nginx),
	})
	id, bearer := s.account(t, "all", "names", "admin", "owners")
	passed := map[string]int{}
	for _, target := range spellings(300) {
		for _, service := range []string{"go", "node", "nginx"} {
			raw := s.raw(t, "POST "+target+" HTTP/1.1\r\nHost: gate.test\r\nConnection: close\r\nService: "+service+"\r\nAuthorization: Bearer "+bearer+"\r\nContent-Length: 0\r\n\r\n")
			got, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
			if err != nil {
				t.Fatalf("%s: got %q, %v", target, raw, err)
			}
			body, err := io.ReadAll(got.Body)
			got.Body.Close()
			endpoint, _, _ := strings.Cut(strings.TrimPrefix(got.Header.Get("RateLimit-Policy"), `"`), `"`)
			passed[endpoint]++
			if got.StatusCode != http.StatusOK {
				if endpoint != "" && service != "nginx" {
					t.Errorf("%s: %s got %s", target, service, got.Status)
				}
				continue // nginx refuses some
			}
			read := strings.Split(string(body), "\n")
			if want := cmp.Or(endpoint, "other"); read[0] != want || err != nil {
				t.Errorf("%s: counted as %q, %s served %q, %v", target, endpoint, service, read, err)
			}
			for _, reading := range read[1:] {
				lenient := route.Lenient(reading)
				switch {
				case endpoint == "" && (lenient == "/api" || strings.HasPrefix(lenient, "/api/")):
					t.Errorf("%s: it is open, and %s reads %q", target, service, reading)
				case endpoint == "names" && (!strings.HasPrefix(reading, "/api/names/") || beside.MatchString(reading)):
					t.Errorf("%s: %s reads %q", target, service, reading)
				}
			}
		}
	}
	if names := passed["names"]; names < 100 || names > 600 || int64(names) != s.used(t, id, "names") {
		t.Errorf("%v passed, and %d names are counted", passed, s.used(t, id, "names"))
	}
}
