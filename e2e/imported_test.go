package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestImportedKeyInShadow imports keys of another gateway, disables the account
// of one, and calls a service behind mode shadow. It is refused like a key of the
// gate. The service keeps its own Authorization, but gets no two of them.
func TestImportedKeyInShadow(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %q", r.Header.Get("Tollgate-Account"), r.Header.Values("Authorization"))
	}))
	t.Cleanup(service.Close)
	const config = `{
	admin {$CADDY_ADMIN}
	tollgate {
		store badger "{$TOLLGATE_DATA}/gate"
		secret {env.TOLLGATE_SECRET}
		mode {$MODE}
		foreign_keys
		token_header X-Api-Key
		usage GET /api/usage
		endpoint order GET /orders/{id} {
			keep Authorization
		}
		plan team {
			order 1000
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
	s := stack.StartGate(t, config, "SERVICE="+service.Listener.Addr().String(), "MODE=shadow")
	const live, gone, unknown = "old-live-3f9a1c77d2e84b60", "old-gone-3f9a1c77d2e84b60", "old-none-3f9a1c77d2e84b60"
	file := filepath.Join(t.TempDir(), "keys.jsonl")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `{"account":"live","plan":"team","name":"old","token":%q}
{"account":"gone","plan":"team","name":"old","token":%q}
`, live, gone), 0o600))
	s.Tollgate("key", "import", file)
	s.Tollgate("account", "set", "gone", "--plan", "team", "--disabled")
	call := func(path, want string, header ...string) {
		t.Helper()
		request, err := http.NewRequest(http.MethodGet, s.Address+path, nil)
		must(t, err)
		for i := 0; i < len(header); i += 2 {
			request.Header.Add(header[i], header[i+1])
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		if got := fmt.Sprint(response.StatusCode, " ", string(body)); !strings.HasPrefix(got, want) {
			t.Errorf("%s %v: got %s, want %s", path, header, got, want)
		}
	}
	call("/orders/7", `200 live []`, "X-Api-Key", live)
	call("/orders/7", `200  ["Bearer `+unknown+`"]`, "Authorization", "Bearer "+unknown)
	call("/orders/7", "401", "Authorization", "Bearer "+gone)
	call("/orders/7", "401", "X-Api-Key", gone)
	call("/orders/7?api_key=1", "401", "X-Api-Key", gone)
	s.Set("MODE", "enforce")
	must(t, s.Reload())
	call("/orders/7", "401", "X-Api-Key", gone)
	call("/orders/7", `200 live ["Basic YTpi"]`, "X-Api-Key", live, "Authorization", "Basic YTpi")
	call("/orders/7", "400", "X-Api-Key", live, "Authorization", "Basic YTpi", "Authorization", "Bearer x")
}
