package examples_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// TestSeveralGates runs the examples of several gates with real servers, and
// calls an endpoint.
func TestSeveralGates(t *testing.T) {
	const password = "a@password:of/thirty%characters"
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(service.Close)
	for file, start := range map[string]func() []*redistest.Server{
		"several-gates.Caddyfile": func() []*redistest.Server {
			return []*redistest.Server{redistest.Start(t, "requirepass "+password)}
		},
		"several-gates-sentinel.Caddyfile": func() []*redistest.Server {
			return redistest.StartSentinel(t, 1, "requirepass "+password).Sentinels
		},
		"several-gates-cluster.Caddyfile": func() []*redistest.Server {
			return redistest.StartCluster(t, 3, "requirepass "+password).Servers
		},
	} {
		t.Run(file, func(t *testing.T) {
			var hosts []string
			for _, server := range start() {
				hosts = append(hosts, server.Addr())
			}
			t.Setenv("REDIS_PASSWORD", password)
			t.Setenv("REDIS_HOSTS", strings.Join(hosts, ","))
			site, gate := run(t, file, service.URL)
			var err error
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
				if _, err = gate.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("starter")}); err == nil {
					break // the gate has found the servers
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			key, err := gate.CreateKey(t.Context(), "acc_1", api.KeyRequest{Name: "ci"})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"rates 999", "rates 998"} {
				response := call(t, "GET", site+"/api/rates/EUR", key.Token, "", "")
				if got := room(response); response.StatusCode != http.StatusOK || got != want {
					t.Errorf("got %s with the room %q, want 200 with %q", response.Status, got, want)
				}
			}
		})
	}
}
