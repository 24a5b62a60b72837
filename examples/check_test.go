package examples_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/command"
)

// TestCheckShipped: caddy tollgate check finds nothing in a shipped file if all
// accounts, keys and counts were made with it.
func TestCheckShipped(t *testing.T) {
	for _, file := range append(examples(t), "../Caddyfile") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := environment(t)
			gate, admin := gateOf(t, dir, adapt(t, file, read(t, file)))
			useAll(t, gate, dir)
			census := censusOf(t, gate)
			if len(census.Plans) == 0 || len(census.Abilities) == 0 || len(census.Endpoints) < len(census.Abilities) {
				t.Errorf("the accounts need only %+v", census)
			}
			packaged := filepath.Join(dir, "Caddyfile") // as xcaddy.sh package writes it
			must(t, os.WriteFile(filepath.Join(dir, "log.caddyfile"), []byte(read(t, "../log.caddyfile")), 0o600))
			must(t, os.WriteFile(packaged, []byte(strings.NewReplacer("{env.TOLLGATE_SECRET}", "{file./etc/tollgate/secret}", "import ../", "import ").Replace(read(t, file))), 0o600))
			for _, path := range []string{file, packaged} {
				var out strings.Builder
				command := &cobra.Command{Use: "tollgate", SilenceUsage: true}
				caddycmd.Commands()["tollgate"].CobraFunc(command)
				command.SetOut(&out)
				command.SetArgs([]string{"check", "--config", path, "--adapter", "caddyfile", "--address", admin})
				if err := command.ExecuteContext(t.Context()); err != nil || out.String() != "Nothing is lost.\n" {
					t.Errorf("%s: got %v, %s", path, err, out.String())
				}
			}
		})
	}
}

// gateOf runs the gate of a configuration on a store of its own, without the
// services behind it and without a webhook.
func gateOf(t *testing.T, dir string, configuration []byte) (gate *client.Client, admin string) {
	t.Helper()
	var config map[string]any
	must(t, json.Unmarshal(configuration, &config))
	app := member(config, "apps", "tollgate")
	app["store"] = map[string]any{"module": "badger", "directory": filepath.Join(dir, "gate")}
	delete(app, "webhook")
	admin = "unix/" + filepath.Join(dir, "admin.sock")
	text, err := json.Marshal(map[string]any{
		"admin": map[string]any{"listen": admin, "config": map[string]any{"persist": false}},
		"apps": map[string]any{"tollgate": app, "http": map[string]any{"servers": map[string]any{"site": map[string]any{
			"listen": []string{"unix/" + filepath.Join(dir, "site.sock")}, "automatic_https": map[string]any{"disable": true},
			"routes": []any{map[string]any{"handle": []any{map[string]any{"handler": "tollgate"}, map[string]any{"handler": "static_response"}}}},
		}}}},
	})
	must(t, err)
	must(t, caddy.Load(text, true))
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	gate, err = command.AdminClient(admin)
	must(t, err)
	return gate, admin
}

// wildcard is a part of a pattern.
var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// useAll makes an account with a key on each plan, and calls each endpoint of
// the plan.
func useAll(t *testing.T, gate *client.Client, dir string) {
	t.Helper()
	site := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "site.sock"))
	}}}
	plans, err := gate.Plans(t.Context())
	must(t, err)
	for _, plan := range plans.Plans {
		if len(plan.Limits) == 0 {
			if _, err := gate.PutAccount(t.Context(), plan.Name, api.AccountChange{Plan: &plan.Name}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		token := newKey(t, gate, plan.Name, plan.Name)
		for _, e := range plans.Endpoints {
			if _, listed := plan.Limits[e.Name]; !listed {
				continue
			}
			body := ""
			switch {
			case e.CostMember != nil:
				body = `{"` + *e.CostMember + `":[1]}`
			case e.Method == http.MethodPost: // for a bound of the cost, and for a tool of that name
				body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + e.Name + `"}}`
			}
			request, err := http.NewRequestWithContext(t.Context(), e.Method, "http://gate"+wildcard.ReplaceAllString(e.Path, "x"), strings.NewReader(body))
			must(t, err)
			request.Header.Set("Authorization", "Bearer "+token)
			request.Header.Set("Content-Type", "application/json")
			response, err := site.Do(request)
			must(t, err)
			text, _ := io.ReadAll(response.Body) // for the message only
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s %s: got %d %s", e.Method, e.Path, response.StatusCode, text)
			}
		}
	}
}

// censusOf returns the census once the gate has compared its configuration with
// it.
func censusOf(t *testing.T, gate *client.Client) (census api.Census) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var err error
		census, err = gate.Census(t.Context())
		must(t, err)
		if census.Timezone != "" {
			return census
		}
	}
	t.Fatal("the counts have no time zone")
	return census
}
