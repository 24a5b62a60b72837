package e2e_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// expressApp answers with the name of the route that Express takes: its routes
// ignore case, and a slash at the end.
const expressApp = `
const app = require('express')()
app.use(require('method-override')('_method'))
const answer = name => (request, response) => response.set('Route', name).send(name)
app.get('/v1/orders/export', answer('export'))
app.get('/v1/orders/:id', answer('order'))
app.put('/v1/orders/:id', answer('change'))
app.post('/v1/orders/:id', answer('comment'))
app.get('/v1/files/index', answer('index'))
app.get('/v1/files/:name/meta', answer('meta'))
app.get('/v1/files/*path', answer('files'))
app.post('/v1/login', answer('login'))
app.post('/v1/:action', answer('action'))
app.use(answer('none'))
app.listen(process.argv[2], '127.0.0.1')
`

const expressGate = `{
	admin {$CADDY_ADMIN}
	tollgate {
		store badger "{$TOLLGATE_DATA}/gate"
		secret {env.TOLLGATE_SECRET}
		guard /v1/ /api/
		login POST /v1/login {
			per_client 1000 1m
		}
		usage GET /api/usage
		endpoint export GET /v1/orders/export {
			cost 100
		}
		endpoint order GET /v1/orders/{id}
		endpoint change PUT /v1/orders/{id}
		endpoint comment POST /v1/orders/{id}
		endpoint index GET /v1/files/index
		endpoint meta GET /v1/files/{name}/meta
		endpoint files GET /v1/files/{path...}
		endpoint action POST /v1/{action}
		plan free
		plan all {
			export 1000000
			order 1000000
			change 1000000
			comment 1000000
			index 1000000
			meta 1000000
			files 1000000
			action 1000000
		}
	}
}

{$TOLLGATE_ADDRESS} {
	tollgate
	reverse_proxy {$SERVICE}
}

http://{$TOLLGATE_CONTROL} {
	bind 127.0.0.1
	tollgate_control
}
`

// TestExpress puts the gate in front of Express, whose routes are not those of
// the gate in each spelling of a path, and which takes the method of a POST from
// its query. What Express serves is what the gate has
// counted, and a login is not open to guesses.
func TestExpress(t *testing.T) {
	t.Parallel()
	modules := npmtest.Install(t, "express@5.1.0", "method-override@3.0.0")
	dir := t.TempDir()
	app := filepath.Join(dir, "app.cjs")
	must(t, os.WriteFile(app, []byte(expressApp), 0o600))
	must(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	port := stack.FreePorts(t, 1)[0]
	serve(t, "127.0.0.1:"+port, "node", app, port)
	s := stack.StartGate(t, expressGate, "SERVICE=127.0.0.1:"+port)
	s.Tollgate("account", "set", "acme", "--plan", "all")
	token := newKey(t, s, "acme", "all").Token
	served := map[string]int{}
	for _, target := range []string{
		"GET /v1/orders/export", "GET /v1/orders/7", "GET /v1/orders/exports", "PUT /v1/orders/EXPORT", "GET /v1/files/a/b", "GET /v1/files/index",
		"GET /v1/files/x/meta", "GET /v1/files/META", "GET /v1/files/a%2Fb", "POST /v1/refund", "HEAD /v1/orders/7",

		"GET /v1/orders/EXPORT", "GET /v1/orders/Export", "HEAD /v1/orders/EXPORT", "GET /v1/orders/expor%54", "GET /v1/orders/export/", "GET /v1/orders/EXPORT/",
		"GET /v1/orders/7/", "GET /V1/orders/7", "GET /v1/ORDERS/export", "GET /v1/files/INDEX", "GET /v1/files/index/", "GET /v1/files/INDEX/", "GET /v1/files/x/META",
		"GET /v1/files/x/meta/", "GET /v1/files/x%2Fy/META", "GET /v1/files/I%4eDEX", "GET /v1/files/x%3By/META", "POST /v1/LOGIN", "POST /v1/Login", "POST /v1/login/", "POST /v1/log%49n",

		"POST /v1/orders/7?x=_method&method=PUT&a_method=PUT", "POST /v1/orders/7?_method=PUT", "POST /v1/orders/7?a=1&%5fmethod=put", "POST /v1/orders/7?_method=PUT&_method=PUT",
		"POST /v1/login?_method=PUT",
	} {
		method, path, _ := strings.Cut(target, " ")
		request, err := http.NewRequest(method, s.Address+path, nil)
		must(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultTransport.RoundTrip(request)
		must(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		must(t, err)
		must(t, response.Body.Close())
		counted, _, _ := strings.Cut(strings.TrimPrefix(response.Header.Get("RateLimit-Policy"), `"`), `"`)
		if route := response.Header.Get("Route"); route != counted {
			t.Errorf("%s: Express serves %q, and the gate has counted %q", target, route, counted)
		}
		if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %s", target, response.Status)
		}
		served[counted]++
	}
	for _, name := range []string{"export", "order", "change", "comment", "index", "meta", "files", "action", ""} {
		if served[name] == 0 {
			t.Errorf("no request to %q: %v", name, served)
		}
	}
}
