//go:build long

package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// The linters are pinned: a later one may find more, and then the documents
// are mended together with these lines.
const (
	redoclyVersion  = "2.77.0"
	spectralVersion = "6.16.3"
)

// run runs a program and fails the test with its output if that fails.
func run(t *testing.T, limit time.Duration, name string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, output)
	}
}

// TestLint: public linters have nothing to say about the documents of both
// APIs.
func TestLint(t *testing.T) {
	t.Parallel()
	programs := filepath.Join(npmtest.Install(t, "@redocly/cli@"+redoclyVersion, "@stoplight/spectral-cli@"+spectralVersion), ".bin")
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ruleset := write("spectral.yaml", "extends: ['spectral:oas']\n")
	rules := write("redocly.yaml", "extends: [recommended]\n")
	for _, test := range []struct {
		name, target string
		handler      http.Handler
	}{
		{"currency", "/openapi.json", serve(t).handler},
		{"control", "/tollgate/openapi.json", controltest.New(t).Handler()},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, test.target, nil)
		r.Header.Set("Authorization", "Bearer "+controltest.Secret)
		test.handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", test.target, w.Code, w.Body)
		}
		document := write(test.name+".json", w.Body.String())
		t.Run(test.name+"/redocly", func(t *testing.T) {
			run(t, time.Minute, filepath.Join(programs, "redocly"), "lint", "--config", rules, document)
		})
		t.Run(test.name+"/spectral", func(t *testing.T) {
			run(t, time.Minute, filepath.Join(programs, "spectral"), "lint", "--ruleset", ruleset, "--fail-severity", "warn", document)
		})
	}
}
