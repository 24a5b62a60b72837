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
)

// TestSamples runs each sample of the reference in its language.
func TestSamples(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	ada := newAccount(t, s, "ada@example.com", "starter") // the account of the sample of the login
	token := newKey(t, s, ada, "samples").Token
	programs := map[string][]string{
		"/docs": {"sample.sh", "sh"}, "/docs/javascript": {"sample.mjs", "node"}, "/docs/python": {"sample.py", "python3"}, "/docs/go": {"sample.go", "go", "run"},
	}
	wants := map[string]string{
		"latest": `source`, "csv": `date,base,code,rate,source`,
		"login": `tgl_`, "currencies": `EUR`, "convert": `result`, "rates": `rates`, "history": `rates`, "batch": `succeeded`, "usage": `recent_calls`,
	}
	for path, program := range programs {
		_, page := s.Call("GET", path, "", nil)
		samples := regexp.MustCompile(`(?s)<pre id="(\w+)-sample"[^>]*>(.*?)</pre>`).FindAllStringSubmatch(page, -1)
		if len(samples) != len(wants) {
			t.Errorf("%s has %d samples, want %d", path, len(samples), len(wants))
		}
		for _, sample := range samples {
			name, code := sample[1], html.UnescapeString(sample[2])
			t.Run(path+"/"+name, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), program[0])
				must(t, os.WriteFile(file, []byte(code+"\n"), 0o600))
				command := exec.Command(program[1], append(program[2:], file)...)
				// The flags of xcaddy.sh: the standard library is compiled already.
				command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "BASE="+s.Address, "TOKEN="+token)
				output, err := command.CombinedOutput()
				if err != nil || !strings.Contains(string(output), wants[name]) || path != "/docs" && !strings.Contains(string(output), "200") {
					t.Errorf("got %v, %s, want %s in it", err, output, wants[name])
				}
			})
		}
	}
}
