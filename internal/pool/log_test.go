package pool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap"
)

// A logger of the process logs to the file of the configuration in force, by
// its level, with the name and the fields of the logger.
func TestProcessLog(t *testing.T) {
	dir := t.TempDir()
	load := func(file, level string) {
		t.Helper()
		config := `{"admin":{"disabled":true},"logging":{"logs":{"default":{"level":"` + level + `","writer":{"output":"file","filename":"` +
			filepath.Join(dir, file) + `"}}}}}`
		if err := caddy.Load([]byte(config), true); err != nil {
			t.Fatal(err)
		}
	}
	load("first", "INFO")
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	log := ProcessLog("tollgate.test").With(zap.String("store", "one"))
	log.Info("before")
	load("second", "WARN")
	log.Info("too low")
	log.Warn("after")
	for file, want := range map[string][2]string{"first": {`"msg":"before"`, "after"}, "second": {`"msg":"after"`, "too low"}} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(text); !strings.Contains(got, want[0]) || strings.Contains(got, want[1]) ||
			!strings.Contains(got, `"logger":"tollgate.test"`) || !strings.Contains(got, `"store":"one"`) {
			t.Errorf("%s: got %s", file, got)
		}
	}
}
