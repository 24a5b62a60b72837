package examples_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// recipe checks that docs/recipes.md has a text, and returns it.
func recipe(t *testing.T, text string) string {
	t.Helper()
	if !strings.Contains(read(t, "../docs/recipes.md"), text) {
		t.Fatalf("docs/recipes.md has no %q", text)
	}
	return text
}

const (
	guarded = "\t\tguard /v1/\n"
	served  = "\ttollgate\n\treverse_proxy {$TOLLGATE_UPSTREAM:127.0.0.1:9000}\n"
)

// TestFreeTier runs the recipe of a free tier without a key.
func TestFreeTier(t *testing.T) {
	site, gate := run(t, "in-front-of-your-api.Caddyfile", mirror(t, "Authorization"),
		"\t\tplan free\n", "\t\tplan free {\n\t\t\tsearch 3\n\t\t}\n",
		guarded, guarded+"\t\t"+recipe(t, "identity {http.vars.free_user} plan free")+"\n",
		served, "\t"+recipe(t, "vars free_user anonymous")+"\n"+served)
	token := newKey(t, gate, "acc_1", "team")
	wantAccounts(t, site+"/v1/search", map[string][]string{"anonymous free": nil, "acc_1 team": {"Authorization", "Bearer " + token}})
	wantStatus(t, 401, "GET", site+"/v1/search", "", "Authorization", "Bearer "+token+"x")
	wantStatus(t, 200, "GET", site+"/v1/search", "", "Authorization", "Bearer of another system")
	wantStatus(t, 429, "GET", site+"/v1/search", "")
	wantStatus(t, 200, "GET", site+"/v1/search", "", "Authorization", "Bearer "+token)
	wantStatus(t, 403, "GET", site+"/v1/orders/7", "")
}

// importKey imports a key of another system for the account acc_1.
func importKey(t *testing.T, gate *client.Client, token string) {
	t.Helper()
	line := fmt.Sprintf(`{"account":"acc_1","plan":"team","sha256":"%x"}`, sha256.Sum256([]byte(token)))
	must(t, gate.ImportKeys(t.Context(), strings.NewReader(line), false, func(result api.LineResult) error {
		if result.Status != http.StatusCreated && result.Status != http.StatusOK {
			t.Errorf("importing a key: got %+v", result)
		}
		return nil
	}))
}

// TestKeysOfKongAndTyk runs the recipes for their clients.
func TestKeysOfKongAndTyk(t *testing.T) {
	const token = "0b7d2c5f41d94e6d9d2f"
	var route string
	for _, block := range blocks(read(t, "../docs/recipes.md"), "caddyfile") {
		if strings.HasPrefix(block, "route {\n\trequest_header ") {
			route = strings.Replace(regexp.MustCompile("(?m)^(.)").ReplaceAllString(block, "\t$1"), "127.0.0.1:9000", "{$TOLLGATE_UPSTREAM}", 1)
		}
	}
	site, gate := run(t, "in-front-of-your-api.Caddyfile", mirror(t, "Authorization"),
		guarded, guarded+"\t\tforeign_keys on\n\t\t"+recipe(t, "token_header apikey")+"\n", served, route)
	importKey(t, gate, token)
	wantAccounts(t, site+"/v1/search", map[string][]string{"acc_1 team": {"Authorization", token}})
	wantAccounts(t, site+"/v1/search", map[string][]string{"acc_1 team": {"Authorization", "Bearer " + token}})
	wantAccounts(t, site+"/v1/search", map[string][]string{"acc_1 team": {"apikey", token}})
	wantStatus(t, 400, "GET", site+"/v1/search", "", "apikey", token, "Authorization", token)
	wantStatus(t, 400, "GET", site+"/v1/search?apikey="+token, "")
	wantStatus(t, 401, "GET", site+"/v1/search", "", "Authorization", "Basic "+token)
	wantStatus(t, 401, "GET", site+"/v1/search", "", "Authorization", token+"x")
}

const supabase = `
import { createClient } from '@supabase/supabase-js'
const [url, key, session] = process.argv.slice(2)
const options = session ? { accessToken: async () => session } : {}
const { data, error } = await createClient(url, key, options).from('items').select()
console.log(error ? error.code : data[0].account + ' ' + data[0].authorization)
process.exit()
`

// TestSupabase runs the recipe for clients of Supabase with supabase-js.
func TestSupabase(t *testing.T) {
	modules := npmtest.Install(t, "@supabase/supabase-js@2.49.4")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `[{"account":%q,"authorization":%q}]`, r.Header.Get("Tollgate-Account"), r.Header.Get("Authorization")+r.Header.Get("apikey"))
	}))
	t.Cleanup(service.Close)
	site, gate := run(t, "in-front-of-your-api.Caddyfile", service.URL,
		guarded, "\t\tguard /v1/ /rest/\n\t\tforeign_keys on\n\t\t"+recipe(t, "token_header apikey")+"\n",
		"endpoint search GET /v1/search", "endpoint search GET /rest/v1/items {\n\t\t\t"+recipe(t, "keep Authorization")+"\n\t\t}")
	token := newKey(t, gate, "acc_1", "team")
	const imported, session = "eyJhbGciOiJIUzI1NiJ9.eyJyb2xlIjoiYW5vbiJ9.c2ln", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1c2VyIn0.c2ln"
	importKey(t, gate, imported)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "call.mjs"), []byte(supabase), 0o600))
	must(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	for _, c := range [][]string{
		{token, session, "acc_1 Bearer " + session}, {imported, session, "acc_1 Bearer " + session},
		{imported, "", "acc_1 Bearer " + imported}, {token, "", "invalid_request"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, "node", filepath.Join(dir, "call.mjs"), site, c[0], c[1]).CombinedOutput()
		cancel()
		if got := strings.TrimSpace(string(out)); err != nil || got != c[2] {
			t.Errorf("key %s, session %q: got %q, %v, want %q", c[0], c[1], got, err, c[2])
		}
	}
}
