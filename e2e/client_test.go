//go:build long

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// The generators are pinned: a later one may need another program.
var generators = []string{"openapi-typescript@7.10.1", "openapi-fetch@0.15.0", "typescript@5.9.3", "@types/node@24.10.1"}

// TestGeneratedClient makes all calls with a client that openapi-typescript
// generates. tsc checks the types of the program.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	newAccount(t, s, "ada@example.com", "starter")
	modules := npmtest.Install(t, generators...)
	folder := t.TempDir()
	must(t, os.Symlink(modules, filepath.Join(folder, "node_modules")))
	_, document := s.Call("GET", "/openapi.json", "", nil)
	program, err := os.ReadFile("testdata/client.ts")
	must(t, err)
	for name, text := range map[string]string{"openapi.json": document, "client.ts": string(program), "package.json": `{"type":"module"}`} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
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
