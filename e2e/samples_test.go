package e2e_test

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
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
				output, err := sampled(t, program, code, s.Address, token)
				if err != nil || !strings.Contains(output, wants[name]) || path != "/docs" && !strings.Contains(output, "200") {
					t.Errorf("got %v, %s, want %s in it", err, output, wants[name])
				}
				if name == "batch" && path != "/docs" { // it has a body to send again
					checkWaits(t, program, code)
				}
			})
		}
	}
}

// sampled runs a sample.
func sampled(t *testing.T, program []string, code, base, token string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), program[0])
	must(t, os.WriteFile(file, []byte(code+"\n"), 0o600))
	command := exec.Command(program[1], append(program[2:], file)...)
	// The flags of xcaddy.sh: the standard library is compiled already.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "BASE="+base, "TOKEN="+token)
	output, err := command.CombinedOutput()
	return string(output), err
}

// checkWaits checks how long a sample waits: as long as Retry-After says, but not
// until midnight, and not where another try does not help.
func checkWaits(t *testing.T, program []string, code string) {
	t.Helper()
	for name, test := range map[string]struct {
		status             int
		after, shouldRetry string
		calls              int
		prints             string
	}{
		"a short wait":             {429, "1", "true", 2, "200"},
		"a gate that is restarted": {503, "1", "", 2, "200"},
		"a wait to midnight":       {429, "46800", "", 1, "429"},
		"no other try":             {429, "1", "false", 1, "429"},
		"a date":                   {503, "Fri, 31 Dec 2100 23:59:59 GMT", "", 1, "503"},
		"no wait":                  {503, "", "true", 1, "503"},
	} {
		var bodies []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "application/json")
			if bodies = append(bodies, string(body)); len(bodies) == 1 {
				for header, value := range map[string]string{"Retry-After": test.after, "X-Should-Retry": test.shouldRetry} {
					if value != "" {
						w.Header().Set(header, value)
					}
				}
				w.WriteHeader(test.status)
			}
			io.WriteString(w, `{"message":"hello"}`)
		}))
		output, err := sampled(t, program, code, server.URL, "secret")
		server.Close()
		if err != nil || len(bodies) != test.calls || !strings.Contains(output, test.prints) || !strings.Contains(output, "hello") {
			t.Errorf("%s: got %v, %s after %d calls, want %s after %d", name, err, output, len(bodies), test.prints, test.calls)
		} else if last := bodies[len(bodies)-1]; last != bodies[0] || !strings.Contains(last, "conversions") {
			t.Errorf("%s: the last call has the body %q, the first %q", name, last, bodies[0])
		}
	}
}
