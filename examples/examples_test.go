// Package examples_test checks that Caddy and the gate accept the
// configurations of the examples and of the documentation.
package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	_ "github.com/caddy-tollgate/tollgate/caddymodule/redis"
	_ "github.com/caddy-tollgate/tollgate/upstream/caddyupstream"
)

// TestExamples adapts and validates every example.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("*.Caddyfile")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding examples: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) { validate(t, file, read(t, file)) })
	}
}

// TestBodyTimeouts checks that each server of each shipped Caddyfile aborts
// a body that stalls.
func TestBodyTimeouts(t *testing.T) {
	files, err := filepath.Glob("*.Caddyfile")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding examples: %v, %v", files, err)
	}
	t.Setenv("TOLLGATE_SECRET", "a secret of thirty-two characters")
	for _, file := range append(files, "../Caddyfile") {
		var config struct {
			Apps struct {
				HTTP struct {
					Servers map[string]struct {
						Idle caddy.Duration `json:"read_idle_timeout"`
						Rate int64          `json:"read_min_rate"`
					}
				}
			}
		}
		if err := json.Unmarshal(adapt(t, file, read(t, file)), &config); err != nil {
			t.Fatal(err)
		}
		if len(config.Apps.HTTP.Servers) == 0 {
			t.Errorf("%s has no servers", file)
		}
		for name, server := range config.Apps.HTTP.Servers {
			if time.Duration(server.Idle) != 10*time.Second || server.Rate != 250 {
				t.Errorf("%s, %s: read_body_idle is %v %d, want 10s 250", file, name, time.Duration(server.Idle), server.Rate)
			}
		}
	}
}

// TestPlanFreeOfTheCurrencyAPI checks that the plan free of each shipped
// Caddyfile of the currency API gives no access: it is for Starter and higher
// plans.
func TestPlanFreeOfTheCurrencyAPI(t *testing.T) {
	files, err := filepath.Glob("*.Caddyfile")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding examples: %v, %v", files, err)
	}
	t.Setenv("TOLLGATE_SECRET", "a secret of thirty-two characters")
	found := 0
	for _, file := range append(files, "../Caddyfile") {
		var config struct {
			Apps struct{ Tollgate caddymodule.App }
		}
		if err := json.Unmarshal(adapt(t, file, read(t, file)), &config); err != nil {
			t.Fatal(err)
		}
		gate := &config.Apps.Tollgate
		if !slices.ContainsFunc(gate.Endpoints, func(e policy.EndpointConfig) bool { return e.Pattern == "POST /api/convert/batch" }) {
			continue
		}
		found++
		at := slices.IndexFunc(gate.Plans, func(p policy.PlanConfig) bool { return p.Name == policy.FreePlan })
		if at < 0 || len(gate.Plans[at].Limits)+len(gate.Plans[at].MoreLimits) > 0 {
			t.Errorf("%s: the plan free is missing or gives access", file)
		}
	}
	if found < 2 {
		t.Errorf("%d Caddyfiles have the currency API, want Caddyfile and one-process.Caddyfile at least", found)
	}
}

