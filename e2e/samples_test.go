package e2e_test

import (
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// TestSamples runs each sample of the reference page in its language.
func TestSamples(t *testing.T) {
	stack.SkipInOneProcess(t, "TestOneProcessAnswersAlike compares the answers")
	s := stack.Start(t, stack.Shipped(t))
	ada := newAccount(t, s, "ada@example.com", "starter") // the account of the sample of the login
	token := newKey(t, s, ada, "samples").Token
	_, page := s.Call("GET", "/docs", "", nil)
	samples := regexp.MustCompile(`(?s)<pre id="(\w+)-(curl|javascript|python|go)"[^>]*>(.*?)</pre>`).FindAllStringSubmatch(page, -1)
	if len(samples) != 7*4 {
		t.Fatalf("got %d samples, want 4 of each of 7 endpoints", len(samples))
	}
	programs := map[string][]string{"curl": {"sample.sh", "sh"}, "javascript": {"sample.mjs", "node"}, "python": {"sample.py", "python3"}, "go": {"sample.go", "go", "run"}}
	wants := map[string]string{
		"login": `tgl_`, "currencies": `EUR`, "convert": `result`, "rates": `rates`, "history": `rates`, "batch": `succeeded`, "usage": `recent_calls`,
	}
	for _, sample := range samples {
		name, language, code := sample[1], sample[2], html.UnescapeString(sample[3])
		t.Run(name+"/"+language, func(t *testing.T) {
			t.Parallel()
			program := programs[language]
			file := filepath.Join(t.TempDir(), program[0])
			if err := os.WriteFile(file, []byte(code+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.Command(program[1], append(program[2:], file)...)
			command.Env = append(os.Environ(), "BASE="+s.Address, "TOKEN="+token)
			output, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(output), wants[name]) || language != "curl" && !strings.Contains(string(output), "200") {
				t.Errorf("got %v, %s, want %s in it", err, output, wants[name])
			}
		})
	}
}

// The generators are pinned: a later one may need another program.
var generators = []string{"openapi-typescript@7.10.1", "openapi-fetch@0.15.0", "typescript@5.9.3", "@types/node@24.10.1"}

// TestGeneratedClient makes all calls with a client that openapi-typescript
// generates. tsc checks the types of the program.
func TestGeneratedClient(t *testing.T) {
	stack.SkipInOneProcess(t, "TestOneProcessAnswersAlike compares the answers")
	s := stack.Start(t, stack.Shipped(t))
	newAccount(t, s, "ada@example.com", "starter")
	modules := npmtest.Install(t, generators...)
	folder := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	_, document := s.Call("GET", "/openapi.json", "", nil)
	program, err := os.ReadFile("testdata/client.ts")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"openapi.json": document, "client.ts": string(program), "package.json": `{"type":"module"}`} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range [][]string{
		{filepath.Join(modules, ".bin", "openapi-typescript"), "openapi.json", "--output", "api.ts"},
		{filepath.Join(modules, ".bin", "tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--skipLibCheck", "client.ts"},
		{"node", "client.js"},
	} {
		command := exec.Command(line[0], line[1:]...)
		command.Dir = folder
		command.Env = append(os.Environ(), "BASE="+s.Address, "EMAIL=ada@example.com", "PASSWORD=correct horse battery staple")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", filepath.Base(line[0]), err, output)
		}
	}
}
