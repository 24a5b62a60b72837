package caddymodule_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A server with the gate answers requests for a host that no site has with 404,
// and not with 200 and an empty body, which looks like success. A control site
// that is alone on its server answers whatever the host name is.
func TestOtherHosts(t *testing.T) {
	const options = `{
	admin off
	auto_https off
	persist_config off
	tollgate {
		store badger DIRECTORY
		guard /api/
		secret 0123456789abcdef0123456789abcdef
	}
}
`
	const noSite = `{"message":"There is no site for this host name.","code":"not_found"}`
	for name, c := range map[string]struct {
		sites string
		// want is the answer by host name; noSite for 404.
		want map[string]string
	}{
		"one site": {
			"http://api.test:0 {\n bind 127.0.0.1\n tollgate\n respond API\n}",
			map[string]string{"api.test": "API", "127.0.0.1": noSite, "localhost": noSite, "other.test": noSite, "": noSite},
		},
		"several sites": {
			"http://api.test:0 {\n bind 127.0.0.1\n tollgate\n respond API\n}\nhttp://www.test:0 {\n bind 127.0.0.1\n respond WWW\n}\nhttp://last.test:0 {\n bind 127.0.0.1\n respond /only LAST\n}",
			map[string]string{"api.test": "API", "www.test": "WWW", "last.test": "", "other.test": noSite},
		},
		"site for all hosts": {
			"http://api.test:0 {\n bind 127.0.0.1\n tollgate\n respond API\n}\nhttp://:0 {\n bind 127.0.0.1\n respond REST\n}",
			map[string]string{"api.test": "API", "other.test": "REST"},
		},
		"gate in a handle": {
			"http://api.test:0 {\n bind 127.0.0.1\n handle /api/* {\n tollgate\n respond API\n }\n respond PAGE\n}",
			map[string]string{"api.test": "PAGE", "other.test": noSite},
		},
		"control": {
			"http://127.0.0.1:0 {\n bind 127.0.0.1\n tollgate_control\n}",
			map[string]string{"127.0.0.1": `"plans"`, "localhost": `"plans"`, "gate.internal": `"plans"`},
		},
		"control beside a site": {
			"http://control.test:0 {\n bind 127.0.0.1\n tollgate_control\n}\nhttp://www.test:0 {\n bind 127.0.0.1\n respond WWW\n}",
			map[string]string{"control.test": `"plans"`, "www.test": "WWW", "other.test": noSite},
		},
		"control beside the gate": {
			"http://control.test:0 {\n bind 127.0.0.1\n tollgate_control\n}\nhttp://api.test:0 {\n bind 127.0.0.1\n tollgate\n respond API\n}",
			map[string]string{"control.test": `"plans"`, "api.test": "API", "other.test": noSite},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := load(strings.Replace(options, "DIRECTORY", t.TempDir(), 1) + c.sites); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := caddy.Stop(); err != nil {
					t.Error(err)
				}
			}()
			address := listening(t)
			client := &http.Client{Transport: &http.Transport{
				DisableKeepAlives: true,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", address)
				},
			}}
			for host, want := range c.want {
				request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+"/tollgate/plans", nil)
				if err != nil {
					t.Fatal(err)
				}
				request.Host = host
				request.Header.Set("Authorization", "Bearer "+secret)
				response, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				status := http.StatusOK
				if want == noSite {
					status = http.StatusNotFound
				}
				if response.StatusCode != status || !strings.Contains(string(body), want) || want == "" && len(body) > 0 {
					t.Errorf("host %q: got %d %s, want %d %s", host, response.StatusCode, body, status, want)
				}
			}
		})
	}
}

// listening returns the address of the only server.
func listening(t *testing.T) string {
	t.Helper()
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		t.Fatal(err)
	}
	servers := app.(*caddyhttp.App).Servers
	if len(servers) != 1 {
		t.Fatalf("got %d servers, want 1", len(servers))
	}
	for _, server := range servers {
		return server.Listeners()[0].Addr().String()
	}
	return ""
}
