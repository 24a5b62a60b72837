package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// The SDKs are pinned: a later one may need another Node.js, or say something else.
var (
	modelSDKs = []string{"openai@6.46.0", "@anthropic-ai/sdk@1.14.0", "ai@6.0.326", "@ai-sdk/openai-compatible@2.0.92", "@langchain/openai@1.5.8", "@langchain/core@1.4.0"}
	mcpSDKs   = []string{"@modelcontextprotocol/sdk@1.32.2", "zod@4.6.7"}
)

// otherModels adds the APIs that examples/models.Caddyfile does not have.
var otherModels = []string{
	"guard /v1/\n", "guard /v1/ /v1beta/ /api/\n\t\ttoken_header X-Api-Key\n", "usage GET /v1/usage", "usage GET /api/usage", "\t\tplan free\n", `
		endpoint responses POST /v1/responses {
			cost answer json usage.total_tokens|response.usage.total_tokens reserve bound max_output_tokens 4096
		}
		endpoint messages POST /v1/messages {
			cost answer json message.usage.input_tokens|usage.input_tokens+message.usage.cache_creation_input_tokens|usage.cache_creation_input_tokens+message.usage.cache_read_input_tokens|usage.cache_read_input_tokens+usage.output_tokens reserve bound max_tokens 4096
		}
		endpoint ollama POST /api/chat {
			cost answer json prompt_eval_count+eval_count reserve bound options.num_predict 4096
		}
		endpoint gemini POST /v1beta/models/{call} {
			cost answer json usageMetadata.totalTokenCount reserve bound generationConfig.maxOutputTokens 4096
		}
		plan free
`, "\t\tplan starter {\n", "\t\tplan starter {\n\t\t\tresponses 1000000\n\t\t\tmessages 1000000\n\t\t\tollama 1000000\n\t\t\tgemini 1000000\n",
}

// TestModels runs the example of language models with SDKs that others wrote, in
// front of a service that answers in the forms of six servers: the gate counts what
// the service has told, and each SDK shows the message of a refusal, and does not
// repeat the request.
func TestModels(t *testing.T) {
	t.Parallel()
	service := &modelServer{t: t, told: map[string]int64{}}
	listener := httptest.NewServer(service)
	t.Cleanup(listener.Close)
	caddyfile := exampleWithLog(t, "models.Caddyfile")
	for i := 0; i < len(otherModels); i += 2 {
		if !strings.Contains(caddyfile, otherModels[i]) {
			t.Fatalf("the example has no %q", otherModels[i])
		}
		caddyfile = strings.Replace(caddyfile, otherModels[i], otherModels[i+1], 1)
	}
	s := stack.StartGate(t, caddyfile, "TOLLGATE_UPSTREAM="+strings.TrimPrefix(listener.URL, "http://"))
	keys := map[string]string{"invalid": "sk-nobody"}
	for _, account := range []string{"acme", "empty", "narrow"} {
		s.Tollgate("account", "set", account, "--plan", "starter")
		keys[account] = newKey(t, s, account, "sdk").Token
	}
	s.Tollgate("limit", "set", "empty", "all", "0", "--period", "month")
	s.Tollgate("account", "set", "narrow", "--plan", "free")
	refusals := map[string]string{
		"invalid": "The token is ", "empty": "Monthly API limit exceeded: 0 calls a month to all endpoints together. It resets at ", "narrow": "plan",
	}
	var refused []string
	for name := range refusals {
		refused = append(refused, keys[name])
	}

	out := runJS(t, modelSDKs, "models.mjs", "BASE="+s.Address, "KEY="+keys["acme"], "REFUSED="+strings.Join(refused, " "))
	answers := decode[map[string]map[string]struct {
		Message  string
		Requests int
	}](t, out)
	for name, want := range refusals {
		got := answers[keys[name]]
		if len(got) < 40 {
			t.Errorf("%s: %d calls", name, len(got))
		}
		for call, answer := range got {
			if !strings.Contains(answer.Message, want) || answer.Requests != 1 {
				t.Errorf("%s, %s: got %q after %d requests, want %q after one", name, call, answer.Message, answer.Requests, want)
			}
		}
	}
	eventually(t, "the sum of the service", func() error {
		if got, want := usedBy(t, s, "acme"), service.tells(); !maps.Equal(got, want) || len(want) != 7 {
			return fmt.Errorf("counted %v, the service has told %v", got, want)
		}
		return nil
	})
	for _, account := range []string{"empty", "narrow"} {
		if got := usedBy(t, s, account); len(got) > 0 {
			t.Errorf("%s: counted %v", account, got)
		}
	}
}

// TestMCP runs the example of an MCP server with the SDK of the protocol on both
// sides: the gate counts each tool as the server does, and the client shows the
// message of a refusal.
func TestMCP(t *testing.T) {
	t.Parallel()
	port := stack.FreePorts(t, 1)[0]
	folder := folderJS(t, mcpSDKs, "mcpserver.mjs")
	serve(t, "127.0.0.1:"+port, "node", filepath.Join(folder, "mcpserver.mjs"), port)
	s := stack.StartGate(t, exampleWithLog(t, "mcp.Caddyfile"), "TOLLGATE_UPSTREAM=127.0.0.1:"+port)
	s.Tollgate("account", "set", "acme", "--plan", "starter")
	token := newKey(t, s, "acme", "client").Token
	settings := []string{"BASE=" + s.Address, "SERVER=http://127.0.0.1:" + port, "KEY=" + token}
	calls := decode[map[string]int64](t, runJS(t, mcpSDKs, "mcpclient.mjs", settings...))
	calls["report"] *= 10 // its cost
	if got := usedBy(t, s, "acme"); !maps.Equal(got, calls) || got["search"] != 3 || got["report"] != 20 || got["mcp"] < 5 {
		t.Errorf("counted %v, the server %v", got, calls)
	}
	s.Tollgate("limit", "set", "acme", "search", "3")
	for key, want := range map[string]string{token: "Daily API limit exceeded: 3 calls a day to search.", "nobody": "The token is "} {
		message := runJS(t, mcpSDKs, "mcpclient.mjs", append(settings, "KEY="+key, "REFUSED=yes")...)
		if !strings.Contains(message, want) {
			t.Errorf("got %s, want %s", message, want)
		}
	}
}

// usedBy returns what an account has used today, by endpoint.
func usedBy(t *testing.T, s *stack.Stack, account string) map[string]int64 {
	t.Helper()
	usage := decode[struct {
		Endpoints []struct {
			Endpoint string
			Used     int64
		}
	}](t, s.Tollgate("usage", "show", account, "--json"))
	used := map[string]int64{}
	for _, e := range usage.Endpoints {
		if e.Used > 0 {
			used[e.Endpoint] = e.Used
		}
	}
	return used
}

// folderJS returns a folder with packages of npm and a program of testdata.
func folderJS(t *testing.T, packages []string, program string) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.Symlink(npmtest.Install(t, packages...), filepath.Join(folder, "node_modules")))
	must(t, os.WriteFile(filepath.Join(folder, program), []byte(read(t, filepath.Join("testdata", program))), 0o600))
	return folder
}

// runJS runs a program of testdata with packages of npm, and returns what it prints.
func runJS(t *testing.T, packages []string, program string, settings ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "node", program)
	command.Dir, command.Env = folderJS(t, packages, program), append(os.Environ(), settings...)
	out, err := command.Output()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		t.Fatalf("%s: %v\n%s%s", program, err, out, exit.Stderr)
	}
	must(t, err)
	return string(out)
}
