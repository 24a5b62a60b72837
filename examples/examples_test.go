// Package examples_test checks that Caddy and the gate accept the
// configurations of the examples and of the documentation.
package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	_ "github.com/caddy-tollgate/tollgate/caddymodule/redis"
	_ "github.com/caddy-tollgate/tollgate/upstream/caddyupstream"
)

// examples returns the files of the examples.
func examples(t *testing.T) []string {
	t.Helper()
	files := list(t, "*.Caddyfile")
	if len(files) == 0 {
		t.Fatal("there are no examples")
	}
	return files
}

// list returns the files of a pattern.
func list(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	must(t, err)
	return files
}

// TestExamples adapts and validates every example.
func TestExamples(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(file, func(t *testing.T) { validate(t, file, read(t, file)) })
	}
}

// shipped are the Caddyfiles of "xcaddy.sh run".
var shipped = []string{"../Caddyfile", "one-process.Caddyfile"}

// TestShipped checks that the servers of the shipped Caddyfiles abort a body
// that stalls, and that the plan free gives no access. The files have the same
// global options, sites and gate; only a handler differs.
func TestShipped(t *testing.T) {
	t.Setenv("TOLLGATE_SECRET", "a secret of thirty-two characters")
	var forms []string
	for i, file := range shipped {
		var config any
		adapted := adapt(t, file, read(t, file))
		must(t, json.Unmarshal(adapted, &config))
		if n := blank(config, []string{"reverse_proxy", "tollgate_upstream"}[i]); n != 1 {
			t.Errorf("%s has %d handlers of its service, want 1", file, n)
		}
		// The proxy of a service that is away has errors, and one process has none.
		for _, server := range config.(map[string]any)["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any) {
			delete(server.(map[string]any), "errors")
		}
		text, err := json.Marshal(config)
		must(t, err)
		forms = append(forms, string(text))
	}
	if forms[0] != forms[1] {
		t.Errorf("the two files differ:\n%s\n%s", forms[0], forms[1])
	}
	var config struct {
		Apps struct {
			Tollgate caddymodule.App
			HTTP     struct {
				Servers map[string]struct {
					Idle caddy.Duration `json:"read_idle_timeout"`
					Rate int64          `json:"read_min_rate"`
				}
			}
		}
	}
	must(t, json.Unmarshal([]byte(forms[0]), &config))
	for name, server := range config.Apps.HTTP.Servers {
		if time.Duration(server.Idle) != 10*time.Second || server.Rate != 250 {
			t.Errorf("%s: read_body_idle is %v %d, want 10s 250", name, time.Duration(server.Idle), server.Rate)
		}
	}
	plans := config.Apps.Tollgate.Plans
	found := false
	for _, plan := range plans {
		found = found || plan.Name == "free" && len(plan.Limits)+len(plan.MoreLimits) == 0
	}
	if !found {
		t.Error("the plan free is missing or gives access")
	}
}

// blank empties the handlers of a name in a configuration, and returns how
// many it found.
func blank(config any, handler string) (found int) {
	switch value := config.(type) {
	case []any:
		for _, element := range value {
			found += blank(element, handler)
		}
	case map[string]any:
		if value["handler"] == handler {
			clear(value)
			return 1
		}
		for _, member := range value {
			found += blank(member, handler)
		}
	}
	return found
}

// TestDocumentation adapts and validates the Caddyfiles of the README and
// of docs/, and adapts each route. It ignores other parts of Caddyfiles.
func TestDocumentation(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	must(t, err)
	found := 0
	for _, file := range append(files, "../README.md") {
		for _, block := range blocks(read(t, file), "caddyfile") {
			switch {
			case strings.HasPrefix(block, "{\n"):
				found++
				t.Run(filepath.Base(file), func(t *testing.T) { validate(t, file, block) })
			case strings.HasPrefix(block, "route {\n"):
				adapt(t, file, ":8080 {\n\t"+strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n\t")+"\n}\n")
			}
		}
	}
	if found == 0 {
		t.Error("the documentation has no Caddyfile")
	}
}

// TestEveryOption checks that the Caddyfile "Every option" of
// docs/configuration.md has each option of docs/options.md, but those of Redis and of the upstream.
func TestEveryOption(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../docs/configuration.md"), "\n## Every option\n")
	adapted := string(adapt(t, "configuration.md", blocks(section, "caddyfile")[0]))
	reference, _, found := strings.Cut(read(t, "../docs/options.md"), "\n## `store` with the module `redis`\n")
	options := regexp.MustCompile("(?m)^- \\*\\*`(\\w+)`").FindAllStringSubmatch(reference, -1)
	if !found || len(options) < 40 {
		t.Fatalf("docs/options.md has %d options; the test no longer understands the page", len(options))
	}
	for _, option := range options {
		if !strings.Contains(adapted, `"`+option[1]+`":`) {
			t.Errorf("the example of docs/configuration.md has no %s", option[1])
		}
	}
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// blocks returns the code blocks of a document in a language.
func blocks(text, language string) []string {
	var found []string
	for _, match := range fence.FindAllStringSubmatch(text, -1) {
		if match[1] == language {
			found = append(found, match[2])
		}
	}
	return found
}

// validate does what "caddy validate" does, with the environment that the
// examples need.
func validate(t *testing.T, file, text string) {
	t.Helper()
	dir := environment(t)
	var config caddy.Config
	must(t, json.Unmarshal(adapt(t, file, text), &config))
	if err := caddy.Validate(&config); err != nil {
		t.Error(err)
	}
	// Caddy opens logs.
	for _, made := range list(t, filepath.Join(dir, "data", "*")) {
		if filepath.Base(made) != "log" {
			t.Errorf("validate made %s", made)
		}
	}
}

// environment sets the variables that the examples need. It returns a directory
// with what they name.
func environment(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	const secret = "a secret of thirty-two characters"
	must(t, os.WriteFile(filepath.Join(dir, "tollgate"), []byte(secret+"\n"), 0o600))
	for name, value := range map[string]string{
		"TOLLGATE_SECRET": secret, "TOLLGATE_OLD_SECRET": secret,
		"TOLLGATE_WEBHOOK_SECRET":       "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
		"TOLLGATE_TAKE_SECRET":          "a0e1d2c3b4a5968778695a4b3c2d1e0ff0e1d2c3b4a5968778695a4b3c2d1e0f",
		"TOLLGATE_FEED_TOKEN":           "feed_token",
		"TOLLGATE_INTROSPECTION_SECRET": "f0e1d2c3b4a5968778695a4b3c2d1e0ff0e1d2c3b4a5968778695a4b3c2d1e0f",
		"ALICE_PASSWORD_HASH":           "$2a$04$wVTXHQrMPPx6UhLGqnh2nOeXk3jy0oaPnUXIOIoQ1hFf1HWKBI5oq",
		"BOB_PASSWORD_HASH":             "$2a$04$wVTXHQrMPPx6UhLGqnh2nOeXk3jy0oaPnUXIOIoQ1hFf1HWKBI5oq",
		"REDIS_PASSWORD":                "a password of thirty characters", "CREDENTIALS_DIRECTORY": dir, "TOLLGATE_DATA": filepath.Join(dir, "data"),
	} {
		t.Setenv(name, value)
	}
	return dir
}

func adapt(t *testing.T, file, text string) []byte {
	t.Helper()
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": file})
	must(t, err)
	for _, w := range warnings {
		t.Errorf("%s:%d: %s", w.File, w.Line, w.Message)
	}
	return adapted
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}