// TestOneProcess checks that one-process.Caddyfile is the shipped Caddyfile
// with another handler: the same global options, sites and gate.
func TestOneProcess(t *testing.T) {
	t.Setenv("TOLLGATE_SECRET", "a secret of thirty-two characters")
	var forms []any
	for file, handler := range map[string]string{"../Caddyfile": "reverse_proxy", "one-process.Caddyfile": "tollgate_upstream"} {
		var config any
		if err := json.Unmarshal(adapt(t, file, read(t, file)), &config); err != nil {
			t.Fatal(err)
		}
		if n := blank(config, handler); n != 1 {
			t.Errorf("%s has %d handlers %s, want 1", file, n, handler)
		}
		forms = append(forms, config)
	}
	if !reflect.DeepEqual(forms[0], forms[1]) {
		one, _ := json.Marshal(forms[0])
		other, _ := json.Marshal(forms[1])
		t.Errorf("the two files differ:\n%s\n%s", one, other)
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

// TestShippedCaddyfileIsShort checks its length: operators read it first.
func TestShippedCaddyfileIsShort(t *testing.T) {
	if lines := strings.Count(read(t, "../Caddyfile"), "\n"); lines > 80 {
		t.Errorf("the Caddyfile has %d lines, want at most 80", lines)
	}
}

// TestDocumentation adapts and validates the Caddyfiles of the README and
// of docs/. It ignores a block without global options: that is only a part
// of a Caddyfile.
func TestDocumentation(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range append(files, "../README.md") {
		for _, block := range blocks(read(t, file), "caddyfile") {
			if strings.HasPrefix(block, "{\n") {
				found++
				t.Run(filepath.Base(file), func(t *testing.T) { validate(t, file, block) })
			}
		}
	}
	if found == 0 {
		t.Error("the documentation has no Caddyfile")
	}
}

// TestConfigurationSideBySide compares the two forms in the reference: the
// Caddyfile adapts to exactly the JSON.
func TestConfigurationSideBySide(t *testing.T) {
	text := read(t, "../docs/configuration.md")
	caddyfiles, jsons := blocks(text, "caddyfile"), blocks(text, "json")
	if len(caddyfiles) == 0 || len(jsons) == 0 {
		t.Fatal("docs/configuration.md lacks one of the two forms")
	}
	adapted := adapt(t, "configuration.md", caddyfiles[0])
	var got, want struct {
		Apps struct{ Tollgate any }
	}
	if err := json.Unmarshal(adapted, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(jsons[0]), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the Caddyfile adapts to\n%s\nbut docs/configuration.md has\n%s", adapted, jsons[0])
	}
}

// TestEveryOption checks that the example in the reference has every option.
func TestEveryOption(t *testing.T) {
	var config struct {
		Apps struct{ Tollgate map[string]any }
	}
	if err := json.Unmarshal([]byte(blocks(read(t, "../docs/configuration.md"), "json")[0]), &config); err != nil {
		t.Fatal(err)
	}
	app := config.Apps.Tollgate
	for _, name := range missing(reflect.TypeFor[caddymodule.App](), app) {
		t.Errorf("the example lacks %q", name)
	}
	for _, name := range missing(reflect.TypeFor[caddymodule.BadgerStore](), app["store"]) {
		t.Errorf("the store of the example lacks %q", name)
	}
}

// missing returns the options of a struct, and of its nested structs, that
// no JSON value has.
func missing(of reflect.Type, values ...any) (names []string) {
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		var found []any
		for _, value := range values {
			switch v := value.(map[string]any)[name].(type) {
			case nil:
			case []any:
				found = append(found, v...)
			default:
				found = append(found, v)
			}
		}
		option := field.Type
		if option.Kind() == reflect.Slice {
			option = option.Elem()
		}
		switch {
		case len(found) == 0:
			names = append(names, name)
		case option.Kind() == reflect.Struct:
			names = append(names, missing(option, found...)...)
		}
	}
	return names
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
	dir := t.TempDir()
	const secret = "a secret of thirty-two characters"
	if err := os.WriteFile(filepath.Join(dir, "tollgate"), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOLLGATE_SECRET", secret)
	t.Setenv("TOLLGATE_OLD_SECRET", secret)
	t.Setenv("TOLLGATE_WEBHOOK_SECRET", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz")
	t.Setenv("TOLLGATE_INTROSPECTION_SECRET", "f0e1d2c3b4a5968778695a4b3c2d1e0ff0e1d2c3b4a5968778695a4b3c2d1e0f")
	t.Setenv("ALICE_PASSWORD_HASH", "$2a$04$wVTXHQrMPPx6UhLGqnh2nOeXk3jy0oaPnUXIOIoQ1hFf1HWKBI5oq")
	t.Setenv("BOB_PASSWORD_HASH", "$2a$04$wVTXHQrMPPx6UhLGqnh2nOeXk3jy0oaPnUXIOIoQ1hFf1HWKBI5oq")
	t.Setenv("REDIS_PASSWORD", "a password of thirty characters")
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	t.Setenv("TOLLGATE_DATA", filepath.Join(dir, "data"))
	var config caddy.Config
	if err := json.Unmarshal(adapt(t, file, text), &config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&config); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("validate touched the data directory: %v", err)
	}
}

func adapt(t *testing.T, file, text string) []byte {
	t.Helper()
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": file})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Errorf("%s:%d: %s", w.File, w.Line, w.Message)
	}
	return adapted
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
