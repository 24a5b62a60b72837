package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// addresses is how an example says to start the upstream.
var addresses = regexp.MustCompile(`(?m)^#\tTOLLGATE_ADDRESS="(.+)" bin/upstream serve$`)

// TestSeveralSites runs the example of several sites with an upstream that
// is started as the example says. The upstream refuses calls for hosts
// that it does not know, so each site is asked.
func TestSeveralSites(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(stack.Root(), "examples", "several-sites.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	ports := stack.FreePorts(t, 2)
	example := strings.NewReplacer(":8080", ":"+ports[0], ":9180", ":"+ports[1]).Replace(string(text))
	start := addresses.FindStringSubmatch(example)
	if start == nil {
		t.Fatal("the example does not say how to start the upstream")
	}
	s := stack.Start(t, example, "TOLLGATE_ADDRESS="+start[1])
	key := newKey(t, s, newAccount(t, s, "ada@example.com", "starter"), "ci")
	for _, host := range []string{"one.localhost", "two.localhost"} {
		s.Address = "http://" + host + ":" + ports[0]
		if response, body := s.Call("GET", "/api/rates/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d %s", host, response.StatusCode, body)
		}
	}
}
